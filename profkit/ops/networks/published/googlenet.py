"""GoogLeNet (Szegedy 2014): nine inception modules, without the two auxiliary classifiers of its training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, glorot
from profkit.ops.networks.published import OfAnySize

# Filters: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; projection of the pool.
MODULES = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOLED = ("3b", "4e")
"""Modules with a max pooling after them."""


@dataclass(frozen=True)
class GoogLeNet(OfAnySize, name="googlenet"):
    """conv 7x7, conv 1x1, conv 3x3, nine inception modules, global average pooling, dropout, dense 1000."""

    size_formula: ClassVar[str] = "images are 3 x side x side; each of the five steps of 2 halves, and rounds up"
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), bias=0.2, weight_decay=0.0002)

    batch: int = axis(axes.COUNT, 32, "images per step")

    def describe(self, graph: Graph) -> None:
        first, second = map(self.scaled, (64, 192))
        graph.conv("conv1", first, 7, 2).max_pool("pool1", 3, 2).norm("norm1", 5, 0.0001)
        graph.conv("conv2_reduce", first, 1).conv("conv2", second, 3).norm("norm2", 5, 0.0001).max_pool("pool2", 3, 2)
        for name, filters in MODULES.items():
            self._inception(graph, f"inception_{name}", [*map(self.scaled, filters)])
            if name in POOLED:
                graph.max_pool(f"pool_{name}", 3, 2)
        graph.global_average_pool("pool5").dropout("dropout", 0.4).flatten()
        graph.dense("output", self.classes, "none")

    def _inception(self, graph: Graph, name: str, filters: list[int]) -> None:
        """Four branches from the same input, joined along the channels."""
        source = graph.last
        ones, reduce3, threes, reduce5, fives, projection = filters
        graph.conv(f"{name}_1x1", ones, 1)
        graph.at(source).conv(f"{name}_3x3_reduce", reduce3, 1).conv(f"{name}_3x3", threes, 3)
        graph.at(source).conv(f"{name}_5x5_reduce", reduce5, 1).conv(f"{name}_5x5", fives, 5)
        graph.at(source).max_pool(f"{name}_pool", 3, 1).conv(f"{name}_projection", projection, 1)
        graph.concat(name, f"{name}_1x1", f"{name}_3x3", f"{name}_5x5", f"{name}_projection")
