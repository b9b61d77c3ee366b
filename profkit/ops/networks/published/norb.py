"""AP-ReLU and MP-ReLU: the networks for NORB of the Keras study, with average and with max pooling."""

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
class ApRelu(Varied, name="ap_relu", data="NORB"):
    """Three times convolution 5x5x64 and average pooling 3x3 (the first two with normalisation), dense 500 and 6.

    The normalisation's numbers are not stated; they are AlexNet's. The study's sweep of filter size has no padding and
    pools of 2x2; its counts need images of 66x66, not the 96x96 that it names.
    """

    is_max: ClassVar[bool] = False
    size_formula: ClassVar[str] = "images are 2 x side x side; padded convolutions keep the size, each pooling divides"
    training: ClassVar[Training] = Training(learning_rate=0.001, momentum=0.9, schedule=STEPS, schedule_at=(100, 200))
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), weight_decay=0.01)

    padded: bool = axis(axes.FLAG, True, "zeros around the images")
    pool: int = axis(axes.choice_of_numbers(2, 3), 3, "window and step of the poolings")
    side: int = axis(axes.COUNT, 48, "height and width of the images")

    def input_shape(self) -> Shape:
        return (self.batch, 2, self.side, self.side)

    def describe(self, graph: Graph) -> None:
        padding = "same" if self.padded else "valid"
        for stage in (1, 2, 3):
            self.repeat(graph, stage, 64, padding)
            pool = graph.max_pool if self.is_max else graph.average_pool
            pool(f"pool{stage}", self.pool, self.pool, "valid")
            if stage < 3:
                graph.norm(f"norm{stage}", 5, 0.0001)
        graph.flatten().dense("dense", 500).dropout("dropout", 0.5).dense("output", 6, "none")


@dataclass(frozen=True)
class MpRelu(ApRelu, name="mp_relu"):
    """Three times convolution 5x5x64 and max pooling 3x3 (the first two with normalisation), dense 500 and 6."""

    is_max: ClassVar[bool] = True
