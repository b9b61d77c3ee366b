"""Dropout with a given mask: elements set to zero, the others enlarged."""

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
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class Dropout(Spec):
    """y = x mask, element by element; the mask is 0, or 1 / (1 - rate). Its gradient is the same of dy."""

    op: ClassVar[str] = "dropout"
    size_formula: ClassVar[str] = "y[count] = x[count] mask[count]; count is at least 1, rate at least 0 and below 1"

    count: int = axis(axes.COUNT, 512 * 64 * 23 * 23, "elements")
    rate: float = axis(axes.NUMBER, 0.5, "share of the elements that is set to zero")
    dtype: str = axis(DTYPE, "float32", "element type")

    def check(self) -> None:
        if not 0.0 <= self.rate < 1.0:
            raise SpecError(f"rate {self.rate:g} must be at least 0 and below 1")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": (self.count,), "mask": (self.count,)}

    def output_shape(self) -> tuple[int, ...]:
        return (self.count,)

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        kept = np.random.default_rng((seed, 1)).random(self.count) >= self.rate
        return {**super().make_inputs(seed), "mask": (kept / (1.0 - self.rate)).astype(self.numpy_dtype)}

    def flops(self) -> int:
        """One multiplication per element."""
        return self.count

    def reduction_length(self) -> int:
        return 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        result: NDArray[np.float64] = inputs["x"].astype(np.float64) * inputs["mask"].astype(np.float64)
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "solar.pool": Dropout(),
            "solar.dense": Dropout(512 * 128),
            "alexnet.fc6": Dropout(32 * 4096),
            "basic_svhn.conv1": Dropout(256 * 16 * 16 * 16, 0.25),
            "basic_svhn.conv2": Dropout(256 * 512 * 8 * 8),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        counts = (1, 2, 7, 15, 16, 17, 63, 129)
        return [
            *(Dropout(count, 0.25) for count in counts),
            *(Dropout(count, dtype="float64") for count in counts[:5]),
            Dropout(1027, 0.9),
            Dropout(33, 0.0),
            Dropout(45, dtype="float16"),
            Dropout(45, dtype="bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Dropout(300_007), Dropout(200_003, 0.25, "float64")]
