"""Attention: every position's mean of values, weighted by how its query fits the keys."""

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
class Attention(Spec):
    """y = softmax(q k^T / sqrt(width)) v for every head; causal: position i sees 0 to i.

    q, k, v and y are [batch, steps, heads * width]: a head's values of one position lie side by side.
    """

    op: ClassVar[str] = "attention"
    size_formula: ClassVar[str] = "y[batch,steps,heads*width] of q, k and v of the same shape; all at least 1"

    batch: int = axis(axes.COUNT, 32, "sequences per call")
    heads: int = axis(axes.COUNT, 8, "heads")
    steps: int = axis(axes.COUNT, 128, "positions of a sequence")
    width: int = axis(axes.COUNT, 32, "values per head")
    causal: bool = axis(axes.FLAG, False, "position i sees 0 to i")
    dtype: str = axis(DTYPE, "float32", "element type")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: self.output_shape() for name in ("q", "k", "v")}

    def has_steep_inputs(self) -> bool:
        return False

    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, self.steps, self.heads * self.width)

    @property
    def pairs(self) -> int:
        """Of a position and one that it sees, over all heads of the batch."""
        seen = self.steps * (self.steps + 1) // 2 if self.causal else self.steps**2
        return self.batch * self.heads * seen

    def flops(self) -> int:
        """Per pair of positions: two products of `width` terms, the scaling, and softmax's 5."""
        return self.pairs * (4 * self.width + 6)

    def reduction_length(self) -> int:
        return self.steps + self.width

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        q, k, v = (self.by_head(inputs[name].astype(np.float64)) for name in ("q", "k", "v"))
        weights = self.weights(q, k)
        return np.ascontiguousarray((weights @ v).transpose(0, 2, 1, 3)).reshape(self.output_shape())

    def by_head(self, array: Array) -> Array:
        """[batch, heads, steps, width], a view."""
        seen: Array = array.reshape(self.batch, self.steps, self.heads, self.width).transpose(0, 2, 1, 3)
        return seen

    def weights(self, q: Array, k: Array) -> NDArray[np.float64]:
        """softmax(q k^T / sqrt(width)): [batch, heads, steps, steps]."""
        scores = q @ k.swapaxes(2, 3) / np.sqrt(self.width)
        if self.causal:
            scores = np.where(np.tri(self.steps, dtype=bool), scores, -np.inf)
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        result: NDArray[np.float64] = powers / powers.sum(axis=3, keepdims=True)
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "transformer": Attention(),
            "transformer.causal": Attention(causal=True),
            "transformer.base": Attention(8, 12, 512, 64),
            "transformer.base.causal": Attention(8, 12, 512, 64, True),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        shapes = ((1, 1, 1, 1), (2, 1, 3, 5), (1, 3, 7, 4), (2, 2, 17, 16), (1, 2, 33, 17), (3, 1, 65, 8))
        return [
            *(Attention(*shape, causal) for shape in shapes for causal in (False, True)),
            Attention(2, 3, 9, 7, dtype="float64"),
            Attention(2, 3, 9, 7, True, "float64"),
            Attention(2, 2, 5, 8, dtype="float16"),
            Attention(2, 2, 5, 8, True, "bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Attention(3, 4, 129, 37), Attention(2, 3, 130, 40, True, "float64")]
