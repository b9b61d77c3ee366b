"""CNN-Softmax: the MNIST network that the Keras study varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.published import DEPTHS, SIZE_CHANGES, scaled
from profkit.ops.networks.training import Training


@dataclass(frozen=True)
class CnnSoftmax(Network):
    """Convolution 5x5x32, max pooling 2x2, convolution 5x5x64, max pooling 2x2, dense 500, dropout, dense 10."""

    name: ClassVar[str] = "cnn_softmax"
    data: ClassVar[str] = "MNIST"
    preparation: ClassVar[tuple[str, ...]] = ("contrast",)
    size_formula: ClassVar[str] = "images are 1x28x28; padded convolutions keep the size, each pooling halves"

    batch: int = axis(axes.COUNT, 128, "images per step")
    depth: int = axis(DEPTHS, 1, "how often each convolution is repeated")
    filters: float = axis(axes.NUMBER, 1.0, "factor of the filters: 32 and 64")
    size_change: int = axis(SIZE_CHANGES, 0, "added to the filter size of 5")
    padded: bool = axis(axes.FLAG, False, "zeros around the images, as in the study's sweep of depth")

    def input_shape(self) -> Shape:
        return (self.batch, 1, 28, 28)

    def training(self) -> Training:
        return Training(learning_rate=0.01, momentum=0.9)

    def describe(self) -> tuple[Layer, ...]:
        graph = Graph(self.input_shape(), Initialisation(glorot(), weight_decay=0.0005))
        padding = "same" if self.padded else "valid"
        for stage, filters in enumerate((32, 64), start=1):
            for number in range(1, self.depth + 1):
                graph.conv(
                    f"conv{stage}_{number}", scaled(filters, self.filters), 5 + self.size_change, padding=padding
                )
            graph.max_pool(f"pool{stage}", 2, 2, "valid")
        return graph.flatten().dense("dense", 500).dropout("dropout", 0.5).dense("output", 10, "none").layers
