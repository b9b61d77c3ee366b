"""Activation: one function of every element, and its gradient."""

from __future__ import annotations

import math
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

Values = NDArray[np.float64]

RELU, TANH, SCALED_TANH, SIGMOID, HARD_SIGMOID, GELU = FUNCTIONS = (
    "relu",
    "tanh",
    "scaled_tanh",
    "sigmoid",
    "hard_sigmoid",
    "gelu",
)
NUMBERED = ("none", *FUNCTIONS)
"""As C numbers them, for every operator with an activation."""
TANH_HEIGHT, TANH_SLOPE = 1.7159, 2.0 / 3.0
"""scaled_tanh(x) = TANH_HEIGHT tanh(TANH_SLOPE x)."""
_FLOPS = {RELU: (1, 1), TANH: (5, 8), SCALED_TANH: (7, 10), SIGMOID: (4, 7), HARD_SIGMOID: (4, 4), GELU: (5, 11)}
"""Of an element forward, and of its gradient; an exponential and an error function count one, as in softmax."""
_erf = np.vectorize(math.erf, otypes=[np.float64])


def flops_per_element(function: str, is_gradient: bool = False) -> int:
    """Of the textbook formula, such as exp(2x), two additions and a division for tanh."""
    return _FLOPS[function][is_gradient]


def activated(function: str, x: Values) -> Values:
    """The function in float64."""
    if function == RELU:
        result = np.maximum(x, 0.0)
    elif function == TANH:
        result = np.tanh(x)
    elif function == SCALED_TANH:
        result = TANH_HEIGHT * np.tanh(TANH_SLOPE * x)
    elif function == SIGMOID:
        power = np.exp(-np.abs(x))
        result = np.where(x < 0.0, power, 1.0) / (1.0 + power)
    elif function == HARD_SIGMOID:
        result = np.clip(0.2 * x + 0.5, 0.0, 1.0)
    else:
        result = 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0)))
    return np.asarray(result, np.float64)


def derivative(function: str, x: Values) -> Values:
    """Of the function at x; 0 where relu and hard_sigmoid bend."""
    if function == RELU:
        result = np.where(x > 0.0, 1.0, 0.0)
    elif function == TANH:
        result = _tanh_slope(x)
    elif function == SCALED_TANH:
        result = TANH_HEIGHT * TANH_SLOPE * _tanh_slope(TANH_SLOPE * x)
    elif function == SIGMOID:
        result = 0.25 * _tanh_slope(0.5 * x)
    elif function == HARD_SIGMOID:
        result = np.where(np.abs(x) < 2.5, 0.2, 0.0)
    else:
        density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        result = 0.5 * (1.0 + _erf(x / math.sqrt(2.0))) + x * density
    return np.asarray(result, np.float64)


def _tanh_slope(x: Values) -> Values:
    """1 - tanh(x)^2, without the difference."""
    power = np.exp(-2.0 * np.abs(x))
    return np.asarray(4.0 * power / (1.0 + power) ** 2, np.float64)


@dataclass(frozen=True)
class Activation(Spec):
    """y = function(x), element by element; its gradient is function'(x) dy.

    scaled_tanh is 1.7159 tanh(2x/3), hard_sigmoid min(1, max(0, 0.2 x + 0.5)), gelu x (1 + erf(x / sqrt(2))) / 2.
    """

    op: ClassVar[str] = "activation"
    size_formula: ClassVar[str] = "y[count] = function(x[count]); count is at least 1"

    count: int = axis(axes.COUNT, 128 * 64 * 32 * 32, "elements")
    function: str = axis(axes.choice(*FUNCTIONS, among=NUMBERED), RELU, "what each is mapped by")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(axes.choice(FORWARD, INPUT_GRADIENT), FORWARD, "the result, or the gradient of its input")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("x",) if self.direction == FORWARD else ("x", "dy"), (self.count,))

    def leading_input(self) -> tuple[str, int]:
        return ("x" if self.direction == FORWARD else "dy"), 0

    def has_steep_inputs(self) -> bool:
        """A slope near 0 is a difference of numbers near 1."""
        return self.direction == FORWARD

    def output_shape(self) -> tuple[int, ...]:
        return (self.count,)

    def flops(self) -> int:
        """Those of the textbook formula per element; an exponential and an error function count one."""
        return self.count * flops_per_element(self.function, self.direction != FORWARD)

    def reduction_length(self) -> int:
        return 1

    def reference(self, inputs: Mapping[str, Array]) -> Values:
        x = inputs["x"].astype(np.float64)
        if self.direction == FORWARD:
            return activated(self.function, x)
        return derivative(self.function, x) * inputs["dy"].astype(np.float64)

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "cifar10.conv1": Activation(),
            "alexnet.conv1": Activation(32 * 96 * 55 * 55),
            "dnn_w20.conv1": Activation(128 * 20 * 17 * 17, SCALED_TANH),
            "imdb_lstm.gates": Activation(64 * 300, HARD_SIGMOID),
            "imdb_lstm.candidate": Activation(64 * 100, TANH),
            "hmdir_lstm.candidate": Activation(256 * 35, SIGMOID),
            "transformer.hidden": Activation(32 * 128 * 1024, GELU),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        counts = {RELU: 1, TANH: 7, SCALED_TANH: 33, SIGMOID: 131, HARD_SIGMOID: 130, GELU: 67}
        plain = [
            Activation(count, function, dtype, direction)
            for direction in (FORWARD, INPUT_GRADIENT)
            for function, count in counts.items()
            for dtype in ("float32", "float64")
        ]
        narrow = [Activation(45, TANH, "float16"), Activation(45, GELU, "bfloat16", INPUT_GRADIENT)]
        return [*plain, Activation(1027, SIGMOID), *narrow]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Activation(300_007, TANH), Activation(200_003, RELU, "float64", INPUT_GRADIENT)]
