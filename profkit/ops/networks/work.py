"""What a step of a network has to do at least: flops and bytes per layer, phase and kind of operator, by formula.

A multiply-add counts two. Bytes are those of an operator that runs alone and finds nothing in a cache: every array it
needs is read once and its result written once, in float32.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from profkit.ops.activation import RELU
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import AVERAGE
from profkit.ops.spec import Spec

FLOAT_BYTES = 4
FORWARD, BACKWARD, OPTIMISER = "forward", "backward", "optimiser"
NO_LAYER = ""
"""The layer of the loss."""
WorkKey = tuple[str, str, str]
"""Layer, phase, kind."""


@dataclass(frozen=True)
class StepWork:
    """Of one step."""

    flops: int = 0
    bytes: int = 0
    carried_bytes: int = 0
    """Of an operator that changes the result of the one before it (bias, ReLU): the size of that result. Fused into
    it, neither reads nor writes it."""
    padding_flops: int = 0
    """Of the flops: products with the zeros around an image. Counted as everybody counts them, but a kernel may leave
    them out, so no bound may contain them."""

    @property
    def least_flops(self) -> int:
        """What no kernel of the textbook algorithm can avoid."""
        return self.flops - self.padding_flops


def fused(parts: Iterable[StepWork]) -> StepWork:
    """The work of one operator that does all of these, in this order."""
    first, *others = parts
    return StepWork(
        first.flops + sum(each.flops for each in others),
        first.bytes + sum(each.bytes - 2 * each.carried_bytes for each in others),
        first.carried_bytes,
        first.padding_flops + sum(each.padding_flops for each in others),
    )


def network_work(network: Network, training: Training | None = None) -> dict[WorkKey, StepWork]:
    """Everything that a step of inference does; with `training`, of a training step."""
    work: dict[WorkKey, StepWork] = {}
    for layer in network.layers:
        parts = _forward(network, layer, training is not None)
        work |= {(layer.name, FORWARD, kind): part for kind, part in parts.items()}
    if training is None:
        return work
    outputs = math.prod(network.output_shape())
    # Softmax and logarithm: subtract the largest, exponential, sum, logarithm, pick. Squares: subtract, square, add.
    # Of a logit: the larger of it and 0, the product with the label, exponential, logarithm, three additions.
    per_output = {CROSS_ENTROPY: 5, BINARY_CROSS_ENTROPY: 7}.get(network.loss, 3)
    work[NO_LAYER, FORWARD, "loss"] = StepWork(per_output * outputs, 2 * outputs * FLOAT_BYTES)
    work[NO_LAYER, BACKWARD, "loss"] = StepWork(2 * outputs, 2 * outputs * FLOAT_BYTES)
    readers = Counter(source for layer in network.layers for source in layer.inputs)
    for layer in network.layers:
        if network.has_gradient(layer.name):
            own = _BACKWARD.get(layer.kind)
            parts = own(layer) if own else _gradient(network, layer)
            if readers[layer.name] > 1:
                parts = {**parts, "add": _sums(layer, readers[layer.name] - 1)}
            work |= {(layer.name, BACKWARD, kind): part for kind, part in parts.items()}
        if layer.parameter_shapes():
            work[layer.name, OPTIMISER, "optimiser"] = _update(layer, training)
    return work


def kind_of(layer: Layer) -> str:
    """What the layer's own operator is called beside bias and ReLU."""
    spec: Any = layer.spec
    if layer.kind == kinds.ACTIVATION and spec.function == RELU:
        return "relu"
    return "pool" if layer.kind == kinds.POOL2D else layer.kind


