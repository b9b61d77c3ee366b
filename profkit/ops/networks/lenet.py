"""The LeNet-like network of the study of threads and devices: C convolutions of 3 P maps each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.layer import Initialisation, Layer, Shape
from profkit.ops.networks.network import Chain, Network


@dataclass(frozen=True)
class LeNet(Network):
    """C x (convolution 5x5 without padding, 3 P maps, ReLU, max pooling 2x2), then dense 120, 84 and 10."""

    name: ClassVar[str] = "lenet"
    size_formula: ClassVar[str] = "images are 3x32x32; each convolution takes 4 off, each pooling halves"

    batch: int = axis(axes.COUNT, 128, "images per step")
    convolutions: int = axis(axes.choice_of_numbers(1, 2), 2, "C of the study")
    maps: int = axis(axes.COUNT, 8, "P of the study: maps per colour")

    def input_shape(self) -> Shape:
        return (self.batch, 3, 32, 32)

    def describe(self) -> tuple[Layer, ...]:
        chain = Chain(self.input_shape())
        shape = self.input_shape()
        for number in range(1, self.convolutions + 1):
            chain.conv(f"conv{number}", 3 * self.maps, 5, padding="valid", start=he(shape))
            chain.max_pool(f"pool{number}", 2, 2, "valid")
            shape = chain.layers[-1].output_shape
        chain.flatten()
        for name, outputs, activation in (("dense1", 120, "relu"), ("dense2", 84, "relu"), ("output", 10, "none")):
            chain.dense(name, outputs, activation, he(chain.layers[-1].output_shape))
        return chain.layers


def he(input_shape: Shape) -> Initialisation:
    """Weights of deviation sqrt(2 / n), n the size of one input of the layer (not of a filter), as the study has it."""
    return Initialisation(math.sqrt(2 / math.prod(input_shape[1:])))
