"""A network in float64 with plain NumPy: results, gradients and steps, what every framework is checked against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.errors import UnsupportedError
from profkit.ops.batch_norm import PARAMETER_GRADIENT
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, Network
from profkit.ops.networks.parts import gradient_specs
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.networks.training import Training
from profkit.ops.spec import Array, Spec, tolerance

Values = NDArray[np.float64]
Weights = Mapping[str, Array]
KEPT = 0.9
"""Share of the running mean and variance that a step of training keeps."""


@dataclass
class Step:
    """One pass over a network: what the layers are given and what they gave."""

    network: Network
    weights: Weights
    images: Array
    is_training: bool = False
    masks: Mapping[str, Array] = field(default_factory=dict)
    values: dict[str, Values] = field(default_factory=dict)
    gradients: dict[str, Values] = field(default_factory=dict)

    def inputs(self, layer: Layer) -> list[Values]:
        return [self.values[source] for source in layer.inputs]

    def weight(self, layer: Layer, name: str) -> Array:
        return self.weights[f"{layer.name}.{name}"]

    def forward(self) -> Values:
        """The result of the last layer."""
        is_index = self.network.vocabulary > 0
        self.values[IMAGES] = self.images if is_index else self.images.astype(np.float64)
        for layer in self.network.layers:
            result = _FORWARD.get(layer.kind, _operator)(self, layer)
            self.values[layer.name] = np.maximum(result, 0.0) if layer.activation == "relu" else result
        return self.values[self.network.layers[-1].name]

    def backward(self, by_result: Values) -> None:
        """Gradients by every parameter; those by the layers are added up where several take the same."""
        arriving = {self.network.layers[-1].name: by_result}
        for layer in reversed(self.network.layers):
            if not self.network.has_gradient(layer.name):
                continue
            dy = arriving.pop(layer.name)
            if layer.activation == "relu":
                dy = dy * (self.values[layer.name] > 0)
            for source, dx in zip(layer.inputs, _BACKWARD[layer.kind](self, layer, dy)):
                if self.network.has_gradient(source):
                    arriving[source] = arriving[source] + dx if source in arriving else dx


def reference_logits(network: Network, weights: Weights, images: Array) -> Values:
    """What the last layer gives, in inference."""
    return Step(network, weights, images).forward()


def reference_gradients(
    network: Network, weights: Weights, images: Array, labels: Array, masks: Mapping[str, Array] | None = None
) -> tuple[float, dict[str, Values]]:
    """Loss (without decay) and its gradient by every parameter."""
    loss, gradients, _ = reference_training(network, weights, images, labels, masks)
    return loss, gradients


def reference_training(
    network: Network, weights: Weights, images: Array, labels: Array, masks: Mapping[str, Array] | None = None
) -> tuple[float, dict[str, Values], dict[str, Values]]:
    """Likewise, and the running mean and variance of every batch normalisation after the step."""
    step = _trained(network, weights, images, masks)
    loss, by_result = loss_and_gradient(network, step.values[network.layers[-1].name], labels)
    step.backward(by_result)
    return loss, {name: step.gradients[name] for name in network.parameter_shapes()}, _states(step)


def reference_step(
    network: Network,
    training: Training,
    weights: Weights,
    images: Array,
    labels: Array,
    masks: Mapping[str, Array] | None = None,
) -> tuple[float, dict[str, Values]]:
    """Loss, and all new weights and states of one first step."""
    loss, gradients, states = reference_training(network, weights, images, labels, masks)
    return loss, {**Optimiser(network, training).step(weights, gradients), **states}


def dropout_masks(network: Network, seed: int = 0, step: int = 0) -> dict[str, Array]:
    """Of every dropout layer in a step: 0 or 1/(1-rate), the same numbers for every framework."""
    generator = np.random.default_rng((seed, 1, step))
    return {
        layer.name: ((generator.random(layer.output_shape) >= layer.rate) / (1 - layer.rate)).astype(np.float32)
        for layer in network.layers
        if layer.kind == kinds.DROPOUT
    }


class Optimiser:
    """The steps of a Training in float64, one after another."""

    def __init__(self, network: Network, training: Training) -> None:
        self._network, self._training = network, training
        self._states: dict[str, list[Array]] = {}
        self._number = 0

    def step(self, weights: Weights, gradients: Mapping[str, Array], epoch: int = 0) -> dict[str, Values]:
        """The new parameters."""
        new: dict[str, Values] = {}
        for layer in self._network.layers:
            for name in layer.parameter_shapes():
                new[name] = self._updated(name, layer.decay_of(name), weights[name], gradients[name], epoch)
        self._number += 1
        return new

    def _updated(self, name: str, decay: float, w: Array, gradient: Array, epoch: int) -> Values:
        spec = self._training.step_spec(w.size, decay, epoch, self._number)
        count = len(spec.input_shapes()) - 2
        states = self._states.setdefault(name, [np.zeros(w.size) for _ in range(count)])
        arrays = [w.astype(np.float64).ravel(), gradient.ravel(), *states]
        new, *self._states[name] = spec.reference(dict(zip(spec.input_shapes(), arrays)))
        result: Values = new.reshape(w.shape)
        return result


def network_tolerance(network: Network, is_training: bool) -> float:
    """Largest accepted error: that of the longest sum, once per layer (and once more on the way back)."""
    longest = max(layer.spec.reduction_length() for layer in network.layers if layer.spec is not None)
    if is_training:
        specs: list[Any] = [layer.spec for layer in network.layers if layer.kind in (kinds.CONV2D, kinds.DENSE)]
        longest = max([longest, *(gradient_specs(spec)[1].reduction_length() for spec in specs)])
    return tolerance(np.dtype(np.float32), longest) * len(network.layers) * (2 if is_training else 1)


def loss_and_gradient(network: Network, output: Values, labels: Array) -> tuple[float, Values]:
    """Of the network's loss, by what its last layer gives."""
    if network.loss == CROSS_ENTROPY:
        shifted = output - output.max(axis=1, keepdims=True)
        logarithms = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        rows = np.arange(len(output))
        gradient = np.exp(logarithms)
        gradient[rows, labels] -= 1.0
        return float(-logarithms[rows, labels].mean()), gradient / len(output)
    if network.loss == BINARY_CROSS_ENTROPY:
        each = np.maximum(output, 0.0) - output * labels + np.log1p(np.exp(-np.abs(output)))
        return float(each.mean()), (0.5 + 0.5 * np.tanh(0.5 * output) - labels) / output.size
    difference = output - labels
    return float((difference**2).mean()), 2.0 * difference / difference.size