def _forward(network: Network, layer: Layer, is_training: bool) -> dict[str, StepWork]:
    spec: Any = layer.spec_for(is_training)
    size = math.prod(layer.output_shape)
    taken = sum(math.prod(network.shape_of(source)) for source in layer.inputs)
    if layer.kind == kinds.FLATTEN or (layer.kind == kinds.DROPOUT and not is_training):
        return {}
    if layer.kind in (kinds.DROPOUT, kinds.CONCAT, kinds.MEAN):
        flops = {kinds.DROPOUT: size, kinds.CONCAT: 0, kinds.MEAN: taken}[layer.kind]
        return {layer.kind: StepWork(flops, (taken + size) * FLOAT_BYTES)}
    if layer.kind == kinds.POSITIONS:  # the table is that of one sequence
        return {kinds.ADD: StepWork(size, (taken + size + size // layer.output_shape[0]) * FLOAT_BYTES)}
    if layer.kind not in (kinds.CONV2D, kinds.DENSE):
        return {kind_of(layer): _alone(spec)}
    bare = spec.replaced(bias=False, activation="none")
    carried = size * FLOAT_BYTES
    parts = {bare.op: StepWork(bare.flops(), bare.min_bytes(), padding_flops=bare.flops() - bare.least_flops())}
    if spec.bias:
        parts["bias"] = StepWork(size, 2 * carried + _bias_bytes(layer), carried)
    if layer.activation == "relu":
        parts["relu"] = StepWork(size, 2 * carried, carried)
    return parts


def _alone(spec: Spec) -> StepWork:
    return StepWork(spec.flops(), spec.min_bytes())


def _sums(layer: Layer, count: int) -> StepWork:
    """Of the gradients of a result that several layers take."""
    size = math.prod(layer.output_shape)
    return StepWork(count * size, 3 * count * size * FLOAT_BYTES)


# --- Backward: no gradient is needed of what depends on no parameter ---


def _by_products(network: Network, layer: Layer) -> dict[str, StepWork]:
    spec: Any = layer.spec
    size = math.prod(layer.output_shape)
    forward = _forward(network, layer, is_training=True)[spec.op]
    # The same three arrays meet, another one of them is the result.
    gradients = 2 if network.has_gradient(layer.inputs[0]) else 1
    parts = {
        spec.op: StepWork(
            gradients * forward.flops, gradients * forward.bytes, padding_flops=gradients * forward.padding_flops
        )
    }
    if spec.bias:
        parts["bias"] = StepWork(size, size * FLOAT_BYTES + _bias_bytes(layer))
    if layer.activation == "relu":
        parts["relu"] = StepWork(size, 3 * size * FLOAT_BYTES, size * FLOAT_BYTES)
    return parts


def _by_pool(layer: Layer) -> dict[str, StepWork]:
    spec: Any = layer.spec
    size = math.prod(layer.output_shape)
    if spec.mode == AVERAGE:
        return {"pool": _alone(spec.replaced(direction=INPUT_GRADIENT))}
    # Reads x and dy, adds each dy to one place of dx.
    return {"pool": StepWork(size, (2 * math.prod(spec.x_shape()) + size) * FLOAT_BYTES)}


def _by_norm(layer: Layer) -> dict[str, StepWork]:
    """The gradient by the input makes those by the parameters on its way."""
    spec: Any = layer.spec_for(is_training=True)
    by_input = _alone(spec.replaced(direction=INPUT_GRADIENT))
    parameters = sum(map(math.prod, layer.parameter_shapes().values()))
    return {layer.kind: StepWork(by_input.flops, by_input.bytes + parameters * FLOAT_BYTES)}


def _by_lstm(layer: Layer) -> dict[str, StepWork]:
    """Each product twice, by the one factor and by the other; every array once more, and its gradient."""
    spec: Any = layer.spec
    return {layer.kind: StepWork(2 * spec.flops(), 2 * spec.min_bytes())}


def _by_attention(layer: Layer) -> dict[str, StepWork]:
    """Four products instead of two, and the gradient of softmax; q, k, v and dy in, three gradients out."""
    spec: Any = layer.spec
    flops = spec.pairs * (8 * spec.width + 5)
    return {layer.kind: StepWork(flops, 7 * math.prod(layer.output_shape) * FLOAT_BYTES)}


def _gradient(network: Network, layer: Layer) -> dict[str, StepWork]:
    """Of the kinds whose gradients are like them."""
    if layer.kind in (kinds.CONV2D, kinds.DENSE):
        return _by_products(network, layer)
    size = math.prod(layer.output_shape)
    if layer.kind in (kinds.ACTIVATION, kinds.LRN) and layer.spec is not None:
        return {kind_of(layer): _alone(layer.spec.replaced(direction=INPUT_GRADIENT))}
    if layer.kind == kinds.EMBEDDING and layer.spec is not None:
        return {kinds.EMBEDDING: _alone(layer.spec.replaced(direction=WEIGHT_GRADIENT))}
    if layer.kind == kinds.DROPOUT:
        return {kinds.DROPOUT: StepWork(size, 2 * size * FLOAT_BYTES)}
    if layer.kind in (kinds.CONCAT, kinds.MEAN):
        return {layer.kind: StepWork(0, _forward(network, layer, is_training=True)[layer.kind].bytes)}
    return {}  # flatten, add and positions: the gradient is that of the result


_BACKWARD: dict[str, Callable[[Layer], dict[str, StepWork]]] = {
    **dict.fromkeys((kinds.BATCH_NORM, kinds.LAYER_NORM), _by_norm),
    kinds.POOL2D: _by_pool,
    kinds.LSTM: _by_lstm,
    kinds.ATTENTION: _by_attention,
}


def _bias_bytes(layer: Layer) -> int:
    return math.prod(layer.parameter_shapes()[f"{layer.name}.b"]) * FLOAT_BYTES


def _update(layer: Layer, training: Training) -> StepWork:
    """Of every parameter: reads it, its gradient and the optimiser's states, writes it and them."""
    flops = moved = 0
    for name, shape in layer.parameter_shapes().items():
        spec = training.step_spec(math.prod(shape), layer.decay_of(name))
        flops, moved = flops + spec.flops(), moved + spec.min_bytes()
    return StepWork(flops, moved)
