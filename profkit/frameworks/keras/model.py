"""A network as a keras.Sequential, its layers under their own names. Imports keras: opened by the builder only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array
from profkit.frameworks.framework import padding_word
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, FLATTEN, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import Pool2d

FIRST, LAST = "channels_first", "channels_last"
_REPLACED = "zeros"
"""Weights are set afterwards: drawing random ones would only be slow, over JAX by seconds of compilation."""
Tensor = Any


class ChannelNorm(keras.layers.Layer):  # type: ignore[misc]
    """Local response normalisation, which Keras does not have: sums over neighbouring channels by a band matrix.

    Pooling over channels reads better, but its gradient takes ten times as long in TensorFlow.
    """

    def __init__(self, spec: LocalResponseNorm, data_format: str, name: str) -> None:
        super().__init__(name=name)
        self._spec = spec
        self._is_first = data_format == FIRST
        before, after = spec.reach
        distance = np.arange(spec.channels)[:, None] - np.arange(spec.channels)  # of the channel that is summed
        self._band = ((distance >= -before) & (distance <= after)).astype(np.float32)

    def call(self, x: Tensor) -> Tensor:
        """x / (k + alpha/size * sum of the neighbours' squares)^beta."""
        spec = self._spec
        squares = ops.square(x)
        if self._is_first:
            sums = ops.matmul(self._band.T, ops.reshape(squares, (-1, spec.channels, spec.height * spec.width)))
        else:
            sums = ops.matmul(ops.reshape(squares, (-1, spec.channels)), self._band)
        scale = ops.power(spec.k + spec.alpha / spec.size * sums, spec.beta)
        return x / ops.reshape(scale, ops.shape(x))


def build_model(network: Network, training: Training, data_format: str) -> keras.Sequential:
    """The layers in their order."""
    model = keras.Sequential(name="network")
    model.add(keras.Input(_held_shape(network.input_shape()[1:], data_format)))
    for layer in network.layers:
        model.add(_layer(layer, training, data_format))
    return model


def _held_shape(shape: tuple[int, ...], data_format: str) -> tuple[int, ...]:
    return (*shape[1:], shape[0]) if len(shape) == 3 and data_format == LAST else shape


def _layer(layer: Layer, training: Training, data_format: str) -> keras.layers.Layer:
    spec, name = layer.spec, layer.name
    activation = None if layer.activation == "none" else layer.activation
    decay = layer.start.weight_decay if training.weight_decay else 0.0
    # Keras adds l2 * sum(w^2) to the loss, whose gradient is 2 l2 w.
    regulariser = keras.regularizers.L2(decay / 2) if decay else None
    if isinstance(spec, Conv2d):
        return keras.layers.Conv2D(
            spec.out_channels,
            spec.kernel_size,
            spec.stride,
            padding_word(spec.window),
            data_format,
            spec.dilation,
            spec.groups,
            activation=activation,
            kernel_initializer=_REPLACED,
            kernel_regularizer=regulariser,
            name=name,
        )
    if isinstance(spec, MatMul):
        return keras.layers.Dense(
            spec.n, activation, kernel_initializer=_REPLACED, kernel_regularizer=regulariser, name=name
        )
    if isinstance(spec, Pool2d):
        return keras.layers.MaxPooling2D(
            spec.kernel_size, spec.stride, padding_word(spec.window), data_format, name=name
        )  # fmt: skip
    if isinstance(spec, LocalResponseNorm):
        return ChannelNorm(spec, data_format, name)
    if layer.kind == FLATTEN:
        # As it lies in memory: with channels_first Keras would transpose, and the weights are transposed at build.
        return keras.layers.Flatten(LAST, name=name)
    if layer.kind == DROPOUT:
        return keras.layers.Dropout(layer.rate, seed=0, name=name)
    raise UnsupportedError(f"keras has no layer for {name} of kind {layer.kind}")


def set_weights(model: keras.Sequential, network: Network, held: Mapping[str, Array]) -> None:
    """Copy in weights that are already in Keras' layout."""
    for layer in network.layers:
        if layer.parameter_shapes():
            model.get_layer(layer.name).set_weights([held[name] for name in layer.parameter_shapes()])


def parameter_names(model: keras.Sequential, network: Network) -> list[str]:
    """Our names of model.trainable_variables, in their order."""
    parts = {"kernel": "w", "bias": "b"}
    names = []
    for variable in model.trainable_variables:
        *_, layer, part = variable.path.split("/")
        names.append(f"{layer}.{parts[part]}")
    if set(names) != set(network.parameter_shapes()):
        raise UnsupportedError(f"keras has the parameters {names}, expected {list(network.parameter_shapes())}")
    return names


def loss_function(network: Network) -> keras.losses.Loss:
    """Mean cross entropy of logits, or mean squared error."""
    if network.loss == CROSS_ENTROPY:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return keras.losses.MeanSquaredError()


def optimiser(training: Training) -> keras.optimizers.Optimizer:
    """velocity = momentum * velocity - rate * gradient; w += velocity: the same numbers as ours."""
    return keras.optimizers.SGD(training.learning_rate, momentum=float(training.momentum))
