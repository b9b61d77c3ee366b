"""CNN+ReLU: the CIFAR-10 network that the Keras study varies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot
from profkit.ops.networks.published import Varied
from profkit.ops.networks.training import STEPS, Training


@dataclass(frozen=True)
class CnnRelu(Varied, name="cnn_relu", data="CIFAR-10", preparation=("fit", "mean_pixel")):
    """Three times convolution 5x5, dropout, pooling (max, average, average), dropout; dense 2048, 2048 and 10.

    The study's counts of parameters need pools of stride 2 in its sweep of depth, of stride 3 in those of filters and
    of filter size, the latter on doubled images; the padding stays 2 whatever the filter.
    """

    size_formula: ClassVar[str] = "images are 3x32x32, doubled 3x64x64; convolutions pad by 2, poolings do not pad"
    training: ClassVar[Training] = Training(
        learning_rate=0.01, momentum=0.9, momentum_drop=0.4, schedule=STEPS, schedule_at=(100, 134, 142)
    )
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), weight_decay=0.001)

    batch: int = axis(axes.COUNT, 100, "images per step")
    pool_stride: int = axis(axes.choice_of_numbers(2, 3), 2, "step of the poolings")
    doubled: bool = axis(axes.FLAG, False, "images of twice the height and width")
    neurons: int = axis(axes.COUNT, 2048, "of both dense layers")

    def input_shape(self) -> Shape:
        side = 64 if self.doubled else 32
        return (self.batch, 3, side, side)

    def describe(self, graph: Graph) -> None:
        for stage, (filters, dropout) in enumerate(((96, 0.25), (128, 0.25), (256, 0.5)), start=1):
            self.repeat(graph, stage, filters, padding=2)
            graph.dropout(f"dropout{stage}_before", 0.25)
            pool = graph.max_pool if stage == 1 else graph.average_pool
            pool(f"pool{stage}", 3, self.pool_stride, "valid").dropout(f"dropout{stage}_after", dropout)
        graph.flatten().dense("dense1", self.neurons).dropout("dropout4", 0.5)
        graph.dense("dense2", self.neurons).dropout("dropout5", 0.5).dense("output", 10, "none")
