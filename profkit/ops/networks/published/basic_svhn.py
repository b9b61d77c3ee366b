"""basic-SVHN: the network for house numbers that the Keras study varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot
from profkit.ops.networks.published import Varied
from profkit.ops.networks.training import STEPS, Training
from profkit.ops.optimiser_step import ADAM


@dataclass(frozen=True)
class BasicSvhn(Varied, name="basic_svhn", data="SVHN", preparation=("scale",)):
    """conv 5x5x16, max pooling, conv 7x7x512, max pooling, dense 1024, 1024 and 10; batch normalisation, then ReLU."""

    size_formula: ClassVar[str] = "images are 3x32x32; padded convolutions keep the size, each pooling halves"
    training: ClassVar[Training] = Training(optimizer=ADAM, learning_rate=0.01, schedule=STEPS, schedule_at=(80, 120))
    image: ClassVar[Shape] = (3, 32, 32)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), weight_decay=0.0005)

    batch: int = axis(axes.COUNT, 256, "images per step")
    padded: bool = axis(axes.FLAG, True, "zeros around the images; the study's sweep of filter size has none")
    neurons: int = axis(axes.COUNT, 1024, "of both dense layers")

    def describe(self, graph: Graph) -> None:
        padding = "same" if self.padded else "valid"
        for stage, (filters, size, dropout) in enumerate(((16, 5, 0.25), (512, 7, 0.5)), start=1):
            self.repeat(graph, stage, filters, padding, size, has_norm=True)
            graph.max_pool(f"pool{stage}", 2, 2, "valid").dropout(f"dropout{stage}", dropout)
        graph.flatten()
        for name in ("dense1", "dense2"):
            graph.dense(name, self.neurons, "none").batch_norm(f"{name}_norm").activate(f"{name}_relu", "relu")
            graph.dropout(f"{name}_dropout", 0.5)
        graph.dense("output", 10, "none")
