"""basic-SVHN: the network for house numbers that the Keras study varies."""

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
from profkit.ops.networks.training import STEPS, Training
from profkit.ops.optimiser_step import ADAM


@dataclass(frozen=True)
class BasicSvhn(Network):
    """conv 5x5x16, max pooling, conv 7x7x512, max pooling, dense 1024, 1024 and 10; batch normalisation, then ReLU."""

    name: ClassVar[str] = "basic_svhn"
    data: ClassVar[str] = "SVHN"
    preparation: ClassVar[tuple[str, ...]] = ("scale",)
    size_formula: ClassVar[str] = "images are 3x32x32; padded convolutions keep the size, each pooling halves"

    batch: int = axis(axes.COUNT, 256, "images per step")
    depth: int = axis(DEPTHS, 1, "how often each convolution is repeated")
    filters: float = axis(axes.NUMBER, 1.0, "factor of the filters: 16 and 512")
    size_change: int = axis(SIZE_CHANGES, 0, "added to the filter sizes of 5 and 7")
    padded: bool = axis(axes.FLAG, True, "zeros around the images; the study's sweep of filter size has none")
    neurons: int = axis(axes.COUNT, 1024, "of both dense layers")

    def input_shape(self) -> Shape:
        return (self.batch, 3, 32, 32)

    def training(self) -> Training:
        return Training(optimizer=ADAM, learning_rate=0.01, schedule=STEPS, schedule_at=(80, 120))

    def describe(self) -> tuple[Layer, ...]:
        graph = Graph(self.input_shape(), Initialisation(glorot(), weight_decay=0.0005))
        padding = "same" if self.padded else "valid"
        for stage, (filters, size, dropout) in enumerate(((16, 5, 0.25), (512, 7, 0.5)), start=1):
            for number in range(1, self.depth + 1):
                name, count = f"conv{stage}_{number}", scaled(filters, self.filters)
                graph.conv(name, count, size + self.size_change, padding=padding, activation="none")
                graph.batch_norm(f"{name}_norm").activate(f"{name}_relu", "relu")
            graph.max_pool(f"pool{stage}", 2, 2, "valid").dropout(f"dropout{stage}", dropout)
        graph.flatten()
        for name in ("dense1", "dense2"):
            graph.dense(name, self.neurons, "none").batch_norm(f"{name}_norm").activate(f"{name}_relu", "relu")
            graph.dropout(f"{name}_dropout", 0.5)
        return graph.dense("output", 10, "none").layers
