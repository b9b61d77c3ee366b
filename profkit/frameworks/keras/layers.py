"""Keras' layers for every kind of layer of a network, under its name. Imports keras: opened by the builder only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from profkit.frameworks.layouts import covers_image, padding_word
from profkit.frameworks.networks.graph import LayerTable
from profkit.frameworks.networks.nhwc import channel_axis
from profkit.frameworks.networks.optimisers import decay_of
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.networks.reference import KEPT
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import AVERAGE, MAX, Pool2d
from profkit.ops.window import Window

FIRST, LAST = "channels_first", "channels_last"
_REPLACED = "zeros"
"""Weights are set afterwards: drawing random ones would only be slow, over JAX by seconds of compilation."""
Tensor = Any

LAYERS = LayerTable()


class GivenMasks:
    """Masks that dropout multiplies by in place of its own random ones, by the names of layers."""

    def __init__(self) -> None:
        self.by_name: Mapping[str, Tensor] = {}


class Making:
    """What the layers of one network have in common."""

    def __init__(self, training: Training, data_format: str, masks: GivenMasks) -> None:
        self.data_format = data_format
        self.masks = masks
        self._training = training

    def layer(self, layer: Layer) -> keras.layers.Layer:
        return LAYERS[layer.kind](self, layer)

    @property
    def is_first(self) -> bool:
        return self.data_format == FIRST

    def regulariser(self, layer: Layer, part: str = "w") -> Any:
        """Keras adds l2 * sum(w^2) to the loss, whose gradient is 2 l2 w."""
        decay = decay_of(self._training, layer, f"{layer.name}.{part}")
        return keras.regularizers.L2(decay / 2) if decay else None

    def filled(self, layer: Layer) -> dict[str, Any]:
        """Arguments of layers with a kernel."""
        return {
            "kernel_initializer": _REPLACED,
            "kernel_regularizer": self.regulariser(layer),
            "name": layer.name,
        }


FUNCTIONS: Mapping[str, Any] = {
    "none": None,
    "relu": "relu",
    "tanh": "tanh",
    "scaled_tanh": lambda x: 1.7159 * ops.tanh(x * (2 / 3)),
    "sigmoid": "sigmoid",
    # Keras' own has a slope of 1/6.
    "hard_sigmoid": lambda x: ops.clip(0.2 * x + 0.5, 0.0, 1.0),
    "gelu": lambda x: ops.gelu(x, approximate=False),
}


class _Padded(keras.layers.Layer):  # type: ignore[misc]
    """What a layer takes in front of Keras' own where no word of Keras gives the padding."""

    filler = 0.0

    def __init__(self, *arguments: Any, window: Window, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._pads = window.pad_widths("NCHW" if self.data_format == FIRST else "NHWC")

    def call(self, x: Tensor) -> Tensor:
        return super().call(ops.pad(x, self._pads, constant_values=self.filler))

    def compute_output_shape(self, input_shape: Any) -> Any:
        padded = (None if size is None else size + sum(pads) for size, pads in zip(input_shape, self._pads))
        return super().compute_output_shape(tuple(padded))


class _PaddedConv2D(_Padded, keras.layers.Conv2D):  # type: ignore[misc]
    """With zeros around the image."""


class _PaddedMaxPooling2D(_Padded, keras.layers.MaxPooling2D):  # type: ignore[misc]
    """With what no maximum sees around the image."""

    filler = float(np.finfo(np.float32).min)


class _PaddedAveragePooling2D(_Padded, keras.layers.AveragePooling2D):  # type: ignore[misc]
    """With zeros around the image, which do not count: the averages of windows that have some are enlarged."""

    def __init__(self, *arguments: Any, window: Window, **keywords: Any) -> None:
        super().__init__(*arguments, window=window, **keywords)
        scale = window.kernel[0] * window.kernel[1] / window.element_counts()
        self._scale = (scale[None, None] if self.data_format == FIRST else scale[None, :, :, None]).astype(np.float32)

    def call(self, x: Tensor) -> Tensor:
        return ops.multiply(super().call(x), self._scale)


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


class _Dropout(keras.layers.Dropout):  # type: ignore[misc]
    """Keras' own, or a given mask."""

    def __init__(self, rate: float, masks: GivenMasks, name: str) -> None:
        super().__init__(rate, seed=0, name=name)
        self._masks = masks

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        if training and self.name in self._masks.by_name:
            return x * self._masks.by_name[self.name]
        return super().call(x, training=training)


class _Attention(keras.layers.Layer):  # type: ignore[misc]
    """keras.ops.dot_product_attention of what has its projections already (MultiHeadAttention adds its own)."""

    def __init__(self, spec: Any, name: str) -> None:
        super().__init__(name=name)
        self._spec = spec

    def call(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        spec = self._spec
        heads = (ops.reshape(each, (-1, spec.steps, spec.heads, spec.width)) for each in (q, k, v))
        seen = ops.nn.dot_product_attention(*heads, is_causal=spec.causal)
        return ops.reshape(seen, (-1, spec.steps, spec.heads * spec.width))


@LAYERS.builds(kinds.CONV2D)
def _conv2d(making: Making, layer: Layer) -> keras.layers.Layer:
    spec = layer.spec
    assert isinstance(spec, Conv2d)
    word = padding_word(spec.window)
    kind = keras.layers.Conv2D if word else _PaddedConv2D
    return kind(
        spec.out_channels,
        spec.kernel_size,
        spec.stride,
        word or "valid",
        making.data_format,
        spec.dilation,
        spec.groups,
        activation=FUNCTIONS[layer.activation],
        use_bias=spec.bias,
        **making.filled(layer),
        **_window(spec.window, word),
    )


def _window(window: Window, word: str) -> dict[str, Window]:
    """What a layer with its own padding takes."""
    return {} if word else {"window": window}


@LAYERS.builds(kinds.DENSE)
def _dense(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    return keras.layers.Dense(spec.n, FUNCTIONS[layer.activation], spec.bias, **making.filled(layer))


@LAYERS.builds(kinds.POOL2D)
def _pool2d(making: Making, layer: Layer) -> keras.layers.Layer:
    spec = layer.spec
    assert isinstance(spec, Pool2d)
    if spec.mode == AVERAGE and covers_image(spec.window):
        return keras.layers.GlobalAveragePooling2D(making.data_format, keepdims=True, name=layer.name)
    word = padding_word(spec.window)
    if spec.mode == AVERAGE and word == "same" and making.is_first:
        word = ""  # over torch, Keras counts what it pads at one side only
    plain, padded = {
        MAX: (keras.layers.MaxPooling2D, _PaddedMaxPooling2D),
        AVERAGE: (keras.layers.AveragePooling2D, _PaddedAveragePooling2D),
    }[spec.mode]
    kind = plain if word else padded
    arguments = spec.kernel_size, spec.stride, word or "valid", making.data_format
    return kind(*arguments, name=layer.name, **_window(spec.window, word))


@LAYERS.builds(kinds.LRN)
def _lrn(making: Making, layer: Layer) -> keras.layers.Layer:
    assert isinstance(layer.spec, LocalResponseNorm)
    return ChannelNorm(layer.spec, making.data_format, layer.name)


@LAYERS.builds(kinds.FLATTEN)
def _flatten(making: Making, layer: Layer) -> keras.layers.Layer:
    """In memory order: with channels_first Keras would transpose, and the weights are transposed at build."""
    return keras.layers.Flatten(LAST, name=layer.name)


@LAYERS.builds(kinds.DROPOUT)
def _dropout(making: Making, layer: Layer) -> keras.layers.Layer:
    return _Dropout(layer.rate, making.masks, layer.name)


@LAYERS.builds(kinds.BATCH_NORM)
def _batch_norm(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    axis = 1 if making.is_first else -1
    return keras.layers.BatchNormalization(axis, KEPT, spec.epsilon, name=layer.name)


@LAYERS.builds(kinds.LAYER_NORM)
def _layer_norm(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    return keras.layers.LayerNormalization(epsilon=spec.epsilon, name=layer.name)


@LAYERS.builds(kinds.ACTIVATION)
def _activation(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    return keras.layers.Activation(FUNCTIONS[spec.function], name=layer.name)


@LAYERS.builds(kinds.ADD)
def _add(making: Making, layer: Layer) -> keras.layers.Layer:
    return _Listed(keras.layers.Add(name=layer.name))


@LAYERS.builds(kinds.CONCAT)
def _concat(making: Making, layer: Layer) -> keras.layers.Layer:
    return _Listed(keras.layers.Concatenate(1 if making.is_first else channel_axis(layer), name=layer.name))


class _Listed:
    """Keras' merging layers take a list; the others take their inputs one by one."""

    def __init__(self, layer: keras.layers.Layer) -> None:
        self._layer = layer

    def __call__(self, *inputs: Tensor) -> Tensor:
        return self._layer(list(inputs))


@LAYERS.builds(kinds.EMBEDDING)
def _embedding(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    return keras.layers.Embedding(
        spec.vocabulary, spec.width, _REPLACED, making.regulariser(layer), name=layer.name
    )  # fmt: skip


class _Positions(keras.layers.Layer):  # type: ignore[misc]
    """The encoding of positions, which Keras does not have."""

    def __init__(self, steps: int, width: int, name: str) -> None:
        super().__init__(name=name)
        self._table = encoded_positions(steps, width).astype(np.float32)

    def call(self, x: Tensor) -> Tensor:
        return ops.add(x, self._table)


@LAYERS.builds(kinds.POSITIONS)
def _positions(making: Making, layer: Layer) -> keras.layers.Layer:
    steps, width = layer.output_shape[1:]
    return _Positions(steps, width, layer.name)


@LAYERS.builds(kinds.LSTM)
def _lstm(making: Making, layer: Layer) -> keras.layers.Layer:
    spec: Any = layer.spec
    return keras.layers.LSTM(
        spec.cells,
        FUNCTIONS[spec.activation],
        FUNCTIONS[spec.recurrent_activation],
        recurrent_initializer=_REPLACED,
        recurrent_regularizer=making.regulariser(layer, "u"),
        return_sequences=spec.returns_sequence,
        **making.filled(layer),
    )


@LAYERS.builds(kinds.ATTENTION)
def _attention(making: Making, layer: Layer) -> keras.layers.Layer:
    return _Attention(layer.spec, layer.name)


@LAYERS.builds(kinds.MEAN)
def _mean(making: Making, layer: Layer) -> keras.layers.Layer:
    return keras.layers.GlobalAveragePooling1D(LAST, name=layer.name)
