"""What a step of a network has to do at least: flops and bytes per layer, phase and kind of operator, by formula.

A multiply-add counts two. Bytes are those of an operator that runs alone and finds nothing in a cache: every array it
needs is read once and its result written once, in float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import Pool2d

FLOAT_BYTES = 4
FORWARD, BACKWARD, OPTIMISER = "forward", "backward", "optimiser"
NO_LAYER = ""
"""The layer of the loss."""
Key = tuple[str, str, str]
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


def network_work(network: Network, training: Training | None = None) -> dict[Key, StepWork]:
    """Everything that a step of inference does; with `training`, of a training step."""
    work: dict[Key, StepWork] = {}
    for layer in network.layers:
        work |= {(layer.name, FORWARD, kind): part for kind, part in _forward(layer, training is not None).items()}
    if training is None:
        return work
    outputs = math.prod(network.output_shape())
    # Softmax and logarithm: subtract the largest, exponential, sum, logarithm, pick. Squares: subtract, square, add.
    per_output = 5 if network.loss == CROSS_ENTROPY else 3
    work[NO_LAYER, FORWARD, "loss"] = StepWork(per_output * outputs, 2 * outputs * FLOAT_BYTES)
    work[NO_LAYER, BACKWARD, "loss"] = StepWork(2 * outputs, 2 * outputs * FLOAT_BYTES)
    for layer in network.layers:
        work |= {(layer.name, BACKWARD, kind): part for kind, part in _backward(layer).items()}
        if layer.parameter_shapes():
            work[layer.name, OPTIMISER, "optimiser"] = _update(layer, training)
    return work


def _forward(layer: Layer, is_training: bool) -> dict[str, StepWork]:
    spec = layer.spec
    if layer.kind == DROPOUT and is_training:
        size = math.prod(layer.output_shape)
        return {"dropout": StepWork(size, 2 * size * FLOAT_BYTES)}
    if spec is None:
        return {}
    if isinstance(spec, Conv2d):
        bare: Conv2d | MatMul = spec.replaced(bias=False, activation="none")
    elif isinstance(spec, MatMul):
        bare = spec.replaced(bias=False)
    else:
        return {_KINDS[type(spec)]: StepWork(spec.flops(), spec.min_bytes())}
    outputs = math.prod(layer.output_shape)
    carried = outputs * FLOAT_BYTES
    parts = {bare.op: StepWork(bare.flops(), bare.min_bytes(), padding_flops=bare.flops() - bare.least_flops())}
    parts["bias"] = StepWork(outputs, 2 * carried + _bias_bytes(layer), carried)
    if layer.activation == "relu":
        parts["relu"] = StepWork(outputs, 2 * carried, carried)
    return parts


def _backward(layer: Layer) -> dict[str, StepWork]:
    """No gradient is needed of what the network is given."""
    spec = layer.spec
    size = math.prod(layer.output_shape)
    if layer.kind == DROPOUT:
        return {"dropout": StepWork(size, 2 * size * FLOAT_BYTES)}
    if isinstance(spec, Pool2d):
        # Reads x and dy, adds each dy to one place of dx.
        return {"pool": StepWork(size, (2 * math.prod(spec.input_shapes()["x"]) + size) * FLOAT_BYTES)}
    if isinstance(spec, LocalResponseNorm):
        # The energy again, the sum of what depends on x, two powers, and five products.
        return {"lrn": StepWork(size * (4 * spec.size + 9), 3 * size * FLOAT_BYTES)}
    if not isinstance(spec, (Conv2d, MatMul)):
        return {}
    forward = _forward(layer, is_training=True)[spec.op]
    # The same three arrays meet, another one of them is the result.
    gradients = 1 if layer.inputs == (IMAGES,) else 2
    parts = {
        spec.op: StepWork(
            gradients * forward.flops, gradients * forward.bytes, padding_flops=gradients * forward.padding_flops
        )
    }
    parts["bias"] = StepWork(size, size * FLOAT_BYTES + _bias_bytes(layer))
    if layer.activation == "relu":
        parts["relu"] = StepWork(size, 3 * size * FLOAT_BYTES, size * FLOAT_BYTES)
    return parts


def _bias_bytes(layer: Layer) -> int:
    return math.prod(layer.parameter_shapes()[f"{layer.name}.b"]) * FLOAT_BYTES


def _update(layer: Layer, training: Training) -> StepWork:
    """w -= rate * velocity: reads w and gradient, writes w; momentum and decay add a multiply-add each."""
    flops = arrays = 0
    for name, shape in layer.parameter_shapes().items():
        has_decay = training.weight_decay and layer.start.weight_decay and name.endswith(".w")
        size = math.prod(shape)
        flops += size * (2 + (2 if training.momentum else 0) + (2 if has_decay else 0))
        arrays += size * (5 if training.momentum else 3)
    return StepWork(flops, arrays * FLOAT_BYTES)


_KINDS: dict[type, str] = {Pool2d: "pool", LocalResponseNorm: "lrn"}