def _trained(network: Network, weights: Weights, images: Array, masks: Mapping[str, Array] | None) -> Step:
    """A forward pass of training."""
    dropout = [layer.name for layer in network.layers if layer.kind == kinds.DROPOUT]
    if missing := [name for name in dropout if name not in (masks or {})]:
        raise UnsupportedError(f"{network.name} has dropout ({', '.join(missing)}): its masks are needed")
    step = Step(network, weights, images, True, masks or {})
    step.forward()
    return step


def _states(step: Step) -> dict[str, Values]:
    states: dict[str, Values] = {}
    for layer in step.network.layers:
        if layer.kind != kinds.BATCH_NORM:
            continue
        spec: Any = layer.spec
        (x,) = step.inputs(layer)
        for name, now in zip(("mean", "variance"), spec.statistics({"x": x.reshape(spec.x_shape())})):
            states[f"{layer.name}.{name}"] = KEPT * step.weight(layer, name) + (1 - KEPT) * now
    return states


def _applied(spec: Spec | None, shape: Shape, *inputs: Array) -> Values:
    """The operator's float64 reference, from and to the layers' shapes."""
    assert spec is not None
    shapes = spec.input_shapes()
    result = spec.reference({name: array.reshape(shapes[name]) for name, array in zip(shapes, inputs)})
    return result.reshape(shape)


# --- Forward ---


def _operator(step: Step, layer: Layer) -> Values:
    """The layer's operator with its inputs and its parameters."""
    parameters = [step.weights[name] for name in layer.parameter_shapes()]
    return _applied(layer.spec, layer.output_shape, *step.inputs(layer), *parameters)


def _batch_norm(step: Step, layer: Layer) -> Values:
    names = ["scale", "shift", *([] if step.is_training else ["mean", "variance"])]
    given = [step.weight(layer, name) for name in names]
    return _applied(layer.spec_for(step.is_training), layer.output_shape, *step.inputs(layer), *given)


def _dropout(step: Step, layer: Layer) -> Values:
    (x,) = step.inputs(layer)
    return x * step.masks[layer.name] if step.is_training else x


def _reshaped(step: Step, layer: Layer) -> Values:
    return step.inputs(layer)[0].reshape(layer.output_shape)


def _joined(step: Step, layer: Layer) -> Values:
    return np.concatenate(step.inputs(layer), axis=1)


def _positioned(step: Step, layer: Layer) -> Values:
    result: Values = step.inputs(layer)[0] + encoded_positions(*layer.output_shape[1:])
    return result


def _mean(step: Step, layer: Layer) -> Values:
    result: Values = step.inputs(layer)[0].mean(axis=1)
    return result


