"""Operators of layers with the functions that array modules have in common: NumPy, CuPy, jax.numpy and keras.ops.

`formula` gives what computes a spec from its inputs, in their order. Functions that only some modules have (an error
function, sums by index) are passed in. Standard library and NumPy 1.23 only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profkit import ops
from profkit.frameworks.layouts import channel_shape
from profkit.ops.activation import GELU, HARD_SIGMOID, RELU, SCALED_TANH, SIGMOID, TANH, TANH_HEIGHT, TANH_SLOPE
from profkit.ops.batch_norm import INFERENCE, PARAMETER_GRADIENT
from profkit.ops.bias_relu import BIAS_GRADIENT
from profkit.ops.conv2d import FORWARD
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD

Values = Any
Run = Callable[..., Values]


@dataclass(frozen=True)
class Module:
    """An array module, and what goes by another name in each."""

    xp: Any
    erf: Callable[[Values], Values]
    sums_by_index: Callable[[Values, Values, int], Values]
    """From rows, their indices and the number of sums."""


def formula(module: Module, spec: Any) -> Run:
    """What computes the spec from its inputs, in their order."""
    formulas: dict[str, Callable[[Module, Any], Run]] = {
        "activation": _activation,
        "add": lambda module, spec: lambda a, b: a + b,
        "dropout": lambda module, spec: lambda x, mask: x * mask,
        "batch_norm": _batch_norm,
        "layer_norm": _layer_norm,
        "embedding": _embedding,
        "lstm": _lstm,
        "attention": _attention,
        "optimiser_step": _optimiser_step,
        "softmax": _softmax_gradient,
        "bias_relu": _bias_relu_gradient,
        "lrn": _lrn_gradient,
    }
    return formulas[spec.op](module, spec)


def activated(module: Module, function: str, x: Values) -> Values:
    """The function of an array."""
    xp = module.xp
    if function == RELU:
        return xp.maximum(x, 0.0)
    if function == TANH:
        return xp.tanh(x)
    if function == SCALED_TANH:
        return TANH_HEIGHT * xp.tanh(TANH_SLOPE * x)
    if function == SIGMOID:
        return 0.5 + 0.5 * xp.tanh(0.5 * x)  # an exponential would overflow
    if function == HARD_SIGMOID:
        return xp.clip(0.2 * x + 0.5, 0.0, 1.0)
    return 0.5 * x * (1.0 + module.erf(math.sqrt(0.5) * x))


def _times_derivative(module: Module, function: str, x: Values, dy: Values) -> Values:
    xp = module.xp
    if function == RELU:
        return (x > 0.0) * dy
    if function == HARD_SIGMOID:
        return (xp.abs(x) < 2.5) * (0.2 * dy)
    if function == GELU:
        density = math.sqrt(0.5 / math.pi) * xp.exp(-0.5 * x * x)
        return (0.5 * (1.0 + module.erf(math.sqrt(0.5) * x)) + x * density) * dy
    y = activated(module, function, x)
    if function == SIGMOID:
        return y * (1.0 - y) * dy
    if function == TANH:
        return (1.0 - y * y) * dy
    return (TANH_SLOPE * (TANH_HEIGHT - y * y / TANH_HEIGHT)) * dy


def _activation(module: Module, spec: ops.Activation) -> Run:
    if spec.direction == FORWARD:
        return lambda x: activated(module, spec.function, x)
    return lambda x, dy: _times_derivative(module, spec.function, x, dy)


def _normalised(xp: Any, x: Values, axes: Any, epsilon: float) -> tuple[Values, Values]:
    """x with mean 0 and variance 1 over some axes, and 1 / its deviation."""
    centred = x - xp.mean(x, axis=axes, keepdims=True)
    inverse = 1.0 / xp.sqrt(xp.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    return centred * inverse, inverse


def _batch_norm(module: Module, spec: ops.BatchNorm) -> Run:
    xp, channels = module.xp, channel_shape(spec.layout)
    axes = (0, 2, 3) if spec.layout == "NCHW" else (0, 1, 2)

    def forward(x: Values, scale: Values, shift: Values) -> Values:
        normal, _ = _normalised(xp, x, axes, spec.epsilon)
        return normal * xp.reshape(scale, channels) + xp.reshape(shift, channels)

    def inference(x: Values, scale: Values, shift: Values, mean: Values, variance: Values) -> Values:
        factor = scale / xp.sqrt(variance + spec.epsilon)
        return x * xp.reshape(factor, channels) + xp.reshape(shift - mean * factor, channels)

    def by_parameters(x: Values, dy: Values) -> Values:
        normal, _ = _normalised(xp, x, axes, spec.epsilon)
        return xp.stack([xp.sum(dy * normal, axis=axes), xp.sum(dy, axis=axes)])

    def by_input(x: Values, scale: Values, dy: Values) -> Values:
        normal, inverse = _normalised(xp, x, axes, spec.epsilon)
        along = xp.mean(dy * normal, axis=axes, keepdims=True)
        centred = dy - xp.mean(dy, axis=axes, keepdims=True) - normal * along
        return centred * (inverse * xp.reshape(scale, channels))

    if spec.direction != FORWARD:
        return by_parameters if spec.direction == PARAMETER_GRADIENT else by_input
    return inference if spec.mode == INFERENCE else forward


def _layer_norm(module: Module, spec: ops.LayerNorm) -> Run:
    xp = module.xp

    def forward(x: Values, scale: Values, shift: Values) -> Values:
        return _normalised(xp, x, 1, spec.epsilon)[0] * scale + shift

    def by_parameters(x: Values, dy: Values) -> Values:
        normal, _ = _normalised(xp, x, 1, spec.epsilon)
        return xp.stack([xp.sum(dy * normal, axis=0), xp.sum(dy, axis=0)])

    def by_input(x: Values, scale: Values, dy: Values) -> Values:
        normal, inverse = _normalised(xp, x, 1, spec.epsilon)
        scaled = dy * scale
        along = xp.mean(scaled * normal, axis=1, keepdims=True)
        return (scaled - xp.mean(scaled, axis=1, keepdims=True) - normal * along) * inverse

    if spec.direction == FORWARD:
        return forward
    return by_parameters if spec.direction == PARAMETER_GRADIENT else by_input


def _embedding(module: Module, spec: ops.Embedding) -> Run:
    if spec.direction == FORWARD:
        return lambda indices, table: module.xp.take(table, indices, axis=0)
    return lambda indices, dy: module.sums_by_index(dy, indices, spec.vocabulary)


def lstm_step(module: Module, spec: ops.Lstm, z: Values, c: Values) -> tuple[Values, Values]:
    """h and c of a step, from the sums of all gates and the c before it."""
    cells = spec.cells
    i, f, o = (
        activated(module, spec.recurrent_activation, z[:, gate * cells : (gate + 1) * cells]) for gate in (0, 1, 3)
    )
    c = f * c + i * activated(module, spec.activation, z[:, 2 * cells : 3 * cells])
    return o * activated(module, spec.activation, c), c


def _lstm(module: Module, spec: ops.Lstm) -> Run:
    """The products with x of all steps at once, then step by step."""
    xp = module.xp

    def run(x: Values, w: Values, u: Values, b: Values) -> Values:
        sums = xp.matmul(x, w) + b
        h, c = lstm_step(module, spec, sums[:, 0], xp.zeros((spec.batch, spec.cells), x.dtype))
        results = [h]
        for step in range(1, spec.steps):
            h, c = lstm_step(module, spec, sums[:, step] + xp.matmul(h, u), c)
            results.append(h)
        return xp.stack(results, axis=1) if spec.returns_sequence else h

    return run


def _attention(module: Module, spec: ops.Attention) -> Run:
    xp, scale, shape = module.xp, 1.0 / math.sqrt(spec.width), spec.result_shape()

    def heads(values: Values) -> Values:
        return xp.transpose(xp.reshape(values, (spec.batch, spec.steps, spec.heads, spec.width)), (0, 2, 1, 3))

    def run(q: Values, k: Values, v: Values) -> Values:
        scores = xp.matmul(heads(q) * scale, xp.transpose(heads(k), (0, 1, 3, 2)))
        if spec.causal:
            positions = xp.arange(spec.steps)
            scores = xp.where(positions[:, None] >= positions[None, :], scores, -math.inf)
        powers = xp.exp(scores - xp.max(scores, axis=3, keepdims=True))
        weights = powers / xp.sum(powers, axis=3, keepdims=True)
        return xp.reshape(xp.transpose(xp.matmul(weights, heads(v)), (0, 2, 1, 3)), shape)

    return run


def _optimiser_step(module: Module, spec: ops.OptimiserStep) -> Run:
    xp, (rate, root) = module.xp, spec.adam_factors()

    def decayed(w: Values, g: Values) -> Values:
        return g + spec.weight_decay * w if spec.weight_decay else g

    def adam(w: Values, g: Values, m: Values, v: Values) -> Values:
        g = decayed(w, g)
        m = spec.beta1 * m + (1.0 - spec.beta1) * g
        v = spec.beta2 * v + (1.0 - spec.beta2) * (g * g)
        return xp.stack([w - rate * m / (xp.sqrt(v) * root + spec.epsilon), m, v])

    def rmsprop(w: Values, g: Values, s: Values) -> Values:
        g = decayed(w, g)
        s = spec.rho * s + (1.0 - spec.rho) * (g * g)
        return xp.stack([w - spec.learning_rate * g / (xp.sqrt(s) + spec.epsilon), s])

    def sgd(w: Values, g: Values, velocity: Values = None) -> Values:
        g = decayed(w, g)
        if velocity is None:
            return xp.stack([w - spec.learning_rate * g])
        velocity = spec.momentum * velocity + g
        along = g + spec.momentum * velocity if spec.nesterov else velocity
        return xp.stack([w - spec.learning_rate * along, velocity])

    ways: dict[str, Run] = {SGD: sgd, ADAM: adam, RMSPROP: rmsprop}
    return ways[spec.optimiser]


def _softmax_gradient(module: Module, spec: ops.Softmax) -> Run:
    xp = module.xp

    def run(x: Values, labels: Values) -> Values:
        powers = xp.exp(x - xp.max(x, axis=1, keepdims=True))
        return powers / xp.sum(powers, axis=1, keepdims=True) - labels

    return run


def _bias_relu_gradient(module: Module, spec: ops.BiasRelu) -> Run:
    xp = module.xp
    axes = (0, 2, 3) if spec.layout == "NCHW" else (0, 1, 2)
    if spec.direction == BIAS_GRADIENT:
        return lambda y, dy: xp.sum(xp.where(y > 0.0, dy, 0.0), axis=axes)
    return lambda y, dy: xp.where(y > 0.0, dy, 0.0)


def _lrn_gradient(module: Module, spec: ops.LocalResponseNorm) -> Run:
    xp, (before, after) = module.xp, spec.reach
    at = 1 if spec.layout == "NCHW" else 3
    share = spec.alpha / spec.size

    def window_sums(values: Values, first: int, last: int) -> Values:
        """Over the channels c - first ... c + last."""
        padded = xp.pad(values, [(first, last) if axis == at else (0, 0) for axis in range(4)])
        parts = [slice(i, i + spec.channels) for i in range(spec.size)]
        return sum(padded[:, part] if at == 1 else padded[..., part] for part in parts)

    def run(x: Values, dy: Values) -> Values:
        base = spec.k + share * window_sums(x * x, before, after)
        power = base**-spec.beta
        seen = window_sums(dy * x * power / base, after, before)
        return dy * power - 2.0 * share * spec.beta * x * seen

    return run
