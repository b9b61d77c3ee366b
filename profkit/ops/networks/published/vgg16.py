"""VGG-16 (Simonyan and Zisserman 2014), configuration D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, he
from profkit.ops.networks.published import OfAnySize

STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and their filters between two poolings."""


@dataclass(frozen=True)
class Vgg16(OfAnySize, name="vgg16"):
    """Thirteen convolutions 3x3 in five stages with a max pooling each, dense 4096, 4096 and 1000."""

    size_formula: ClassVar[str] = "images are 3 x side x side; each stage halves"
    initialisation: ClassVar[Initialisation] = Initialisation(he(), weight_decay=0.0005)

    def describe(self, graph: Graph) -> None:
        for stage, (count, filters) in enumerate(STAGES, start=1):
            for number in range(1, count + 1):
                graph.conv(f"conv{stage}_{number}", self.scaled(filters), 3)
            graph.max_pool(f"pool{stage}", 2, 2, "valid")
        neurons = self.scaled(4096)
        graph.flatten().dense("fc6", neurons).dropout("dropout6", 0.5)
        graph.dense("fc7", neurons).dropout("dropout7", 0.5)
        graph.dense("fc8", self.classes, "none")