_FORWARD: dict[str, Callable[[Step, Layer], Values]] = {
    kinds.BATCH_NORM: _batch_norm,
    kinds.DROPOUT: _dropout,
    kinds.FLATTEN: _reshaped,
    kinds.CONCAT: _joined,
    kinds.MEAN: _mean,
    kinds.POSITIONS: _positioned,
}
"""Of the kinds that are not their operator alone."""

# --- Backward: from the gradient by the result to those by the inputs; those by the parameters go into the step ---


def _by_products(step: Step, layer: Layer, dy: Values) -> list[Values]:
    spec: Any = layer.spec
    (x,) = step.inputs(layer)
    by_input, by_weights = gradient_specs(spec)
    w = step.weight(layer, "w")
    step.gradients[f"{layer.name}.w"] = _applied(by_weights, w.shape, x, dy)
    if spec.bias:
        over = (0, 2, 3) if layer.kind == kinds.CONV2D else tuple(range(dy.ndim - 1))
        step.gradients[f"{layer.name}.b"] = dy.sum(axis=over)
    return [_applied(by_input, x.shape, dy, w)] if step.network.has_gradient(layer.inputs[0]) else []


def _by_norm(step: Step, layer: Layer, dy: Values) -> list[Values]:
    (x,) = step.inputs(layer)
    spec = layer.spec_for(is_training=True)
    assert spec is not None
    scale = step.weight(layer, "scale")
    by_parameters = _applied(spec.replaced(direction=PARAMETER_GRADIENT), (2, *scale.shape), x, dy)
    step.gradients[f"{layer.name}.scale"], step.gradients[f"{layer.name}.shift"] = by_parameters
    return [_applied(spec.replaced(direction=INPUT_GRADIENT), x.shape, x, scale, dy)]


def _by_operator(step: Step, layer: Layer, dy: Values) -> list[Values]:
    """Of an operator with one input and no parameters, whose gradient takes x (where it needs it) and dy."""
    (x,) = step.inputs(layer)
    assert layer.spec is not None
    spec = layer.spec.replaced(direction=INPUT_GRADIENT)
    return [_applied(spec, x.shape, *([x, dy] if len(spec.input_shapes()) == 2 else [dy]))]


def _by_table(step: Step, layer: Layer, dy: Values) -> list[Values]:
    assert layer.spec is not None
    (indices,) = step.inputs(layer)
    shape = step.weight(layer, "w").shape
    by_table = layer.spec.replaced(direction=WEIGHT_GRADIENT)
    step.gradients[f"{layer.name}.w"] = _applied(by_table, shape, indices, dy)
    return []


def _by_lstm(step: Step, layer: Layer, dy: Values) -> list[Values]:
    (x,) = step.inputs(layer)
    spec: Any = layer.spec
    given = {name: step.weight(layer, name) for name in "wub"}
    found = spec.gradients({"x": x, **given, "dy": dy})
    step.gradients.update({f"{layer.name}.{name}": getattr(found, name) for name in given})
    return [found.x]


def _by_attention(step: Step, layer: Layer, dy: Values) -> list[Values]:
    q, k, v = step.inputs(layer)
    assert layer.spec is not None
    return list(layer.spec.replaced(direction=INPUT_GRADIENT).reference({"q": q, "k": k, "v": v, "dy": dy}))


def _by_add(_step: Step, _layer: Layer, dy: Values) -> list[Values]:
    return [dy, dy]


def _by_joined(step: Step, layer: Layer, dy: Values) -> list[Values]:
    ends = np.cumsum([x.shape[1] for x in step.inputs(layer)])
    return np.split(dy, ends[:-1], axis=1)


def _by_mean(step: Step, layer: Layer, dy: Values) -> list[Values]:
    (x,) = step.inputs(layer)
    return [np.broadcast_to(dy[:, None] / x.shape[1], x.shape)]


_BACKWARD: dict[str, Callable[[Step, Layer, Values], Sequence[Values]]] = {
    **dict.fromkeys((kinds.CONV2D, kinds.DENSE), _by_products),
    **dict.fromkeys((kinds.BATCH_NORM, kinds.LAYER_NORM), _by_norm),
    **dict.fromkeys((kinds.POOL2D, kinds.LRN, kinds.ACTIVATION), _by_operator),
    kinds.ADD: _by_add,
    kinds.POSITIONS: lambda _step, _layer, dy: [dy],
    kinds.DROPOUT: lambda step, layer, dy: [dy * step.masks[layer.name]],
    kinds.FLATTEN: lambda step, layer, dy: [dy.reshape(step.inputs(layer)[0].shape)],
    kinds.EMBEDDING: _by_table,
    kinds.LSTM: _by_lstm,
    kinds.ATTENTION: _by_attention,
    kinds.CONCAT: _by_joined,
    kinds.MEAN: _by_mean,
}
