"""A network's layers, loss and update in JAX, for images that are held as NHWC: a function per kind of layer.

Every layer runs under jax.named_scope of its name, so that XLA's instructions tell whose they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from profkit.frameworks.jax.operators import activated, convolve, normalise, pooling
from profkit.frameworks.layouts import covers_image
from profkit.frameworks.lazy import Tensor, jax
from profkit.frameworks.networks.graph import Evaluation, LayerTable
from profkit.frameworks.networks.nhwc import channel_axis
from profkit.frameworks.networks.optimisers import Numbers, Slots, change, decay_of, slot_names
from profkit.ops.activation import FUNCTIONS
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import AVERAGE

LOSS, OPTIMISER = "loss", "optimiser"
"""Scopes of a training step besides the layers."""
Tensors = dict[str, Any]
HELD = "NHWC"

LAYERS = LayerTable()


@cache
def functions() -> Mapping[str, Callable[[Tensor], Tensor]]:
    """Activations by their names."""
    return {"none": lambda x: x, **{name: activated(name) for name in FUNCTIONS}}


def _finished(run: Evaluation, layer: Layer, y: Tensor) -> Tensor:
    """With bias and the fused activation."""
    spec: Any = layer.spec
    return functions()[layer.activation](y + run.of(layer, "b") if spec.bias else y)


@LAYERS.builds(kinds.CONV2D)
def _conv2d(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    return _finished(run, layer, convolve(spec.replaced(layout=HELD), x, run.of(layer, "w"), "HWIO"))


@LAYERS.builds(kinds.DENSE)
def _dense(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return _finished(run, layer, x @ run.of(layer, "w"))


@LAYERS.builds(kinds.POOL2D)
def _pool2d(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    if spec.mode == AVERAGE and covers_image(spec.window):
        return x.mean(axis=(1, 2), keepdims=True)
    pool, divisors = pooling(spec.replaced(layout=HELD))
    return pool(x, *divisors)


@LAYERS.builds(kinds.LRN)
def _lrn(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    return normalise(spec.replaced(layout=HELD), x)


@LAYERS.builds(kinds.FLATTEN)
def _flatten(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return x.reshape(layer.output_shape)


@LAYERS.builds(kinds.DROPOUT)
def _dropout(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    if not run.is_training:
        return x
    if layer.name in run.masks:
        return x * run.masks[layer.name]
    key = jax.random.fold_in(run.key, run.network.layers.index(layer))
    is_kept = jax.random.bernoulli(key, 1.0 - layer.rate, x.shape)
    return jax.numpy.where(is_kept, x / (1.0 - layer.rate), 0.0)


@LAYERS.builds(kinds.BATCH_NORM)
def _batch_norm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    """Over all but the last axis, which are the channels or features."""
    spec: Any = layer.spec
    if run.is_training:
        axes = tuple(range(x.ndim - 1))
        mean, variance = x.mean(axes), x.var(axes)
        run.follow(layer, "mean", mean)
        run.follow(layer, "variance", variance)
    else:
        mean, variance = run.of(layer, "mean"), run.of(layer, "variance")
    factor = run.of(layer, "scale") * jax.lax.rsqrt(variance + spec.epsilon)
    return (x - mean) * factor + run.of(layer, "shift")


@LAYERS.builds(kinds.LAYER_NORM)
def _layer_norm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + spec.epsilon) * run.of(layer, "scale") + run.of(layer, "shift")


@LAYERS.builds(kinds.ACTIVATION)
def _activation(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    return functions()[spec.function](x)


@LAYERS.builds(kinds.ADD)
def _add(run: Evaluation, layer: Layer, a: Tensor, b: Tensor) -> Tensor:
    return a + b


@LAYERS.builds(kinds.CONCAT)
def _concat(run: Evaluation, layer: Layer, *parts: Tensor) -> Tensor:
    return jax.numpy.concatenate(parts, axis=channel_axis(layer))


@LAYERS.builds(kinds.EMBEDDING)
def _embedding(run: Evaluation, layer: Layer, indices: Tensor) -> Tensor:
    return run.of(layer, "w")[indices]


@LAYERS.builds(kinds.POSITIONS)
def _positions(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return x + encoded_positions(*layer.output_shape[1:]).astype(np.float32)


@LAYERS.builds(kinds.LSTM)
def _lstm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    """The inputs' products of all steps at once, the recurrent ones in a scan."""
    spec: Any = layer.spec
    gate, squash, u = functions()[spec.recurrent_activation], functions()[spec.activation], run.of(layer, "u")
    sums = x @ run.of(layer, "w") + run.of(layer, "b")

    def step(state: tuple[Tensor, Tensor], arriving: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
        h, c = state
        i, f, candidate, o = jax.numpy.split(arriving + h @ u, 4, axis=-1)
        c = gate(f) * c + gate(i) * squash(candidate)
        h = gate(o) * squash(c)
        return (h, c), h if spec.returns_sequence else None

    zeros = jax.numpy.zeros((x.shape[0], spec.cells), x.dtype)
    (last, _), every = jax.lax.scan(step, (zeros, zeros), sums.swapaxes(0, 1))
    return every.swapaxes(0, 1) if spec.returns_sequence else last


@LAYERS.builds(kinds.ATTENTION)
def _attention(run: Evaluation, layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    spec: Any = layer.spec
    heads = (each.reshape(*each.shape[:2], spec.heads, spec.width) for each in (q, k, v))
    return jax.nn.dot_product_attention(*heads, is_causal=spec.causal).reshape(q.shape)


@LAYERS.builds(kinds.MEAN)
def _mean(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return x.mean(axis=1)


def _cross_entropy(output: Tensor, labels: Tensor) -> Tensor:
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(output), labels[:, None], axis=1).mean()


LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    CROSS_ENTROPY: _cross_entropy,
    SQUARED_ERROR: lambda output, labels: ((output - labels) ** 2).mean(),
    BINARY_CROSS_ENTROPY: lambda output, labels: (jax.nn.softplus(output) - labels * output).mean(),
}


def loss_of(
    weights: Tensors, running: Tensors, network: Network, images: Tensor, labels: Tensor, key: Any, masks: Tensors
) -> tuple[Tensor, Tensors]:
    """The loss in training, and the running values after it."""
    evaluation = Evaluation(network, {**weights, **running}, True, masks, key)
    output = evaluation.run(LAYERS, images, jax.named_scope)
    with jax.named_scope(LOSS):
        return LOSSES[network.loss](output, labels), evaluation.running


def first_slots(training: Training, weights: Tensors) -> dict[str, Slots]:
    """What the optimiser keeps of each parameter, at the beginning."""
    slots = slot_names(training)
    return {name: tuple(jax.numpy.zeros_like(array) for _ in slots) for name, array in weights.items()}


def updated(
    network: Network,
    training: Training,
    numbers: Numbers,
    weights: Tensors,
    slots: Mapping[str, Slots],
    gradients: Tensors,
) -> tuple[Tensors, dict[str, Slots]]:
    """The new weights and what the optimiser keeps."""
    new, kept = dict(weights), dict(slots)
    with jax.named_scope(OPTIMISER):
        for layer in network.layers:
            with jax.named_scope(layer.name):
                for name in layer.parameter_shapes():
                    gradient = gradients[name]
                    if decay := decay_of(training, layer, name):
                        gradient = gradient + decay * weights[name]
                    step, kept[name] = change(training, numbers, gradient, slots[name], jax.numpy.sqrt)
                    new[name] = weights[name] - step
    return new, kept
