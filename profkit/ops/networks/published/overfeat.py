"""OverFeat (Sermanet 2013), the fast model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, truncated_normal
from profkit.ops.networks.published import ForImageNet
from profkit.ops.networks.training import Training


@dataclass(frozen=True)
class OverFeat(ForImageNet, name="overfeat"):
    """Five convolutions, three poolings 2x2, dense 3072, 4096 and 1000."""

    size_formula: ClassVar[str] = "images are 3 x 231 x 231 -> 56 -> 28 -> 24 -> 12 -> 6; 36,864 inputs of fc6"
    training: ClassVar[Training] = Training(learning_rate=0.05, momentum=0.6)
    image: ClassVar[Shape] = (3, 231, 231)
    initialisation: ClassVar[Initialisation] = Initialisation(truncated_normal(0.01), weight_decay=0.00001)

    def describe(self, graph: Graph) -> None:
        first, second, third, wide, fc6, fc7 = map(self.scaled, (96, 256, 512, 1024, 3072, 4096))
        graph.conv("conv1", first, 11, 4, "valid").max_pool("pool1", 2, 2, "valid")
        graph.conv("conv2", second, 5, padding="valid").max_pool("pool2", 2, 2, "valid")
        graph.conv("conv3", third, 3).conv("conv4", wide, 3).conv("conv5", wide, 3)
        graph.max_pool("pool5", 2, 2, "valid").flatten()
        graph.dense("fc6", fc6).dropout("dropout6", 0.5).dense("fc7", fc7).dropout("dropout7", 0.5)
        graph.dense("fc8", self.classes, "none")
