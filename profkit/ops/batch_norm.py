"""BatchNorm: every channel with mean 0 and variance 1, then scaled and shifted, and its gradients."""

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
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, result_or
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, Images, from_nchw, to_nchw
from profkit.ops.spec import Array, Spec

Values = NDArray[np.float64]
PARAMETER_GRADIENT = "parameter-gradient"
TRAINING, INFERENCE = "training", "inference"
OVER = (0, 2, 3)
"""The axes of NCHW images over which a channel is averaged."""


@dataclass(frozen=True)
class BatchNorm(Images, Spec):
    """y = scale (x - mean) / sqrt(variance + epsilon) + shift; scale, shift, mean and variance are of the channel.

    Training: mean and biased variance of x over batch and pixels, made in the same call. Inference: those given.
    parameter-gradient is [2, channels]: the gradient of scale, then that of shift. [batch, features] is
    height = width = 1.
    """

    op: ClassVar[str] = "batch_norm"
    size_formula: ClassVar[str] = "y has the shape of x; scale, shift, mean and variance have one value per channel"

    channels: int = axis(axes.COUNT, 128, "channels")
    mode: str = axis(axes.choice(TRAINING, INFERENCE), TRAINING, "statistics of this batch, or given ones")
    epsilon: float = axis(axes.NUMBER, 1e-5, "added to the variance")
    layout: str = axis(LAYOUT, "NCHW", "order of the dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = result_or(INPUT_GRADIENT, PARAMETER_GRADIENT)

    def check(self) -> None:
        if self.epsilon <= 0.0:
            raise SpecError(f"epsilon {self.epsilon:g} must be above 0")
        if self.mode == INFERENCE and self.direction != FORWARD:
            raise SpecError(f"{self.direction} is of training: inference with its fixed statistics has none here")

    @property
    def values_per_channel(self) -> int:
        return self.batch * self.height * self.width

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        x, each = self.x_shape(), (self.channels,)
        if self.direction == INPUT_GRADIENT:
            return {"x": x, "scale": each, "dy": x}
        if self.direction == PARAMETER_GRADIENT:
            return {"x": x, "dy": x}
        given = {"mean": each, "variance": each} if self.mode == INFERENCE else {}
        return {"x": x, "scale": each, "shift": each, **given}

    def has_steep_inputs(self) -> bool:
        return self.mode == INFERENCE

    def growth_of_constants(self) -> float:
        """Without a variance, what is left of x - mean is divided by the root of epsilon."""
        return float(self.epsilon**-0.5)

    def output_shape(self) -> tuple[int, ...]:
        return (2, self.channels) if self.direction == PARAMETER_GRADIENT else self.x_shape()

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        inputs = super().make_inputs(seed)
        if "variance" in inputs:
            inputs["variance"] = (np.abs(inputs["variance"]) + 0.5).astype(self.numpy_dtype)
        return inputs

    def flops(self) -> int:
        """Inference: a multiply-add per element, the channel's two numbers being made ahead of it.

        Statistics: an addition; a difference and a multiply-add. Training: the difference and a multiply-add more.
        Gradients: statistics, two operations for the normalised value, an addition, a multiply-add; that of the input
        two multiply-adds and a product more.
        """
        per_element = {FORWARD: 7, PARAMETER_GRADIENT: 9, INPUT_GRADIENT: 14}[self.direction]
        return prod(self.x_shape()) * (2 if self.mode == INFERENCE else per_element)

    def reduction_length(self) -> int:
        return 1 if self.mode == INFERENCE else self.values_per_channel

    def reference(self, inputs: Mapping[str, Array]) -> Values:
        arrays = {name: array.astype(np.float64) for name, array in inputs.items()}
        x = to_nchw(self.layout, arrays["x"])
        if self.mode == INFERENCE:
            mean, variance = arrays["mean"], arrays["variance"]
        else:
            mean, variance = self.statistics(inputs)
        normal = (x - _across(mean)) / np.sqrt(_across(variance) + self.epsilon)
        if self.direction == FORWARD:
            return from_nchw(self.layout, normal * _across(arrays["scale"]) + _across(arrays["shift"]))
        dy = to_nchw(self.layout, arrays["dy"])
        by_scale, by_shift = (dy * normal).sum(axis=OVER), dy.sum(axis=OVER)
        if self.direction == PARAMETER_GRADIENT:
            return np.stack([by_scale, by_shift])
        count = self.values_per_channel
        factor = _across(arrays["scale"]) / np.sqrt(_across(variance) + self.epsilon)
        return from_nchw(self.layout, factor * (dy - _across(by_shift) / count - normal * _across(by_scale) / count))

    def statistics(self, inputs: Mapping[str, Array]) -> tuple[Values, Values]:
        """Mean and biased variance of every channel of x: those of training."""
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        return x.mean(axis=OVER), x.var(axis=OVER)

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "wrn_16_8.block1": BatchNorm(),
            "wrn_16_8.block3": BatchNorm(128, 512, 8, 8),
            "resnet50.conv1": BatchNorm(32, 64, 112, 112),
            "resnet50.block1": BatchNorm(32, 256, 56, 56),
            "resnet50.block4": BatchNorm(32, 2048, 7, 7),
            "basic_svhn.conv1": BatchNorm(256, 16, 32, 32),
            "basic_svhn.fc1": BatchNorm(256, 1024, 1, 1),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        # Few values of a channel that are nearly equal lose their digits in any order of summation.
        images = ((2, 3, 5, 7), (3, 1, 4, 4), (2, 17, 3, 3), (9, 5, 1, 1), (33, 19, 1, 1), (1, 4, 9, 2))
        ways = ((TRAINING, FORWARD), (INFERENCE, FORWARD), (TRAINING, INPUT_GRADIENT), (TRAINING, PARAMETER_GRADIENT))
        plain = [
            BatchNorm(*image, mode=mode, layout=("NCHW", "NHWC")[(i + j) % 2], direction=direction)
            for i, image in enumerate(images)
            for j, (mode, direction) in enumerate(ways)
        ]
        double = [
            BatchNorm(2, 5, 3, 4, mode=mode, layout=layout, dtype="float64", direction=direction, epsilon=0.001)
            for layout in ("NCHW", "NHWC")
            for mode, direction in ways
        ]
        return [*plain, *double, BatchNorm(2, 5, 3, 7, dtype="float16"), BatchNorm(2, 5, 3, 7, dtype="bfloat16")]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            BatchNorm(3, 33, 31, 29, layout=layout, dtype=dtype, direction=direction)
            for layout, dtype, direction in (
                ("NCHW", "float32", FORWARD),
                ("NHWC", "float64", FORWARD),
                ("NCHW", "float32", INPUT_GRADIENT),
                ("NHWC", "float32", PARAMETER_GRADIENT),
            )
        ]


def _across(values: Values) -> Values:
    """One value per channel, against NCHW images."""
    return values[None, :, None, None]
