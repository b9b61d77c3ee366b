"""VGG-16 (Simonyan and Zisserman 2014), configuration D."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, he
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.published import scaled
from profkit.ops.networks.training import Training

STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and their filters between two poolings."""


@dataclass(frozen=True)
class Vgg16(Network):
    """Thirteen convolutions 3x3 in five stages with a max pooling each, dense 4096, 4096 and 1000."""

    name: ClassVar[str] = "vgg16"
    data: ClassVar[str] = "ImageNet"
    size_formula: ClassVar[str] = "images are 3 x side x side; each stage halves"

    batch: int = axis(axes.COUNT, 16, "images per step")
    classes: int = axis(axes.COUNT, 1000, "outputs")
    side: int = axis(axes.COUNT, 224, "height and width of the images, at least 32")
    factor: float = axis(axes.NUMBER, 1.0, "share of the published filters and neurons")

    def input_shape(self) -> Shape:
        return (self.batch, 3, self.side, self.side)

    def training(self) -> Training:
        return Training(learning_rate=0.01, momentum=0.9)

    def describe(self) -> tuple[Layer, ...]:
        graph = Graph(self.input_shape(), Initialisation(he(), weight_decay=0.0005))
        for stage, (count, filters) in enumerate(STAGES, start=1):
            for number in range(1, count + 1):
                graph.conv(f"conv{stage}_{number}", scaled(filters, self.factor), 3)
            graph.max_pool(f"pool{stage}", 2, 2, "valid")
        neurons = scaled(4096, self.factor)
        graph.flatten().dense("fc6", neurons).dropout("dropout6", 0.5)
        graph.dense("fc7", neurons).dropout("dropout7", 0.5)
        return graph.dense("fc8", self.classes, "none").layers
