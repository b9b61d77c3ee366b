"""Wide residual networks (Zagoruyko and Komodakis 2016) on images of 32x32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, he
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import STEPS, Training


@dataclass(frozen=True)
class Wrn(Network, name="wrn_16_8", data="SVHN", preparation=("scale",)):
    """conv 3x3x16, three stages of residual blocks (normalisation and ReLU before each convolution), dense 10."""

    size_formula: ClassVar[str] = "depth is 6 n + 4: each stage has n blocks; its filters are 16, 32 and 64 x width"
    training: ClassVar[Training] = Training(
        learning_rate=0.01, momentum=0.9, nesterov=True, schedule=STEPS, schedule_at=(80, 120)
    )
    image: ClassVar[Shape] = (3, 32, 32)
    initialisation: ClassVar[Initialisation] = Initialisation(he(), weight_decay=0.0005)

    batch: int = axis(axes.COUNT, 128, "images per step")
    depth: int = axis(axes.COUNT, 16, "convolutions one after another")
    width: int = axis(axes.COUNT, 8, "factor of the filters")

    def check(self) -> None:
        if self.depth < 10 or (self.depth - 4) % 6:
            raise SpecError(f"depth must be 10, 16, 22, ..., got {self.depth}")

    def describe(self, graph: Graph) -> None:
        graph.conv("conv1", 16, 3, activation="none", bias=False)
        for stage, filters in enumerate((16, 32, 64), start=1):
            for number in range(1, (self.depth - 4) // 6 + 1):
                stride = 2 if stage > 1 and number == 1 else 1
                self._block(graph, f"block{stage}_{number}", filters * self.width, stride)
        graph.batch_norm("norm").activate("relu", "relu").global_average_pool("pool").flatten()
        graph.dense("output", 10, "none")

    def _block(self, graph: Graph, name: str, filters: int, stride: int) -> None:
        """Two convolutions beside a shortcut, which is a 1x1 convolution of the activated input where shapes change."""
        source = graph.last
        has_same_shape = stride == 1 and graph.shape[1] == filters
        activated = graph.batch_norm(f"{name}_norm1").activate(f"{name}_relu1", "relu").last
        if not has_same_shape:
            source = graph.conv(f"{name}_shortcut", filters, 1, stride, 0, "none", bias=False).last
        graph.at(activated).conv(f"{name}_conv1", filters, 3, stride, 1, "none", bias=False)
        graph.batch_norm(f"{name}_norm2").activate(f"{name}_relu2", "relu")
        graph.conv(f"{name}_conv2", filters, 3, 1, 1, "none", bias=False).add(f"{name}_add", source)
