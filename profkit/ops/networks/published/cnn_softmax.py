"""CNN-Softmax: the MNIST network that the Keras study varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot
from profkit.ops.networks.published import Varied
from profkit.ops.networks.training import Training


@dataclass(frozen=True)
class CnnSoftmax(Varied, name="cnn_softmax", data="MNIST", preparation=("contrast",)):
    """Convolution 5x5x32, max pooling 2x2, convolution 5x5x64, max pooling 2x2, dense 500, dropout, dense 10."""

    size_formula: ClassVar[str] = "images are 1x28x28; padded convolutions keep the size, each pooling halves"
    training: ClassVar[Training] = Training(learning_rate=0.01, momentum=0.9)
    image: ClassVar[Shape] = (1, 28, 28)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), weight_decay=0.0005)

    padded: bool = axis(axes.FLAG, False, "zeros around the images, as in the study's sweep of depth")

    def describe(self, graph: Graph) -> None:
        padding = "same" if self.padded else "valid"
        for stage, filters in enumerate((32, 64), start=1):
            self.repeat(graph, stage, filters, padding)
            graph.max_pool(f"pool{stage}", 2, 2, "valid")
        graph.flatten().dense("dense", 500).dropout("dropout", 0.5).dense("output", 10, "none")
