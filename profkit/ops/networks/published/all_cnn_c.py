"""All-CNN-C (Springenberg 2014) on CIFAR-10, with the dense layer that the Keras study adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, he
from profkit.ops.networks.network import Network
from profkit.ops.networks.published import scaled
from profkit.ops.networks.training import STEPS, Training


@dataclass(frozen=True)
class AllCnnC(Network, name="all_cnn_c", data="CIFAR-10", preparation=("contrast", "zca")):
    """Nine convolutions, two of them with stride 2 in the place of poolings, global average pooling, dense 10."""

    size_formula: ClassVar[str] = "images are 3x32x32 -> 16x16 -> 8x8 -> 6x6 -> 1x1"
    training: ClassVar[Training] = Training(
        learning_rate=0.05, momentum=0.9, schedule=STEPS, schedule_at=(200, 250, 300)
    )
    initialisation: ClassVar[Initialisation] = Initialisation(he(), weight_decay=0.001)
    image: ClassVar[Shape] = (3, 32, 32)

    batch: int = axis(axes.COUNT, 100, "images per step")
    factor: float = axis(axes.NUMBER, 1.0, "share of the published filters")

    def describe(self, graph: Graph) -> None:
        narrow, wide = scaled(96, self.factor), scaled(192, self.factor)
        graph.dropout("dropout0", 0.2).conv("conv1", narrow, 3).conv("conv2", narrow, 3).conv(
            "conv3", narrow, 3, 2
        ).dropout("dropout3", 0.5)
        graph.conv("conv4", wide, 3).conv("conv5", wide, 3).conv("conv6", wide, 3, 2).dropout("dropout6", 0.5)
        graph.conv("conv7", wide, 3, padding="valid").conv("conv8", wide, 1).conv("conv9", 10, 1)
        graph.global_average_pool("pool").flatten().dense("output", 10, "none")
