"""A network: parameters in (each a flag and a sweep axis), a chain of layers out, the same for every framework."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from profkit.ops.conv2d import Conv2d
from profkit.ops.fields import Fields
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import (
    CONV2D,
    DEFAULT_START,
    DENSE,
    DROPOUT,
    FLATTEN,
    IMAGES,
    LRN,
    POOL2D,
    Initialisation,
    Layer,
    Shape,
)
from profkit.ops.pool2d import Pool2d
from profkit.ops.spec import Array

CROSS_ENTROPY, SQUARED_ERROR = "cross_entropy", "squared_error"


@dataclass(frozen=True)
class Network(Fields):
    """Subclasses add the fields (one of them `batch`) and describe their layers with a Chain."""

    name: ClassVar[str] = ""
    loss: ClassVar[str] = CROSS_ENTROPY
    """Softmax cross entropy of the last layer's output, or its mean squared error; both are means over the batch."""

    @property
    def label(self) -> str:
        return self.name

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """In the order in which they run; each takes what earlier ones made."""
        return self.describe()

    def describe(self) -> tuple[Layer, ...]:
        """Make the layers."""
        raise NotImplementedError

    def input_shape(self) -> Shape:
        """[batch, channels, height, width], or [batch, features]."""
        raise NotImplementedError

    def output_shape(self) -> Shape:
        """[batch, outputs] of the last layer: logits, before any softmax."""
        return self.layers[-1].output_shape

    def layer(self, name: str) -> Layer:
        """The layer of this name."""
        return next(layer for layer in self.layers if layer.name == name)

    def parameter_shapes(self) -> dict[str, Shape]:
        """Every parameter by its name, in order of the layers."""
        return {name: shape for layer in self.layers for name, shape in layer.parameter_shapes().items()}

    def parameter_count(self) -> int:
        """How many numbers are learned."""
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in self.parameter_shapes().values())

    def multiply_adds(self) -> int:
        """Of one image, forward, convolutions and dense layers."""
        return sum(layer.multiply_adds() for layer in self.layers)

    def initial_weights(self, seed: int = 0) -> dict[str, Array]:
        """The same float32 numbers for every framework: truncated normal weights, constant biases."""
        generator = np.random.default_rng(seed)
        weights: dict[str, Array] = {}
        for layer in self.layers:
            for name, shape in layer.parameter_shapes().items():
                if name.endswith(".b"):
                    weights[name] = np.full(shape, layer.start.bias, np.float32)
                else:
                    weights[name] = _truncated_normal(generator, shape, layer.start.stddev)
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values, with the network's name; `network_from_dict` reads it back."""
        return {"network": self.name, **self.field_values()}


def _truncated_normal(generator: np.random.Generator, shape: Shape, stddev: float) -> Array:
    """Normal numbers, those beyond two standard deviations drawn again."""
    values = generator.standard_normal(shape, dtype=np.float32)
    while (is_far := np.abs(values) > 2).any():
        values[is_far] = generator.standard_normal(int(is_far.sum()), dtype=np.float32)
    result: Array = values * np.float32(stddev)
    return result


class Chain:
    """Builds layers one after another; each call adds a layer that takes the output of the one before."""

    def __init__(self, input_shape: Shape) -> None:
        self._shape = input_shape
        self._layers: list[Layer] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What was added so far."""
        return tuple(self._layers)

    def conv(
        self,
        name: str,
        filters: int,
        kernel: int,
        stride: int = 1,
        padding: Any = "same",
        start: Initialisation = DEFAULT_START,
    ) -> Chain:
        """Convolution + bias + ReLU."""
        batch, channels, height, width = self._shape
        spec = Conv2d(batch, channels, height, width, filters, kernel, stride, padding, bias=True, activation="relu")
        return self._add(Layer(name, CONV2D, spec, spec.output_shape(), self._last(), "relu", start=start))

    def max_pool(self, name: str, size: int, stride: int, padding: Any = "same") -> Chain:
        """The largest of each window."""
        batch, channels, height, width = self._shape
        spec = Pool2d(batch, channels, height, width, size, stride, padding)
        return self._add(Layer(name, POOL2D, spec, spec.output_shape(), self._last()))

    def norm(self, name: str, size: int = 9, alpha: float = 0.001, beta: float = 0.75) -> Chain:
        """Local response normalisation with torch's alpha (TensorFlow's times `size`)."""
        batch, channels, height, width = self._shape
        spec = LocalResponseNorm(batch, channels, height, width, size, alpha, beta)
        return self._add(Layer(name, LRN, spec, spec.output_shape(), self._last()))

    def flatten(self, name: str = "flatten") -> Chain:
        """Images as rows: channels, height, width."""
        batch, *rest = self._shape
        return self._add(Layer(name, FLATTEN, None, (batch, int(np.prod(rest))), self._last()))

    def dropout(self, name: str, rate: float) -> Chain:
        """Nothing in inference; in training a random share becomes 0 and the rest grows by 1/(1-rate)."""
        return self._add(Layer(name, DROPOUT, None, self._shape, self._last(), rate=rate))

    def dense(self, name: str, outputs: int, activation: str = "relu", start: Initialisation = DEFAULT_START) -> Chain:
        """x w + b, then the activation."""
        batch, inputs = self._shape
        spec = MatMul(m=batch, n=outputs, k=inputs, bias=True)
        return self._add(Layer(name, DENSE, spec, (batch, outputs), self._last(), activation, start=start))

    def _last(self) -> tuple[str, ...]:
        return (self._layers[-1].name if self._layers else IMAGES,)

    def _add(self, layer: Layer) -> Chain:
        self._layers.append(layer)
        self._shape = layer.output_shape
        return self
