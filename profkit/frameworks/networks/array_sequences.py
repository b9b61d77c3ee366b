"""LSTM, attention and the mean over steps in training: array expressions that keep what their gradients need; and the
gradients of both as operators.

`xp` is NumPy or CuPy; sequences are [batch, steps, ...].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from profkit.frameworks.formulas import activated
from profkit.frameworks.networks.array_functions import ArrayCall, DeviceArray, array_module, number
from profkit.ops.conv2d import INPUT_GRADIENT
from profkit.ops.lstm import GATE_GRADIENT, STATE_GRADIENT


def step_mean(x: DeviceArray) -> DeviceArray:
    return x.mean(axis=1)


def step_mean_gradient(xp: Any, steps: int) -> ArrayCall:
    share = number(xp, 1 / steps)
    return lambda dy: xp.repeat((dy * share)[:, None], steps, axis=1)


# --- LSTM: gates i, f, c, o ---

INPUT, FORGET, CANDIDATE, OUTPUT, CELL, HIDDEN = range(6)
"""Planes of a record [steps, 6, batch, cells]: what every step of an LSTM had, for its gradient."""


def lstm_steps(xp: Any, spec: Any) -> ArrayCall:
    """From x w + b [batch, steps, 4 cells] and u to the record."""
    module = array_module(xp)
    activation, gate = (
        partial(activated, module, spec.activation),
        partial(activated, module, spec.recurrent_activation),
    )
    cells = spec.cells

    def run(given: DeviceArray, u: DeviceArray) -> DeviceArray:
        batch, steps, _ = given.shape
        record = xp.empty((steps, 6, batch, cells), given.dtype)
        for number_, step in enumerate(record):
            sums = given[:, number_]
            if number_:
                sums = sums + xp.matmul(record[number_ - 1, HIDDEN], u)
            parts = sums.reshape(batch, 4, cells).swapaxes(0, 1)
            step[INPUT:CANDIDATE] = gate(parts[INPUT:CANDIDATE])
            step[CANDIDATE] = activation(parts[CANDIDATE])
            step[OUTPUT] = gate(parts[OUTPUT])
            xp.multiply(step[INPUT], step[CANDIDATE], out=step[CELL])
            if number_:
                step[CELL] += step[FORGET] * record[number_ - 1, CELL]
            xp.multiply(step[OUTPUT], activation(step[CELL]), out=step[HIDDEN])
        return record

    return run


def lstm_result(xp: Any, spec: Any) -> ArrayCall:
    """From the record to [batch, steps, cells], or to the last [batch, cells]."""
    if spec.returns_sequence:
        return lambda record: xp.ascontiguousarray(record[:, HIDDEN].swapaxes(0, 1))
    return lambda record: record[-1, HIDDEN].copy()


def lstm_gradient(xp: Any, spec: Any) -> ArrayCall:
    """Backward through the steps: from the record, u and dy to the gradient by x w + h u + b."""
    back = _lstm_back(xp, spec)
    return lambda record, u, dy: back(record, u, dy)[0]


def _lstm_back(xp: Any, spec: Any) -> ArrayCall:
    """The same, and the gradients by h and by c before the first step."""
    activation = partial(activated, array_module(xp), spec.activation)
    slope, gate_slope = _SLOPES[spec.activation], _SLOPES[spec.recurrent_activation]
    cells, is_sequence = spec.cells, spec.returns_sequence

    def run(record: DeviceArray, u: DeviceArray, dy: DeviceArray) -> tuple[DeviceArray, ...]:
        steps, _, batch, _ = record.shape
        gradient = xp.empty((batch, steps, 4 * cells), dy.dtype)
        by_hidden: Any = 0
        by_cell: Any = 0
        for place in reversed(range(steps)):
            step = record[place]
            if is_sequence:
                by_hidden = by_hidden + dy[:, place]
            elif place == steps - 1:
                by_hidden = dy
            active = activation(step[CELL])
            by_cell = by_cell + by_hidden * step[OUTPUT] * slope(xp, active)
            parts = gradient[:, place].reshape(batch, 4, cells)
            before = record[place - 1, CELL] if place else number(xp, 0.0)
            parts[:, INPUT] = by_cell * step[CANDIDATE] * gate_slope(xp, step[INPUT])
            parts[:, FORGET] = by_cell * before * gate_slope(xp, step[FORGET])
            parts[:, CANDIDATE] = by_cell * step[INPUT] * slope(xp, step[CANDIDATE])
            parts[:, OUTPUT] = by_hidden * active * gate_slope(xp, step[OUTPUT])
            by_cell = by_cell * step[FORGET]
            by_hidden = xp.matmul(gradient[:, place], u.T)
        return gradient, by_hidden, by_cell

    return run


def _lstm_operator(xp: Any, spec: Any) -> ArrayCall:
    """A gradient from x, w, u, b and dy."""
    forward, back, before = lstm_steps(xp, spec), _lstm_back(xp, spec), lstm_states_before(xp)
    direction, gates = spec.direction, 4 * spec.cells

    def run(x: DeviceArray, w: DeviceArray, u: DeviceArray, b: DeviceArray, dy: DeviceArray) -> DeviceArray:
        record = forward(xp.matmul(x, w) + b, u)
        by_gates, by_h, by_c = back(record, u, dy)
        if direction == INPUT_GRADIENT:
            return xp.matmul(by_gates, w.T)
        if direction == STATE_GRADIENT:
            return xp.stack([by_h, by_c])
        if direction == GATE_GRADIENT:
            return by_gates
        rows = by_gates.reshape(-1, gates)
        factors = [x.reshape(-1, spec.inputs), before(record).reshape(-1, spec.cells)]
        return xp.concatenate([*(each.T @ rows for each in factors), rows.sum(axis=0)[None]])

    return run


def lstm_states_before(xp: Any) -> ArrayCall:
    """What u met in each step: the hidden states of the step before, [batch, steps, cells]."""

    def run(record: DeviceArray) -> DeviceArray:
        return states_before(xp)(record[:, HIDDEN].swapaxes(0, 1))

    return run


def states_before(xp: Any) -> ArrayCall:
    """The same from the result of every step, [batch, steps, cells]."""

    def run(sequence: DeviceArray) -> DeviceArray:
        states = xp.zeros(sequence.shape, sequence.dtype)
        states[:, 1:] = sequence[:, :-1]
        return states

    return run


def last_step(xp: Any) -> ArrayCall:
    return lambda sequence: xp.ascontiguousarray(sequence[:, -1])


_SLOPES: dict[str, Callable[[Any, DeviceArray], DeviceArray]] = {
    "tanh": lambda xp, y: 1 - y * y,
    "sigmoid": lambda xp, y: y * (1 - y),
    "hard_sigmoid": lambda xp, y: ((y > 0) & (y < 1)) * y.dtype.type(0.2),
}
"""By the function's result."""


