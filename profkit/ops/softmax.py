"""Softmax over the classes of every row, and the gradient of softmax with cross-entropy."""

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
class Softmax(Spec):
    """y[i,j] = exp(x[i,j] - max of row i) / sum over the row of the same.

    input-gradient: that of every row's cross-entropy with `labels`, whose rows are 1 at the class and 0 elsewhere:
    softmax(x) - labels. (The gradient of a mean over the rows is this one divided by their number.)
    """

    op: ClassVar[str] = "softmax"
    size_formula: ClassVar[str] = "y[rows,classes] = softmax of x[rows,classes] over classes; both are at least 1"

    rows: int = axis(axes.COUNT, 128, "independent rows")
    classes: int = axis(axes.COUNT, 1000, "values per row")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(
        axes.choice(FORWARD, INPUT_GRADIENT), FORWARD, "the result, or the gradient of its cross-entropy"
    )

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("x",) if self.direction == FORWARD else ("x", "labels"), (self.rows, self.classes))

    def has_steep_inputs(self) -> bool:
        return self.direction == FORWARD

    def output_shape(self) -> tuple[int, ...]:
        return (self.rows, self.classes)

    def flops(self) -> int:
        """Comparison, subtraction, exponential, addition and division: 5 per element; a gradient's subtraction too."""
        return (5 if self.direction == FORWARD else 6) * self.rows * self.classes

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        inputs = super().make_inputs(seed)
        if self.direction != FORWARD:
            classes = np.random.default_rng((seed, 1)).integers(0, self.classes, self.rows)
            inputs["labels"] = (np.arange(self.classes) == classes[:, None]).astype(self.numpy_dtype)
        return inputs

    def reduction_length(self) -> int:
        return self.classes

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = inputs["x"].astype(np.float64)
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        result: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return result if self.direction == FORWARD else result - inputs["labels"].astype(np.float64)

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "imagenet": Softmax(128, 1000),
            "cifar10": Softmax(128, 10),
            "mlp.shuttle": Softmax(128, 7),
            "square.1024": Softmax(1024, 1024),
            "imagenet.gradient": Softmax(128, 1000, direction=INPUT_GRADIENT),
            "cifar10.gradient": Softmax(128, 10, direction=INPUT_GRADIENT),
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
        types = (*((size, "float32") for size in sizes), *others)
        forward = [Softmax(*size, dtype=dtype) for size, dtype in types]
        # A single class has the gradient 0, to which no error can be relative.
        return [*forward, *(spec.replaced(direction=INPUT_GRADIENT) for spec in forward if spec.classes > 1)]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        gradients = [Softmax(257, 1001, direction=INPUT_GRADIENT), Softmax(130, 515, "float64", INPUT_GRADIENT)]
        return [Softmax(257, 1001), Softmax(130, 515, dtype="float64"), *gradients]
