"""The multi-layer perceptron of the study of threads and devices, on rows of the Shuttle data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.layer import Layer, Shape
from profkit.ops.networks.lenet import he
from profkit.ops.networks.network import Chain, Network


@dataclass(frozen=True)
class Mlp(Network):
    """8 features, L dense layers of N neurons with ReLU, 7 classes."""

    name: ClassVar[str] = "mlp"
    size_formula: ClassVar[str] = "8 -> neurons (hidden times) -> 7"

    batch: int = axis(axes.COUNT, 128, "rows per step")
    hidden: int = axis(axes.COUNT, 4, "L of the study: hidden layers")
    neurons: int = axis(axes.COUNT, 200, "N of the study: neurons of each")

    def input_shape(self) -> Shape:
        return (self.batch, 8)

    def describe(self) -> tuple[Layer, ...]:
        chain = Chain(self.input_shape())
        shape = self.input_shape()
        for number in range(1, self.hidden + 1):
            chain.dense(f"hidden{number}", self.neurons, start=he(shape))
            shape = chain.layers[-1].output_shape
        return chain.dense("output", 7, "none", he(shape)).layers
