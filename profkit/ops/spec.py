"""What every operator spec is: a frozen dataclass whose fields are the only source of flags, axes and columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops.dtypes import ITEM_BYTES, Array, numpy_dtype, random_normal, tolerance
from profkit.ops.fields import Fields

__all__ = ["Array", "Spec", "max_error", "tolerance"]

LENET_MAPS = (2, 4, 8, 16, 32, 64)
"""The study's numbers of feature maps per image channel: presets lenet.p2 and so on."""


@dataclass(frozen=True)
class Spec(Fields):
    """One operator with all its numbers; subclasses add the fields and the six answers below."""

    op: ClassVar[str] = ""

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The element type of every input and of the output."""
        return numpy_dtype(self.dtype_word)

    @property
    def dtype_word(self) -> str:
        """The element type as the spec's field says it."""
        word: str = getattr(self, "dtype")  # noqa: B009 - declared by every subclass
        return word

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every input, in the order in which kernels take them."""
        raise NotImplementedError

    def output_shape(self) -> tuple[int, ...]:
        raise NotImplementedError

    def leading_input(self) -> tuple[str, int]:
        """The input, and its axis, whose slices belong to those of the output's first axis."""
        return next(iter(self.input_shapes())), 0

    def has_steep_inputs(self) -> bool:
        """Whether slices of very different magnitude are a fair test: errors grow with them, and nothing saturates."""
        return True

    def growth_of_constants(self) -> float:
        """How many times as large as constant inputs the terms are that cancel in the result."""
        return 1.0

    def flops(self) -> int:
        """Floating-point operations of the textbook algorithm (a multiply-add counts two)."""
        raise NotImplementedError

    def least_flops(self) -> int:
        """Those that no kernel of the textbook algorithm can avoid."""
        return self.flops()

    def reduction_length(self) -> int:
        """How many terms are summed into one output element; sets the tolerance."""
        raise NotImplementedError

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        """The result in float64 with plain NumPy: what every implementation is checked against."""
        raise NotImplementedError

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        """Named shapes from published networks (the operator studies); the first is the spec without arguments.

        Every preset is the bare operator: bias and activation of the layer are left off, so that all implementations
        run one kernel (`--bias yes --activation relu` adds them). Paddings of convolutions are numbers, which every
        framework runs natively (pad 2 is SAME for a 5x5 filter at stride 1). Batches: cifar10, lenet, wrn16-4 and
        mlp.shuttle 128, alexnet and googlenet 32 (the study sweeps 1 to 512), allcnn 100, solar 512, mlp.cifar10 32,
        mlp.solar 1000.
        """
        return {"default": cls()}

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        """Odd, tiny and non-multiple shapes, on which every kernel and adapter is tested; each runs in milliseconds."""
        return [cls()]

    @classmethod
    def round_shapes(cls) -> list[Spec]:
        """Small shapes for kernels that decline odd ones, because their vectors and tiles must divide the sizes."""
        return []

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        """Enough work for several threads and tiles; each float64 reference takes less than a tenth of a second."""
        return []

    def min_bytes(self) -> int:
        """Bytes that must move at least once: every input read, the output written."""
        shapes = [*self.input_shapes().values(), self.output_shape()]
        return sum(map(math.prod, shapes)) * ITEM_BYTES[self.dtype_word]

    def output_bytes(self) -> int:
        return math.prod(self.output_shape()) * ITEM_BYTES[self.dtype_word]

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """The same seeded values, so the same bytes, for every implementation."""
        generator = np.random.default_rng(seed)
        return {name: random_normal(generator, shape, self.dtype_word) for name, shape in self.input_shapes().items()}

    def params(self) -> dict[str, int | float]:
        """The fields of the C struct `profkit_<op>_params`, in its order: those of the spec, then `derived_params`."""
        numbers: dict[str, int | float] = {}
        for item in dataclasses.fields(self):
            numbers |= item.metadata["kind"].numbers(item.name, getattr(self, item.name))
        return numbers | self.derived_params()

    def derived_params(self) -> dict[str, int | float]:
        """Values that kernels need in addition to the fields, such as the size of the output."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values, with the operator's name; `spec_from_dict` reads it back."""
        return {"op": self.op, **self.field_values()}


def max_error(result: Array, reference: NDArray[np.float64]) -> float:
    """Largest absolute difference divided by the largest reference magnitude; NaN or Inf count as infinite."""
    if result.size == 0:
        return 0.0
    scale = float(np.max(np.abs(reference))) or 1.0
    worst = float(np.max(np.abs(result.astype(np.float64) - reference)))
    return worst / scale if np.isfinite(worst) else float("inf")
