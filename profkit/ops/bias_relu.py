"""BiasRelu: one value per channel added, then everything below zero cut off, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, result_or
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, Images, from_nchw, to_nchw
from profkit.ops.spec import Array, Spec

BIAS_GRADIENT = "bias-gradient"


@dataclass(frozen=True)
class BiasRelu(Images, Spec):
    """y[n,c,i,j] = max(0, x[n,c,i,j] + b[c]); x and y in `layout`, b has one value per channel.

    Gradients, from y and dy: input-gradient is dy where y is above 0, otherwise 0; bias-gradient the same, summed up
    for every channel.
    """

    op: ClassVar[str] = "bias_relu"
    size_formula: ClassVar[str] = "y = max(0, x + b[channel]), of the shape of x; all counts are at least 1"

    layout: str = axis(LAYOUT, "NCHW", "order of the dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = result_or(INPUT_GRADIENT, BIAS_GRADIENT)

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.direction == FORWARD:
            return {"x": self.x_shape(), "b": (self.channels,)}
        return {"y": self.x_shape(), "dy": self.x_shape()}

    def leading_input(self) -> tuple[str, int]:
        return ("x" if self.direction == FORWARD else "dy"), self._channel_axis if self._sums_up else 0

    @property
    def _sums_up(self) -> bool:
        return self.direction == BIAS_GRADIENT

    @property
    def _channel_axis(self) -> int:
        return 1 if self.layout == "NCHW" else 3

    def output_shape(self) -> tuple[int, ...]:
        return (self.channels,) if self._sums_up else self.x_shape()

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """The y of a gradient is a result: nothing of it is below 0."""
        inputs = super().make_inputs(seed)
        return inputs | {name: np.maximum(inputs[name], 0) for name in ("y",) if name in inputs}

    def flops(self) -> int:
        """A comparison per element; forward and for the sum an addition too."""
        return (1 if self.direction == INPUT_GRADIENT else 2) * prod(self.x_shape())

    def reduction_length(self) -> int:
        return self.batch * self.height * self.width if self._sums_up else 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        if self.direction != FORWARD:
            dx: NDArray[np.float64] = np.where(inputs["y"] > 0, inputs["dy"].astype(np.float64), 0.0)
            return to_nchw(self.layout, dx).sum(axis=(0, 2, 3)) if self._sums_up else dx
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
            "cifar10.conv1.gradient": BiasRelu(128, 64, 32, 32, direction=INPUT_GRADIENT),
            "cifar10.conv1.bias_gradient": BiasRelu(128, 64, 32, 32, direction=BIAS_GRADIENT),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        images = ((1, 1, 1, 1), (3, 1, 5, 7), (1, 5, 1, 1), (2, 3, 7, 5), (2, 17, 3, 3), (1, 33, 9, 2), (5, 4, 8, 8))
        plain = [BiasRelu(*image, layout=layout) for image in images for layout in ("NCHW", "NHWC")]
        double = [BiasRelu(2, 5, 3, 4, dtype="float64"), BiasRelu(2, 5, 3, 4, layout="NHWC", dtype="float64")]
        forward = [*plain, *double, BiasRelu(2, 5, 3, 7, dtype="float16"), BiasRelu(2, 5, 3, 7, dtype="bfloat16")]
        gradients = [spec.replaced(direction=INPUT_GRADIENT) for spec in forward[::2] + forward[-1:]]
        return [*forward, *gradients, *(spec.replaced(direction=BIAS_GRADIENT) for spec in forward)]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        forward = [BiasRelu(3, 33, 61, 59), BiasRelu(3, 33, 61, 59, layout="NHWC", dtype="float64")]
        ways = (FORWARD, INPUT_GRADIENT, BIAS_GRADIENT)
        return [spec.replaced(direction=way) for way in ways for spec in forward]
