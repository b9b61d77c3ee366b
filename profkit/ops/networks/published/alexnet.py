"""AlexNet (Krizhevsky 2012), as Caffe and TensorFlow's slim have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, truncated_normal
from profkit.ops.networks.published import ForImageNet

CAFFE, ONE_GROUP, SLIM = "caffe", "one-group", "slim"


@dataclass(frozen=True)
class AlexNet(ForImageNet, name="alexnet"):
    """Five convolutions, three poolings, dense 4096, 4096 and 1000.

    caffe has two groups in conv2, conv4 and conv5, as published; one-group is the same without them; slim is
    TensorFlow's alexnet_v2: smaller images, 64 and 192 filters first, neither groups nor normalisation.
    """

    size_formula: ClassVar[str] = "images are 3 x 227 x 227 (slim: 224), the first dense layer has 9,216 (6,400) inputs"
    initialisation: ClassVar[Initialisation] = Initialisation(truncated_normal(0.01), bias=0.1, weight_decay=0.0005)

    batch: int = axis(axes.COUNT, 32, "images per step")
    variant: str = axis(axes.choice(CAFFE, ONE_GROUP, SLIM), CAFFE, "whose")

    def input_shape(self) -> Shape:
        side = 224 if self.variant == SLIM else 227
        return (self.batch, 3, side, side)

    def describe(self, graph: Graph) -> None:
        groups, has_norm = 2 if self.variant == CAFFE else 1, self.variant != SLIM
        first, second, middle, last, neurons = (
            2 * self.scaled(half) for half in (*((48, 128) if has_norm else (32, 96)), 192, 128, 2048)
        )
        zero = Initialisation(truncated_normal(0.01), weight_decay=0.0005)
        graph.conv("conv1", first, 11, 4, "valid", start=zero)
        if has_norm:
            graph.norm("norm1", 5, 0.0001)
        graph.max_pool("pool1", 3, 2, "valid").conv("conv2", second, 5, groups=groups)
        if has_norm:
            graph.norm("norm2", 5, 0.0001)
        graph.max_pool("pool2", 3, 2, "valid")
        graph.conv("conv3", middle, 3, start=zero).conv("conv4", middle, 3, groups=groups)
        graph.conv("conv5", last, 3, groups=groups).max_pool("pool5", 3, 2, "valid").flatten()
        graph.dense("fc6", neurons).dropout("dropout6", 0.5).dense("fc7", neurons).dropout("dropout7", 0.5)
        graph.dense("fc8", self.classes, "none", zero)
