"""BiasRelu: one value per channel added, then everything below zero cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, from_nchw, image_shape, to_nchw
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class BiasRelu(Spec):
    """y[n,c,i,j] = max(0, x[n,c,i,j] + b[c]); x and y in `layout`, b has one value per channel."""

    op: ClassVar[str] = "bias_relu"
    size_formula: ClassVar[str] = "y = max(0, x + b[channel]), of the shape of x; all counts are at least 1"

    batch: int = axis(axes.COUNT, 128, "images per call")
    channels: int = axis(axes.COUNT, 64, "channels")
    height: int = axis(axes.COUNT, 32, "height")
    width: int = axis(axes.COUNT, 32, "width")
    layout: str = axis(LAYOUT, "NCHW", "order of the dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": self.output_shape(), "b": (self.channels,)}

    def output_shape(self) -> tuple[int, ...]:
        return image_shape(self.layout, self.batch, self.channels, (self.height, self.width))

    def flops(self) -> int:
        """An addition and a comparison per element."""
        return 2 * int(np.prod(self.output_shape(), dtype=np.int64))

    def reduction_length(self) -> int:
        return 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        return from_nchw(self.layout, np.maximum(x + inputs["b"].astype(np.float64)[None, :, None, None], 0.0))

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "cifar10.conv1": BiasRelu(128, 64, 32, 32),
            "cifar10.conv2": BiasRelu(128, 64, 16, 16),
            "alexnet.conv1": BiasRelu(32, 96, 55, 55),
            "alexnet.conv2": BiasRelu(32, 256, 27, 27),
            "alexnet.conv3": BiasRelu(32, 384, 13, 13),
            "googlenet.conv1": BiasRelu(32, 64, 112, 112),
            "lenet.p32.conv1": BiasRelu(128, 96, 28, 28),
            "solar.conv1": BiasRelu(512, 32, 48, 48),
            "solar.conv2": BiasRelu(512, 64, 46, 46),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        images = ((1, 1, 1, 1), (3, 1, 5, 7), (1, 5, 1, 1), (2, 3, 7, 5), (2, 17, 3, 3), (1, 33, 9, 2), (5, 4, 8, 8))
        plain = [BiasRelu(*image, layout=layout) for image in images for layout in ("NCHW", "NHWC")]
        double = [BiasRelu(2, 5, 3, 4, dtype="float64"), BiasRelu(2, 5, 3, 4, layout="NHWC", dtype="float64")]
        return [*plain, *double, BiasRelu(2, 5, 3, 7, dtype="float16"), BiasRelu(2, 5, 3, 7, dtype="bfloat16")]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [BiasRelu(3, 33, 61, 59), BiasRelu(3, 33, 61, 59, layout="NHWC", dtype="float64")]