# --- Attention: q, k, v [batch, steps, heads width] ---


def attention_shares(xp: Any, spec: Any) -> ArrayCall:
    """From q and k to [batch, heads, steps, steps]: how much of every step's value a step takes."""
    scale = number(xp, 1 / math.sqrt(spec.width), spec.numpy_dtype)
    hidden = xp.triu(xp.full((spec.steps, spec.steps), -xp.inf, xp.float32), 1) if spec.causal else None

    def run(q: DeviceArray, k: DeviceArray) -> DeviceArray:
        scores = xp.matmul(_heads(q, spec) * scale, _heads(k, spec).swapaxes(2, 3))
        if hidden is not None:
            scores += hidden
        scores -= scores.max(axis=3, keepdims=True)
        xp.exp(scores, out=scores)
        scores /= scores.sum(axis=3, keepdims=True)
        return scores

    return run


def attention_result(xp: Any, spec: Any) -> ArrayCall:
    return lambda shares, v: _joined(xp, xp.matmul(shares, _heads(v, spec)))


def attention_by_values(xp: Any, spec: Any) -> ArrayCall:
    return lambda shares, dy: _joined(xp, xp.matmul(shares.swapaxes(2, 3), _heads(dy, spec)))


def attention_by_scores(xp: Any, spec: Any) -> ArrayCall:
    """From the shares, v and dy to the gradient by q k^T, [batch, heads, steps, steps]."""
    scale = number(xp, 1 / math.sqrt(spec.width), spec.numpy_dtype)

    def run(shares: DeviceArray, v: DeviceArray, dy: DeviceArray) -> DeviceArray:
        gradient = xp.matmul(_heads(dy, spec), _heads(v, spec).swapaxes(2, 3))
        gradient -= (gradient * shares).sum(axis=3, keepdims=True)
        gradient *= shares
        gradient *= scale
        return gradient

    return run


def attention_by_queries(xp: Any, spec: Any) -> ArrayCall:
    return lambda by_scores, k: _joined(xp, xp.matmul(by_scores, _heads(k, spec)))


def attention_by_keys(xp: Any, spec: Any) -> ArrayCall:
    return lambda by_scores, q: _joined(xp, xp.matmul(by_scores.swapaxes(2, 3), _heads(q, spec)))


def _attention_operator(xp: Any, spec: Any) -> ArrayCall:
    """The gradients by q, k and v, one after the other, from q, k, v and dy."""
    shares_of, by_scores = attention_shares(xp, spec), attention_by_scores(xp, spec)
    by_q, by_k, by_v = (make(xp, spec) for make in (attention_by_queries, attention_by_keys, attention_by_values))

    def run(q: DeviceArray, k: DeviceArray, v: DeviceArray, dy: DeviceArray) -> DeviceArray:
        shares = shares_of(q, k)
        scores = by_scores(shares, v, dy)
        return xp.stack([by_q(scores, k), by_k(scores, q), by_v(shares, dy)])

    return run


def sequence_gradient(xp: Any, spec: Any) -> ArrayCall:
    """The call for a gradient of lstm or attention: its inputs in their order in, a fresh result out."""
    return _lstm_operator(xp, spec) if spec.op == "lstm" else _attention_operator(xp, spec)


def _heads(x: DeviceArray, spec: Any) -> DeviceArray:
    """A view [batch, heads, steps, width]."""
    return x.reshape(spec.batch, spec.steps, spec.heads, spec.width).swapaxes(1, 2)


def _joined(xp: Any, x: DeviceArray) -> DeviceArray:
    """The heads of every step beside each other again."""
    batch, heads, steps, width = x.shape
    return xp.ascontiguousarray(x.swapaxes(1, 2)).reshape(batch, steps, heads * width)
