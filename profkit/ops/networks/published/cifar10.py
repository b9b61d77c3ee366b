"""CIFAR-10 of TensorFlow's tutorial, the network of the study of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, truncated_normal
from profkit.ops.networks.network import Network

DECAY = 0.004
"""Of the dense layers."""


@dataclass(frozen=True)
class Cifar10(Network, name="cifar10", data="CIFAR-10", preparation=("fit", "contrast")):
    """conv1, pool1, norm1, conv2, norm2, pool2, local3, local4, softmax_linear on 32x32 (or cropped 24x24) images."""

    size_formula: ClassVar[str] = "images are 3 x crop x crop; SAME padding: out = ceil(in / stride)"

    batch: int = axis(axes.COUNT, 128, "images per step")
    stride: int = axis(axes.COUNT, 1, "step of both convolutions")
    filters: int = axis(axes.COUNT, 64, "filters of both convolutions")
    pool: int = axis(axes.COUNT, 3, "window of the first pooling")
    pool_stride: int = axis(axes.COUNT, 2, "step of the first pooling")
    crop: int = axis(axes.choice_of_numbers(24, 32), 32, "height and width of the images; the tutorial crops to 24")

    def input_shape(self) -> Shape:
        return (self.batch, 3, self.crop, self.crop)

    def describe(self, graph: Graph) -> None:
        narrow, wide = truncated_normal(0.04), truncated_normal(0.05)
        graph.conv("conv1", self.filters, 5, self.stride, start=Initialisation(wide))
        graph.max_pool("pool1", self.pool, self.pool_stride).norm("norm1")
        graph.conv("conv2", self.filters, 5, self.stride, start=Initialisation(wide, bias=0.1))
        graph.norm("norm2").max_pool("pool2", 3, 2).flatten()
        graph.dense("local3", 384, start=Initialisation(narrow, bias=0.1, weight_decay=DECAY))
        graph.dense("local4", 192, start=Initialisation(narrow, bias=0.1, weight_decay=DECAY))
        graph.dense("softmax_linear", 10, "none", Initialisation(truncated_normal(1 / 192)))
