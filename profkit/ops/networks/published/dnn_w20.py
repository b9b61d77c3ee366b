"""DNN-W20 (Ciresan 2012) on MNIST, one column of it, as the Keras study has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, uniform
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import EXPONENTIAL, Training


@dataclass(frozen=True)
class DnnW20(Network, name="dnn_w20", data="MNIST", preparation=("width_20", "scale")):
    """conv 4x4x20, max pooling 2x2, conv 5x5x40, max pooling 3x3, dense 150 and 10, with scaled tanh."""

    size_formula: ClassVar[str] = "images are 1 x 28 x 20 -> 25x17 -> 12x8 -> 8x4 -> 2x1"
    training: ClassVar[Training] = Training(
        learning_rate=0.001, schedule=EXPONENTIAL, schedule_factor=0.993, least_rate=0.00003
    )
    image: ClassVar[Shape] = (1, 28, 20)
    initialisation: ClassVar[Initialisation] = Initialisation(uniform(0.05))

    batch: int = axis(axes.COUNT, 128, "images per step")

    def describe(self, graph: Graph) -> None:
        graph.conv("conv1", 20, 4, padding="valid", activation="scaled_tanh").max_pool("pool1", 2, 2, "valid")
        graph.conv("conv2", 40, 5, padding="valid", activation="scaled_tanh").max_pool("pool2", 3, 3, "valid")
        graph.flatten().dense("dense", 150, "scaled_tanh").dense("output", 10, "none")
