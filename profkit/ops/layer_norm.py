"""LayerNorm: every row with mean 0 and variance 1, then scaled and shifted, and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.batch_norm import PARAMETER_GRADIENT
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, result_or
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class LayerNorm(Spec):
    """y[i] = scale (x[i] - mean[i]) / sqrt(variance[i] + epsilon) + shift, mean and biased variance of the row.

    parameter-gradient is [2, width]: the gradient of scale, then that of shift.
    """

    op: ClassVar[str] = "layer_norm"
    size_formula: ClassVar[str] = "y[rows,width] of x[rows,width], scale[width] and shift[width]; all at least 1"

    rows: int = axis(axes.COUNT, 32 * 128, "independent rows")
    width: int = axis(axes.COUNT, 256, "values per row")
    epsilon: float = axis(axes.NUMBER, 1e-5, "added to the variance")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = result_or(INPUT_GRADIENT, PARAMETER_GRADIENT)

    def check(self) -> None:
        if self.epsilon <= 0.0:
            raise SpecError(f"epsilon {self.epsilon:g} must be above 0")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        x, each = (self.rows, self.width), (self.width,)
        if self.direction == INPUT_GRADIENT:
            return {"x": x, "scale": each, "dy": x}
        return {"x": x, "dy": x} if self.direction == PARAMETER_GRADIENT else {"x": x, "scale": each, "shift": each}

    def has_steep_inputs(self) -> bool:
        return False

    def growth_of_constants(self) -> float:
        """Without a variance, what is left of x - mean is divided by the root of epsilon."""
        return float(self.epsilon**-0.5)

    def output_shape(self) -> tuple[int, ...]:
        return (2 if self.direction == PARAMETER_GRADIENT else self.rows, self.width)

    def flops(self) -> int:
        """Per element: statistics 4 (an addition, a difference, a multiply-add), then as batch_norm."""
        return self.rows * self.width * {FORWARD: 7, PARAMETER_GRADIENT: 9, INPUT_GRADIENT: 15}[self.direction]

    def reduction_length(self) -> int:
        return self.rows + self.width if self.direction == PARAMETER_GRADIENT else self.width

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        arrays = {name: array.astype(np.float64) for name, array in inputs.items()}
        x = arrays["x"]
        deviation = np.sqrt(x.var(axis=1, keepdims=True) + self.epsilon)
        normal = (x - x.mean(axis=1, keepdims=True)) / deviation
        result: NDArray[np.float64]
        if self.direction == FORWARD:
            result = normal * arrays["scale"] + arrays["shift"]
        elif self.direction == PARAMETER_GRADIENT:
            result = np.stack([(arrays["dy"] * normal).sum(axis=0), arrays["dy"].sum(axis=0)])
        else:
            scaled = arrays["dy"] * arrays["scale"]
            along = (scaled * normal).mean(axis=1, keepdims=True)
            result = (scaled - scaled.mean(axis=1, keepdims=True) - normal * along) / deviation
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "transformer": LayerNorm(),
            "transformer.base": LayerNorm(8 * 512, 768),
            "transformer.large": LayerNorm(8 * 512, 1024),
            "short": LayerNorm(128 * 128, 64),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        sizes = ((1, 5), (7, 4), (3, 17), (5, 16), (17, 33), (2, 129), (9, 1000), (3, 999))
        directions = (FORWARD, INPUT_GRADIENT, PARAMETER_GRADIENT)
        return [
            *(LayerNorm(*size, direction=direction) for size in sizes for direction in directions),
            *(LayerNorm(5, 37, 0.001, "float64", direction) for direction in directions),
            LayerNorm(5, 33, dtype="float16"),
            LayerNorm(5, 33, dtype="bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            LayerNorm(257, 1001),
            LayerNorm(130, 515, dtype="float64", direction=INPUT_GRADIENT),
            LayerNorm(515, 130, direction=PARAMETER_GRADIENT),
        ]
