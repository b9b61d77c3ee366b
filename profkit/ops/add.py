"""Add: the sum of two arrays, as where a residual network joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class Add(Spec):
    """c = a + b, element by element."""

    op: ClassVar[str] = "add"
    size_formula: ClassVar[str] = "c[count] = a[count] + b[count]; count is at least 1"

    count: int = axis(axes.COUNT, 128 * 128 * 32 * 32, "elements")
    dtype: str = axis(DTYPE, "float32", "element type")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"a": (self.count,), "b": (self.count,)}

    def output_shape(self) -> tuple[int, ...]:
        return (self.count,)

    def flops(self) -> int:
        """One addition per element."""
        return self.count

    def reduction_length(self) -> int:
        return 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = inputs["a"].astype(np.float64) + inputs["b"].astype(np.float64)
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "wrn_16_8.block1": Add(),
            "wrn_16_8.block3": Add(128 * 512 * 8 * 8),
            "resnet50.block1": Add(32 * 256 * 56 * 56),
            "resnet50.block4": Add(32 * 2048 * 7 * 7),
            "transformer": Add(32 * 128 * 256),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        counts = (1, 2, 7, 15, 16, 17, 63, 64, 129, 1027)
        return [
            *(Add(count) for count in counts),
            *(Add(count, "float64") for count in counts[:7]),
            Add(45, "float16"),
            Add(45, "bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Add(300_007), Add(200_003, "float64")]
