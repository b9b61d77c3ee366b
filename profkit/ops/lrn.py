"""LocalResponseNorm: each value divided by a power of the energy of its neighbouring channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, from_nchw, image_shape, to_nchw
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class LocalResponseNorm(Spec):
    """y[c] = x[c] / (k + alpha/size * sum of x^2 over channels c - size//2 ... c + (size-1)//2)^beta.

    Channels outside the image count as zero. An even size has one channel more before than after, as in
    torch. alpha is Caffe's and torch's; TensorFlow's alpha is this one divided by size.
    """

    op: ClassVar[str] = "lrn"
    size_formula: ClassVar[str] = "y = x / (k + alpha/size * sum of x^2 over `size` channels)^beta, of the shape of x"

    batch: int = axis(axes.COUNT, 128, "images per call")
    channels: int = axis(axes.COUNT, 64, "channels")
    height: int = axis(axes.COUNT, 16, "height")
    width: int = axis(axes.COUNT, 16, "width")
    size: int = axis(axes.COUNT, 9, "neighbouring channels, the own one included")
    alpha: float = axis(axes.NUMBER, 0.001, "weight of the mean energy")
    beta: float = axis(axes.NUMBER, 0.75, "exponent")
    k: float = axis(axes.NUMBER, 1.0, "constant added to the energy")
    layout: str = axis(LAYOUT, "NCHW", "order of the dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")

    def check(self) -> None:
        if self.alpha < 0 or self.k <= 0:
            raise SpecError(
                f"alpha {self.alpha:g} must be at least 0 and k {self.k:g} above 0: the power needs a positive base"
            )

    @property
    def reach(self) -> tuple[int, int]:
        """How many channels before and after the own one are summed."""
        return self.size // 2, (self.size - 1) // 2

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": self.output_shape()}

    def output_shape(self) -> tuple[int, ...]:
        return image_shape(self.layout, self.batch, self.channels, (self.height, self.width))

    def flops(self) -> int:
        """A multiply-add per neighbour, then scale, add, power and division: 2 size + 4 per element."""
        return int(np.prod(self.output_shape(), dtype=np.int64)) * (2 * self.size + 4)

    def reduction_length(self) -> int:
        return self.size

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        before, after = self.reach
        squares = np.pad(x * x, ((0, 0), (before, after), (0, 0), (0, 0)))
        energy = np.zeros_like(x)
        for i in range(self.size):
            energy += squares[:, i : i + self.channels]
        return from_nchw(self.layout, x / (self.k + self.alpha / self.size * energy) ** self.beta)

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        # BVLC AlexNet normalises before it pools; its alpha is 0.0001 over 5 channels.
        return {
            "cifar10.norm1": LocalResponseNorm(128, 64, 16, 16),
            "cifar10.norm2": LocalResponseNorm(128, 64, 16, 16),
            "cifar10.crop24.norm1": LocalResponseNorm(128, 64, 12, 12),
            "alexnet.norm1": LocalResponseNorm(32, 96, 55, 55, size=5, alpha=0.0001),
            "alexnet.norm2": LocalResponseNorm(32, 256, 27, 27, size=5, alpha=0.0001),
            "googlenet.norm1": LocalResponseNorm(32, 64, 56, 56, size=5, alpha=0.0001),
            "googlenet.norm2": LocalResponseNorm(32, 192, 56, 56, size=5, alpha=0.0001),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        return [
            LocalResponseNorm(1, 1, 1, 1),
            LocalResponseNorm(1, 1, 3, 3, size=1),
            LocalResponseNorm(2, 3, 5, 4),
            LocalResponseNorm(2, 9, 4, 5),
            LocalResponseNorm(2, 16, 3, 7, layout="NHWC"),
            LocalResponseNorm(1, 33, 5, 5, size=5, alpha=0.0001),
            LocalResponseNorm(2, 8, 3, 3, size=2, alpha=0.5),
            LocalResponseNorm(2, 8, 3, 3, size=4, alpha=0.5, layout="NHWC"),
            LocalResponseNorm(2, 5, 3, 3, size=6, alpha=1.0),
            LocalResponseNorm(1, 4, 2, 9, size=20, alpha=1.0),
            LocalResponseNorm(2, 7, 4, 4, size=3, alpha=1.0, beta=0.5, k=2.0),
            LocalResponseNorm(2, 7, 4, 4, size=3, alpha=1.0, beta=1.0, k=0.5),
            LocalResponseNorm(2, 7, 4, 4, size=3, alpha=2.0, beta=0.33),
            LocalResponseNorm(2, 6, 5, 3, dtype="float64", alpha=1.0),
            LocalResponseNorm(1, 17, 3, 3, dtype="float64", layout="NHWC", size=5, alpha=1.0),
            LocalResponseNorm(2, 9, 3, 4, dtype="float16", size=5),
            LocalResponseNorm(2, 9, 3, 4, dtype="bfloat16", size=5),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [LocalResponseNorm(2, 33, 41, 39, size=5), LocalResponseNorm(2, 33, 41, 39, size=5, layout="NHWC")]
