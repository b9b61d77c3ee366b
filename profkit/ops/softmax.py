"""Softmax over the classes of every row."""

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
class Softmax(Spec):
    """y[i,j] = exp(x[i,j] - max of row i) / sum over the row of the same."""

    op: ClassVar[str] = "softmax"
    size_formula: ClassVar[str] = "y[rows,classes] = softmax of x[rows,classes] over classes; both are at least 1"

    rows: int = axis(axes.COUNT, 128, "independent rows")
    classes: int = axis(axes.COUNT, 1000, "values per row")
    dtype: str = axis(DTYPE, "float32", "element type")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": (self.rows, self.classes)}

    def output_shape(self) -> tuple[int, ...]:
        return (self.rows, self.classes)

    def flops(self) -> int:
        """Comparison, subtraction, exponential, addition and division: 5 per element."""
        return 5 * self.rows * self.classes

    def reduction_length(self) -> int:
        return self.classes

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = inputs["x"].astype(np.float64)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "imagenet": Softmax(128, 1000),
            "cifar10": Softmax(128, 10),
            "mlp.shuttle": Softmax(128, 7),
            "square.1024": Softmax(1024, 1024),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        sizes = ((1, 1), (1, 2), (7, 1), (3, 5), (5, 10), (2, 16), (4, 17), (17, 33), (1, 1000), (9, 129), (2, 999))
        others = (
            ((1, 1), "float64"),
            ((3, 7), "float64"),
            ((5, 130), "float64"),
            ((5, 33), "float16"),
            ((4, 17), "bfloat16"),
        )
        return [*(Softmax(*size) for size in sizes), *(Softmax(*size, dtype=dtype) for size, dtype in others)]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Softmax(257, 1001), Softmax(130, 515, dtype="float64")]
