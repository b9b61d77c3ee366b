"""A network in float64 with plain NumPy: results, gradients and SGD, what every framework is checked against."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from profkit.errors import UnsupportedError
from profkit.ops.conv2d import INPUT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.parts import gradient_specs
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import Pool2d
from profkit.ops.spec import Array, tolerance

Values = NDArray[np.float64]
Weights = Mapping[str, Array]


def reference_logits(network: Network, weights: Weights, images: Array) -> Values:
    """What the last layer gives, in inference."""
    return _forward(network, weights, images)[network.layers[-1].name]


def reference_step(
    network: Network, training: Training, weights: Weights, images: Array, labels: Array
) -> tuple[float, dict[str, Values]]:
    """Loss and new weights of one first step of SGD (which momentum does not change yet)."""
    loss, gradients = reference_gradients(network, weights, images, labels)
    new: dict[str, Values] = {}
    for layer in network.layers:
        for name in layer.parameter_shapes():
            start = weights[name].astype(np.float64)
            decay = layer.start.weight_decay if training.weight_decay and name.endswith(".w") else 0.0
            new[name] = start - training.learning_rate * (gradients[name] + decay * start)
    return loss, new


def reference_gradients(
    network: Network, weights: Weights, images: Array, labels: Array
) -> tuple[float, dict[str, Values]]:
    """Loss (without decay) and its gradient by every parameter."""
    for layer in network.layers:
        if layer.kind == DROPOUT:
            raise UnsupportedError(f"{network.name} with dropout is random in training: compare it with --dropout no")
    values = _forward(network, weights, images)
    loss, upstream = _loss(network, values[network.layers[-1].name], labels)
    arriving: dict[str, Values] = {network.layers[-1].name: upstream}
    gradients: dict[str, Values] = {}
    for layer in reversed(network.layers):
        source = layer.inputs[0]
        dy = arriving[layer.name]
        if layer.activation == "relu":
            dy = dy * (values[layer.name] > 0)
        dx = _backward(layer, values[source], dy, weights, gradients)
        arriving[source] = arriving[source] + dx if source in arriving else dx
    return loss, gradients


def network_tolerance(network: Network, is_training: bool) -> float:
    """Largest accepted error: that of the longest sum, once per layer (and once more on the way back)."""
    longest = max(layer.spec.reduction_length() for layer in network.layers if layer.spec is not None)
    if is_training:
        specs = [layer.spec for layer in network.layers if isinstance(layer.spec, (Conv2d, MatMul))]
        longest = max([longest, *(gradient_specs(spec)[1].reduction_length() for spec in specs)])
    return tolerance(np.dtype(np.float32), longest) * len(network.layers) * (2 if is_training else 1)


def _forward(network: Network, weights: Weights, images: Array) -> dict[str, Values]:
    """Every layer's output by its name."""
    values: dict[str, Values] = {IMAGES: images.astype(np.float64)}
    for layer in network.layers:
        x = values[layer.inputs[0]]
        if isinstance(layer.spec, Conv2d):
            inputs = {"x": x, "w": weights[f"{layer.name}.w"], "b": weights[f"{layer.name}.b"]}
            result = layer.spec.reference(inputs)
        elif isinstance(layer.spec, MatMul):
            inputs = {"a": x, "b": weights[f"{layer.name}.w"], "bias": weights[f"{layer.name}.b"]}
            result = layer.spec.reference(inputs)
            result = np.maximum(result, 0.0) if layer.activation == "relu" else result
        elif layer.spec is not None:
            result = layer.spec.reference({"x": x})
        else:
            result = x.reshape(layer.output_shape)
        values[layer.name] = result
    return values


def _loss(network: Network, output: Values, labels: Array) -> tuple[float, Values]:
    """Mean loss and its gradient by the output."""
    if network.loss == CROSS_ENTROPY:
        shifted = output - output.max(axis=1, keepdims=True)
        logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        rows = np.arange(len(output))
        gradient = np.exp(logarithms)
        gradient[rows, labels] -= 1.0
        return float(-logarithms[rows, labels].mean()), gradient / len(output)
    difference = output - labels
    return float((difference**2).mean()), 2.0 * difference / difference.size


def _backward(layer: Layer, x: Values, dy: Values, weights: Weights, gradients: dict[str, Values]) -> Values:
    """The gradient by the layer's input; those by its parameters go into `gradients`."""
    spec = layer.spec
    if isinstance(spec, (Conv2d, MatMul)):
        by_input, by_weights = gradient_specs(spec)
        gradients[f"{layer.name}.w"] = by_weights.reference(dict(zip(by_weights.input_shapes(), (x, dy))))
        gradients[f"{layer.name}.b"] = dy.sum(axis=(0, 2, 3) if dy.ndim == 4 else 0)
        return by_input.reference(dict(zip(by_input.input_shapes(), (dy, weights[f"{layer.name}.w"]))))
    if isinstance(spec, Pool2d):
        return spec.replaced(direction=INPUT_GRADIENT).reference({"x": x, "dy": dy})
    if isinstance(spec, LocalResponseNorm):
        return lrn_gradient(spec, x, dy)
    return dy.reshape(x.shape)


def lrn_gradient(spec: LocalResponseNorm, x: Values, dy: Values) -> Values:
    """dx = dy s^-beta - 2 alpha/size beta x * sum over the channels that see x of dy x s^(-beta-1)."""
    before, after = spec.reach
    squares = np.pad(x * x, ((0, 0), (before, after), (0, 0), (0, 0)))
    energy = sum(squares[:, i : i + spec.channels] for i in range(spec.size))
    scale = spec.k + spec.alpha / spec.size * energy
    # Channel c is seen by c - after ... c + before.
    seen = np.pad(dy * x * scale ** (-spec.beta - 1), ((0, 0), (after, before), (0, 0), (0, 0)))
    sums = sum(seen[:, i : i + spec.channels] for i in range(spec.size))
    result: Values = dy * scale**-spec.beta - 2 * spec.alpha / spec.size * spec.beta * x * sums
    return result
