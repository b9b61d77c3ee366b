"""MatMul: c = a b (+ bias, ReLU), one product or a batch of them."""

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
class MatMul(Spec):
    """c[m,n] = sum over k of a[m,k] * b[k,n] (+ bias[n], ReLU).

    Arrays: a is [m,k], or [k,m] with transpose_a; b is [k,n], or [n,k] with transpose_b; c is [m,n].
    Only with batch > 1 do a, b and c have a leading batch dimension; the bias [n] is shared by the batch.
    """

    op: ClassVar[str] = "matmul"
    size_formula: ClassVar[str] = "c[m,n] = a[m,k] b[k,n] + bias[n]; m, n, k and batch are at least 1"

    m: int = axis(axes.COUNT, 1024, "rows of the result")
    n: int = axis(axes.COUNT, 1024, "columns of the result")
    k: int = axis(axes.COUNT, 1024, "terms summed into one element")
    batch: int = axis(axes.COUNT, 1, "independent products per call")
    transpose_a: bool = axis(axes.FLAG, False, "a is stored as [k,m]")
    transpose_b: bool = axis(axes.FLAG, False, "b is stored as [n,k], as dense layers often do")
    bias: bool = axis(axes.FLAG, False, "add one value per column")
    activation: str = axis(axes.choice("none", "relu"), "none", "fused activation")
    dtype: str = axis(DTYPE, "float32", "element type")

    def _batched(self, *shape: int) -> tuple[int, ...]:
        return (self.batch, *shape) if self.batch > 1 else shape

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {
            "a": self._batched(self.k, self.m) if self.transpose_a else self._batched(self.m, self.k),
            "b": self._batched(self.n, self.k) if self.transpose_b else self._batched(self.k, self.n),
        }
        return {**shapes, "bias": (self.n,)} if self.bias else shapes

    def output_shape(self) -> tuple[int, ...]:
        return self._batched(self.m, self.n)

    def flops(self) -> int:
        """One multiply-add per term, one operation per element for bias and ReLU: batch m n (2k + bias + relu)."""
        return self.batch * self.m * self.n * (2 * self.k + self.bias + (self.activation == "relu"))

    def reduction_length(self) -> int:
        return self.k

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
        a = np.swapaxes(a, -1, -2) if self.transpose_a else a
        b = np.swapaxes(b, -1, -2) if self.transpose_b else b
        result: NDArray[np.float64] = np.matmul(a, b)
        result = result + inputs["bias"].astype(np.float64) if self.bias else result
        return np.maximum(result, 0.0) if self.activation == "relu" else result
