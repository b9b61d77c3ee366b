"""Embedding: rows of a table by their numbers, and the gradient of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.dtypes import DTYPE, ITEM_BYTES
from profkit.ops.spec import Array, Spec

INDEX_BYTES = 8
_DIRECTION = axes.choice(FORWARD, WEIGHT_GRADIENT, among=(FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT))


@dataclass(frozen=True)
class Embedding(Spec):
    """y[i] = table[indices[i]]; the gradient of the table adds every dy[i] to its row indices[i].

    Indices are whole numbers of 64 bits, from 0 to vocabulary - 1.
    """

    op: ClassVar[str] = "embedding"
    size_formula: ClassVar[str] = "y[rows,width] of indices[rows] and table[vocabulary,width]; all at least 1"

    rows: int = axis(axes.COUNT, 64 * 500, "indices per call")
    vocabulary: int = axis(axes.COUNT, 5000, "rows of the table")
    width: int = axis(axes.COUNT, 32, "values per row")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(_DIRECTION, FORWARD, "the result, or the gradient of the table")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.direction == WEIGHT_GRADIENT:
            return {"indices": (self.rows,), "dy": (self.rows, self.width)}
        return {"indices": (self.rows,), "table": (self.vocabulary, self.width)}

    def leading_input(self) -> tuple[str, int]:
        return ("table" if self.direction == FORWARD else "dy"), 0

    def output_shape(self) -> tuple[int, ...]:
        return (self.rows if self.direction == FORWARD else self.vocabulary, self.width)

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        indices = np.random.default_rng((seed, 1)).integers(0, self.vocabulary, self.rows)
        return {**super().make_inputs(seed), "indices": indices}

    def min_bytes(self) -> int:
        """Indices, and every row that is met once: of the table as many as there are, at most one per index."""
        item = ITEM_BYTES[self.dtype]
        met = min(self.rows, self.vocabulary) if self.direction == FORWARD else self.vocabulary
        return self.rows * INDEX_BYTES + (self.rows + met) * self.width * item

    def flops(self) -> int:
        """None forward, one addition per element of the gradient."""
        return 0 if self.direction == FORWARD else self.rows * self.width

    def reduction_length(self) -> int:
        return 1 if self.direction == FORWARD else -(-self.rows // self.vocabulary)

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        if self.direction == FORWARD:
            return np.ascontiguousarray(inputs["table"].astype(np.float64)[inputs["indices"]])
        result = np.zeros(self.output_shape())
        np.add.at(result, inputs["indices"], inputs["dy"].astype(np.float64))
        return result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "imdb_lstm": Embedding(),
            "transformer": Embedding(32 * 128, 10_000, 256),
            "transformer.base": Embedding(8 * 512, 30_000, 768),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        sizes = ((1, 1, 1), (7, 5, 3), (1, 9, 17), (33, 2, 16), (5, 100, 33), (64, 7, 64), (129, 31, 9))
        return [
            Embedding(*size, dtype=dtype, direction=direction)
            for direction in (FORWARD, WEIGHT_GRADIENT)
            for size, dtype in (
                *((size, "float32") for size in sizes),
                *((size, "float64") for size in sizes[1:4]),
                (sizes[1], "float16"),
                (sizes[4], "bfloat16"),
            )
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Embedding(5003, 301, 61), Embedding(5003, 301, 61, "float32", WEIGHT_GRADIENT)]
