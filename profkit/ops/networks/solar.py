"""The convolutional network of the solar irradiance study: 50x50 maps in, one radiation value out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.layer import Initialisation, Layer, Shape
from profkit.ops.networks.lenet import he
from profkit.ops.networks.network import SQUARED_ERROR, Chain, Network


@dataclass(frozen=True)
class Solar(Network):
    """conv1 3x3x32, conv2 3x3x64, max pooling 2x2, dropout, dense 128, dropout, dense 1 with ReLU."""

    name: ClassVar[str] = "solar"
    loss: ClassVar[str] = SQUARED_ERROR
    size_formula: ClassVar[str] = "maps are 1x50x50 -> 48x48 -> 46x46 -> 23x23 -> 33,856 -> 128 -> 1"

    batch: int = axis(axes.COUNT, 64, "maps per step")
    dropout: bool = axis(axes.FLAG, True, "the study's dropout (in training only)")

    def input_shape(self) -> Shape:
        return (self.batch, 1, 50, 50)

    def describe(self) -> tuple[Layer, ...]:
        chain = Chain(self.input_shape())
        chain.conv("conv1", 32, 3, padding="valid", start=he((0, 1, 3, 3)))
        chain.conv("conv2", 64, 3, padding="valid", start=he((0, 32, 3, 3))).max_pool("pool", 2, 2, "valid")
        if self.dropout:
            chain.dropout("dropout1", 0.25)
        chain.flatten().dense("dense", 128, start=he(chain.layers[-1].output_shape))
        if self.dropout:
            chain.dropout("dropout2", 0.5)
        # A ReLU at the end that begins below 0 gives 0 for everything and never learns: begin at the targets' mean.
        return chain.dense("output", 1, start=Initialisation(0.01, 0.5)).layers
