"""Attention: every position's mean of values, weighted by how its query fits the keys; and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec


@dataclass(frozen=True)
class Attention(Spec):
    """y = softmax(q k^T / sqrt(width)) v for every head; causal: position i sees 0 to i.

    q, k, v and y are [batch, steps, heads * width]: a head's values of one position lie side by side. input-gradient is
    [3, batch, steps, heads * width]: those by q, by k and by v.
    """

    op: ClassVar[str] = "attention"
    size_formula: ClassVar[str] = "y[batch,steps,heads*width] of q, k and v of the same shape; all at least 1"

    batch: int = axis(axes.COUNT, 32, "sequences per call")
    heads: int = axis(axes.COUNT, 8, "heads")
    steps: int = axis(axes.COUNT, 128, "positions of a sequence")
    width: int = axis(axes.COUNT, 32, "values per head")
    causal: bool = axis(axes.FLAG, False, "position i sees 0 to i")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(axes.choice(FORWARD, INPUT_GRADIENT), FORWARD, "the result, or its gradients by q, k and v")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        names = ("q", "k", "v") if self.direction == FORWARD else ("q", "k", "v", "dy")
        return dict.fromkeys(names, self.result_shape())

    def result_shape(self) -> tuple[int, ...]:
        """Of the forward pass, and of everything that it takes."""
        return (self.batch, self.steps, self.heads * self.width)

    def has_steep_inputs(self) -> bool:
        return False

    def output_shape(self) -> tuple[int, ...]:
        return self.result_shape() if self.direction == FORWARD else (3, *self.result_shape())

    @property
    def pairs(self) -> int:
        """Of a position and one that it sees, over all heads of the batch."""
        seen = self.steps * (self.steps + 1) // 2 if self.causal else self.steps**2
        return self.batch * self.heads * seen

    def flops(self) -> int:
        """Per pair of positions: two products of `width` terms, the scaling, and softmax's 5.

        Gradients: five products (the scores again), softmax, and the 5 of its gradient and of the scaling.
        """
        return self.pairs * (4 * self.width + 6 if self.direction == FORWARD else 10 * self.width + 11)

    def reduction_length(self) -> int:
        return self.steps + self.width

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        q, k, v = (self.by_head(inputs[name].astype(np.float64)) for name in ("q", "k", "v"))
        weights = self.weights(q, k)
        if self.direction == FORWARD:
            return self._joined(weights @ v)
        dy = self.by_head(inputs["dy"].astype(np.float64))
        by_weights = dy @ v.swapaxes(2, 3)
        by_scores = weights * (by_weights - (by_weights * weights).sum(axis=3, keepdims=True)) / np.sqrt(self.width)
        found = (by_scores @ k, by_scores.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ dy)
        return np.stack([self._joined(each) for each in found])

    def _joined(self, by_head: Array) -> NDArray[np.float64]:
        """The heads of every position side by side again."""
        return np.ascontiguousarray(by_head.transpose(0, 2, 1, 3)).reshape(self.result_shape())

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
            "transformer.gradient": Attention(direction=INPUT_GRADIENT),
            "transformer.causal.gradient": Attention(causal=True, direction=INPUT_GRADIENT),
            "transformer.base.gradient": Attention(8, 12, 512, 64, direction=INPUT_GRADIENT),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        shapes = ((1, 1, 1, 1), (2, 1, 3, 5), (1, 3, 7, 4), (2, 2, 17, 16), (1, 2, 33, 17), (3, 1, 65, 8))
        forward = [
            *(Attention(*shape, causal) for shape in shapes for causal in (False, True)),
            Attention(2, 3, 9, 7, dtype="float64"),
            Attention(2, 3, 9, 7, True, "float64"),
        ]
        return [
            *forward,
            *(spec.replaced(direction=INPUT_GRADIENT) for spec in forward),
            Attention(2, 2, 5, 8, dtype="float16"),
            Attention(2, 2, 5, 8, True, "bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        forward = [Attention(3, 4, 129, 37), Attention(2, 3, 130, 40, True, "float64")]
        return [*forward, *(spec.replaced(direction=INPUT_GRADIENT) for spec in forward)]
