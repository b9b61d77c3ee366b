"""What every operator spec is: a frozen dataclass whose fields are the only source of flags, axes and columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops.fields import Fields

Array = NDArray[Any]


@dataclass(frozen=True)
class Spec(Fields):
    """One operator with all its numbers; subclasses add the fields and the six answers below."""

    op: ClassVar[str] = ""

    @property
    def label(self) -> str:
        return self.op

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The element type of every input and of the output."""
        dtype: np.dtype[Any] = np.dtype(getattr(self, "dtype"))  # noqa: B009 - declared by every subclass
        return dtype

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every input, in the order in which kernels take them."""
        raise NotImplementedError

    def output_shape(self) -> tuple[int, ...]:
        """Shape of the one output."""
        raise NotImplementedError

    def flops(self) -> int:
        """Floating-point operations of the textbook algorithm (a multiply-add counts two)."""
        raise NotImplementedError

    def reduction_length(self) -> int:
        """How many terms are summed into one output element; sets the tolerance."""
        raise NotImplementedError

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        """The result in float64 with plain NumPy: what every implementation is checked against."""
        raise NotImplementedError

    def min_bytes(self) -> int:
        """Bytes that must move at least once: every input read, the output written."""
        shapes = [*self.input_shapes().values(), self.output_shape()]
        return sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes) * self.numpy_dtype.itemsize

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """The same seeded values, hence the same bytes, for every implementation."""
        generator = np.random.default_rng(seed)
        return {
            name: generator.standard_normal(shape, dtype=self.numpy_dtype.type)
            for name, shape in self.input_shapes().items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values, with the operator's name; `spec_from_dict` reads it back."""
        return {"op": self.op, **self.field_values()}


def tolerance(dtype: np.dtype[Any], reduction_length: int) -> float:
    """Largest accepted error, relative to the largest reference value: eps x 8 x sqrt(terms summed).

    Rounding errors of a sum grow like the square root of its length; 8 leaves room for another summation
    order and a few-ulp exp or pow, and is far below the error of one forgotten term (about 1 / sqrt(terms)).
    """
    return float(8.0 * np.finfo(dtype).eps * np.sqrt(max(1, reduction_length)))


def max_error(result: Array, reference: NDArray[np.float64]) -> float:
    """Largest absolute difference divided by the largest reference magnitude; NaN or Inf count as infinite."""
    if result.size == 0:
        return 0.0
    scale = float(np.max(np.abs(reference))) or 1.0
    worst = float(np.max(np.abs(result.astype(np.float64) - reference)))
    return worst / scale if np.isfinite(worst) else float("inf")
