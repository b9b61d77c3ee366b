"""LocalResponseNorm: each value divided by a power of the energy of its neighbouring channels; its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, Images, from_nchw, to_nchw
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class LocalResponseNorm(Images, Spec):
    """y[c] = x[c] / (k + alpha/size * sum of x^2 over channels c - size//2 ... c + (size-1)//2)^beta.

    Channels outside the image count as zero. An even size has one channel more before than after, as in
    torch. alpha is Caffe's and torch's; TensorFlow's alpha is this one divided by size. With s[c] the base of the
    power, the gradient is dx[c] = dy[c] s[c]^-beta - 2 alpha/size beta x[c] * sum over the channels that see c of
    dy x s^(-beta-1).
    """

    op: ClassVar[str] = "lrn"
    size_formula: ClassVar[str] = "y = x / (k + alpha/size * sum of x^2 over `size` channels)^beta, of the shape of x"

    height: int = axis(axes.COUNT, 16, "input height")
    width: int = axis(axes.COUNT, 16, "input width")
    size: int = axis(axes.COUNT, 9, "neighbouring channels, the own one included")
    alpha: float = axis(axes.NUMBER, 0.001, "weight of the mean energy")
    beta: float = axis(axes.NUMBER, 0.75, "exponent")
    k: float = axis(axes.NUMBER, 1.0, "constant added to the energy")
    layout: str = axis(LAYOUT, "NCHW", "order of the dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(axes.choice(FORWARD, INPUT_GRADIENT), FORWARD, "the result, or the gradient of its input")

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
        return {name: self.x_shape() for name in (("x",) if self.direction == FORWARD else ("x", "dy"))}

    def has_steep_inputs(self) -> bool:
        return self.direction == FORWARD

    def output_shape(self) -> tuple[int, ...]:
        return self.x_shape()

    def flops(self) -> int:
        """A multiply-add per neighbour, then scale, add, power and division: 2 size + 4 per element.

        The gradient: the energy again, the sum of what depends on x, two powers and five products: 4 size + 9.
        """
        per_element = 2 * self.size + 4 if self.direction == FORWARD else 4 * self.size + 9
        return prod(self.x_shape()) * per_element

    def reduction_length(self) -> int:
        return self.size

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        before, after = self.reach
        share = self.alpha / self.size
        base = self.k + share * self._window_sums(x * x, before, after)
        if self.direction == FORWARD:
            return from_nchw(self.layout, x / base**self.beta)
        dy = to_nchw(self.layout, inputs["dy"].astype(np.float64))
        # Channel c is seen by c - after ... c + before.
        seen = self._window_sums(dy * x * base ** (-self.beta - 1.0), after, before)
        return from_nchw(self.layout, dy * base**-self.beta - 2.0 * share * self.beta * x * seen)

    def _window_sums(self, values: NDArray[np.float64], before: int, after: int) -> NDArray[np.float64]:
        """Over the channels c - before ... c + after of NCHW images."""
        padded = np.pad(values, ((0, 0), (before, after), (0, 0), (0, 0)))
        sums = np.zeros_like(values)
        for i in range(self.size):
            sums += padded[:, i : i + self.channels]
        return sums

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
            "cifar10.norm1.gradient": LocalResponseNorm(128, 64, 16, 16, direction=INPUT_GRADIENT),
            "alexnet.norm1.gradient": LocalResponseNorm(32, 96, 55, 55, size=5, alpha=0.0001, direction=INPUT_GRADIENT),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        forward = [
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
        return [*forward, *(spec.replaced(direction=INPUT_GRADIENT) for spec in forward)]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            LocalResponseNorm(2, 33, 41, 39, size=5, layout=layout, direction=way)
            for way in (FORWARD, INPUT_GRADIENT)
            for layout in ("NCHW", "NHWC")
        ]
