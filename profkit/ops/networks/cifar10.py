"""The CIFAR-10 network of TensorFlow's tutorial, with the parameters that the operator study varied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.layer import Initialisation, Layer, Shape
from profkit.ops.networks.network import Chain, Network

DECAY = 0.004


@dataclass(frozen=True)
class Cifar10(Network):
    """conv1, pool1, norm1, conv2, norm2, pool2, local3, local4, softmax_linear on 32x32 (or cropped 24x24) images."""

    name: ClassVar[str] = "cifar10"
    size_formula: ClassVar[str] = "images are 3 x crop x crop; SAME padding: out = ceil(in / stride)"

    batch: int = axis(axes.COUNT, 128, "images per step")
    stride: int = axis(axes.COUNT, 1, "step of both convolutions")
    filters: int = axis(axes.COUNT, 64, "filters of both convolutions")
    pool: int = axis(axes.COUNT, 3, "window of the first pooling")
    pool_stride: int = axis(axes.COUNT, 2, "step of the first pooling")
    crop: int = axis(axes.choice_of_numbers(24, 32), 32, "height and width of the images; the tutorial crops to 24")

    def input_shape(self) -> Shape:
        return (self.batch, 3, self.crop, self.crop)

    def describe(self) -> tuple[Layer, ...]:
        chain = Chain(self.input_shape())
        chain.conv("conv1", self.filters, 5, self.stride, start=Initialisation(0.05, 0.0))
        chain.max_pool("pool1", self.pool, self.pool_stride).norm("norm1")
        chain.conv("conv2", self.filters, 5, self.stride, start=Initialisation(0.05, 0.1))
        chain.norm("norm2").max_pool("pool2", 3, 2).flatten()
        chain.dense("local3", 384, start=Initialisation(0.04, 0.1, DECAY)).dense(
            "local4", 192, start=Initialisation(0.04, 0.1, DECAY)
        )
        return chain.dense("softmax_linear", 10, "none", Initialisation(1 / 192, 0.0)).layers
