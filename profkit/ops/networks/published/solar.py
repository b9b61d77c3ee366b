"""Solar irradiance ten seconds ahead: the networks of the study of heterogeneous hardware."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, he_by_input, truncated_normal
from profkit.ops.networks.network import SQUARED_ERROR, Network
from profkit.ops.networks.published.mlp import pyramid

if TYPE_CHECKING:
    from profkit.ops.axes import CountsField


@dataclass(frozen=True)
class Solar(Network, name="solar", data="solar irradiance"):
    """conv1 3x3x32, conv2 3x3x64, max pooling 2x2, dropout, dense 128, dropout, dense 1 with ReLU."""

    loss: ClassVar[str] = SQUARED_ERROR
    size_formula: ClassVar[str] = "maps are 1x50x50 -> 48x48 -> 46x46 -> 23x23 -> 33,856 -> 128 -> 1"
    image: ClassVar[Shape] = (1, 50, 50)
    initialisation: ClassVar[Initialisation] = Initialisation(he_by_input())

    batch: int = axis(axes.COUNT, 64, "maps per step")
    dropout: bool = axis(axes.FLAG, True, "the study's dropout (in training only)")

    def describe(self, graph: Graph) -> None:
        for name, filters in (("conv1", 32), ("conv2", 64)):
            fan_in = 9 * graph.shape[1]
            graph.conv(name, filters, 3, padding="valid", start=Initialisation(truncated_normal(math.sqrt(2 / fan_in))))
        graph.max_pool("pool", 2, 2, "valid")
        if self.dropout:
            graph.dropout("dropout1", 0.25)
        graph.flatten().dense("dense", 128)
        if self.dropout:
            graph.dropout("dropout2", 0.5)
        # A ReLU at the end that begins below 0 gives 0 for everything and never learns: begin at the targets' mean.
        graph.dense("output", 1, start=Initialisation(truncated_normal(0.01), bias=0.5))


@dataclass(frozen=True)
class SolarMlp(Network, name="solar_mlp", data="solar irradiance"):
    """50 features, dense layers of decreasing width with ReLU, one value; the study has 30 of them."""

    loss: ClassVar[str] = SQUARED_ERROR
    size_formula: ClassVar[str] = "50 -> widths -> 1; the study's are w, w/2 and 13 w/50 for w from 50 to 25,600"
    initialisation: ClassVar[Initialisation] = Initialisation(he_by_input())

    batch: int = axis(axes.COUNT, 1000, "rows per step")
    widths: CountsField = axis(axes.COUNTS, (50, 25, 13), "neurons of the hidden layers, as 800,400,208")
    inputs: int = axis(axes.COUNT, 50, "features")

    def input_shape(self) -> Shape:
        return (self.batch, self.inputs)

    def describe(self, graph: Graph) -> None:
        pyramid(graph, self.widths).dense("output", 1, "none")
