"""AlexNet (Krizhevsky 2012), as Caffe and TensorFlow's slim have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, truncated_normal
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.published import scaled
from profkit.ops.networks.training import Training

CAFFE, ONE_GROUP, SLIM = "caffe", "one-group", "slim"


@dataclass(frozen=True)
class AlexNet(Network):
    """Five convolutions, three poolings, dense 4096, 4096 and 1000.

    caffe has two groups in conv2, conv4 and conv5, as published; one-group is the same without them; slim is
    TensorFlow's alexnet_v2: smaller images, 64 and 192 filters first, neither groups nor normalisation.
    """

    name: ClassVar[str] = "alexnet"
    data: ClassVar[str] = "ImageNet"
    size_formula: ClassVar[str] = "images are 3 x 227 x 227 (slim: 224), the first dense layer has 9,216 (6,400) inputs"

    batch: int = axis(axes.COUNT, 32, "images per step")
    variant: str = axis(axes.choice(CAFFE, ONE_GROUP, SLIM), CAFFE, "whose")
    classes: int = axis(axes.COUNT, 1000, "outputs")
    factor: float = axis(axes.NUMBER, 1.0, "share of the published filters and neurons")

    def input_shape(self) -> Shape:
        side = 224 if self.variant == SLIM else 227
        return (self.batch, 3, side, side)

    def training(self) -> Training:
        return Training(learning_rate=0.01, momentum=0.9)

    def describe(self) -> tuple[Layer, ...]:
        groups, has_norm = 2 if self.variant == CAFFE else 1, self.variant != SLIM
        filters = [2 * scaled(each // 2, self.factor) for each in (64, 192) if not has_norm]
        filters = filters or [2 * scaled(each // 2, self.factor) for each in (96, 256)]
        middle, last, neurons = (2 * scaled(each // 2, self.factor) for each in (384, 256, 4096))
        zero, tenth = (Initialisation(truncated_normal(0.01), bias=bias, weight_decay=0.0005) for bias in (0.0, 0.1))
        graph = Graph(self.input_shape(), tenth)
        graph.conv("conv1", filters[0], 11, 4, "valid", start=zero)
        if has_norm:
            graph.norm("norm1", 5, 0.0001)
        graph.max_pool("pool1", 3, 2, "valid").conv("conv2", filters[1], 5, groups=groups)
        if has_norm:
            graph.norm("norm2", 5, 0.0001)
        graph.max_pool("pool2", 3, 2, "valid")
        graph.conv("conv3", middle, 3, start=zero).conv("conv4", middle, 3, groups=groups)
        graph.conv("conv5", last, 3, groups=groups).max_pool("pool5", 3, 2, "valid").flatten()
        graph.dense("fc6", neurons).dropout("dropout6", 0.5).dense("fc7", neurons).dropout("dropout7", 0.5)
        return graph.dense("fc8", self.classes, "none", zero).layers
