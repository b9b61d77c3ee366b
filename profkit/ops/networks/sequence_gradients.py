"""Float64 gradients of the operators over sequences, LSTM and attention, which have no specs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.ops.activation import activated, derivative
from profkit.ops.attention import Attention
from profkit.ops.spec import Array

Values = NDArray[np.float64]


def lstm_gradients(spec: Any, x: Array, w: Array, u: Array, b: Array, dy: Values) -> tuple[Values, ...]:
    """By x, w, u and b; steps forward with everything kept, then back through time."""
    x, w, u, b = (array.astype(np.float64) for array in (x, w, u, b))
    gate, function = spec.recurrent_activation, spec.activation
    h, c = np.zeros((spec.batch, spec.cells)), np.zeros((spec.batch, spec.cells))
    kept = []
    for step in range(spec.steps):
        z_i, z_f, z_c, z_o = np.split(x[:, step] @ w + h @ u + b, 4, axis=1)
        i, f, o = (activated(gate, z) for z in (z_i, z_f, z_o))
        candidate, before, h_before = activated(function, z_c), c, h
        c = f * c + i * candidate
        h = o * activated(function, c)
        kept.append((z_i, z_f, z_c, z_o, i, f, o, candidate, before, c, h_before))
    by_step = np.zeros((spec.batch, spec.steps, spec.cells))
    if spec.returns_sequence:
        by_step += dy
    else:
        by_step[:, -1] = dy
    dx, dw, du, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(u), np.zeros_like(b)
    dh, dc = np.zeros_like(h), np.zeros_like(c)
    for step in reversed(range(spec.steps)):
        z_i, z_f, z_c, z_o, i, f, o, candidate, before, c, h_before = kept[step]
        dh = dh + by_step[:, step]
        dc = dc + dh * o * derivative(function, c)
        dz = np.concatenate(
            [
                dc * candidate * derivative(gate, z_i),
                dc * before * derivative(gate, z_f),
                dc * i * derivative(function, z_c),
                dh * activated(function, c) * derivative(gate, z_o),
            ],
            axis=1,
        )
        dx[:, step] = dz @ w.T
        dw += x[:, step].T @ dz
        du += h_before.T @ dz
        db += dz.sum(axis=0)
        dh, dc = dz @ u.T, dc * f
    return dx, dw, du, db


def attention_gradients(spec: Any, q: Array, k: Array, v: Array, dy: Values) -> tuple[Values, Values, Values]:
    """By q, k and v."""
    assert isinstance(spec, Attention)
    q, k, v, upstream = (spec.by_head(array.astype(np.float64)) for array in (q, k, v, dy))
    weights = spec.weights(q, k)
    by_weights = upstream @ v.swapaxes(2, 3)
    by_scores = weights * (by_weights - (by_weights * weights).sum(axis=3, keepdims=True)) / np.sqrt(spec.width)
    found = (by_scores @ k, by_scores.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ upstream)
    dq, dk, dv = (each.transpose(0, 2, 1, 3).reshape(dy.shape) for each in found)
    return dq, dk, dv
