"""OptimiserStep: new weights and new state of an optimiser, from a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec

SGD, ADAM, RMSPROP = OPTIMISERS = ("sgd", "adam", "rmsprop")


@dataclass(frozen=True)
class OptimiserStep(Spec):
    """One step of sgd, adam or rmsprop: [1 + states, count], the new weights and then the new states.

    With g' = g + weight_decay w. sgd: velocity = momentum velocity + g', w -= learning_rate velocity, or (nesterov)
    w -= learning_rate (g' + momentum velocity); without momentum no state. adam: moments m, v with beta1, beta2,
    w -= learning_rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon). rmsprop: s = rho s + (1 - rho)
    g'^2, w -= learning_rate g' / (sqrt(s) + epsilon).
    """

    op: ClassVar[str] = "optimiser_step"
    size_formula: ClassVar[str] = "[1 + states, count] of w[count], g[count] and the states, each [count]"

    count: int = axis(axes.COUNT, 4_352_641, "weights")
    optimiser: str = axis(axes.choice(*OPTIMISERS), ADAM, "which")
    nesterov: bool = axis(axes.FLAG, False, "the momentum of Nesterov (sgd)")
    learning_rate: float = axis(axes.NUMBER, 0.001, "size of the step")
    momentum: float = axis(axes.NUMBER, 0.9, "share of the velocity that stays (sgd)")
    rho: float = axis(axes.NUMBER, 0.9, "share of the mean square that stays (rmsprop)")
    beta1: float = axis(axes.NUMBER, 0.9, "share of the first moment that stays (adam)")
    beta2: float = axis(axes.NUMBER, 0.999, "share of the second moment that stays (adam)")
    epsilon: float = axis(axes.NUMBER, 1e-7, "added to the root (adam, rmsprop)")
    step: int = axis(axes.COUNT, 10, "number of the step, from 1 (adam)")
    weight_decay: float = axis(axes.NUMBER, 0.0, "weight_decay w is added to the gradient")
    dtype: str = axis(DTYPE, "float32", "element type")

    def check(self) -> None:
        for name in ("momentum", "rho", "beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise SpecError(f"{name} {getattr(self, name):g} must be at least 0 and below 1")
        if self.epsilon <= 0.0:
            raise SpecError(f"epsilon {self.epsilon:g} must be above 0")
        if self.nesterov and (self.optimiser != SGD or self.momentum == 0.0):
            raise SpecError(f"nesterov needs sgd with momentum, not {self.optimiser} with momentum {self.momentum:g}")

    @property
    def state_names(self) -> tuple[str, ...]:
        """The arrays that an optimiser keeps per weight, in the order of inputs and output."""
        if self.optimiser == SGD:
            return ("velocity",) if self.momentum else ()
        return ("first_moment", "second_moment") if self.optimiser == ADAM else ("mean_square",)

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("w", "g", *self.state_names), (self.count,))

    def leading_input(self) -> tuple[str, int]:
        return "g", 0

    def has_steep_inputs(self) -> bool:
        return False

    def output_shape(self) -> tuple[int, ...]:
        return (1 + len(self.state_names), self.count)

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """Squares are not negative."""
        arrays = super().make_inputs(seed)
        squares = {name: np.abs(arrays[name]) for name in ("second_moment", "mean_square") if name in arrays}
        return arrays | squares

    def flops(self) -> int:
        """Of the formulas above, per weight; Adam's two corrections are numbers made ahead."""
        per_weight = {ADAM: 13, RMSPROP: 9}.get(self.optimiser, 2)
        if self.optimiser == SGD and self.momentum:
            per_weight += 4 if self.nesterov else 2
        return self.count * (per_weight + (2 if self.weight_decay else 0))

    def reduction_length(self) -> int:
        return 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        arrays = {name: array.astype(np.float64) for name, array in inputs.items()}
        w = arrays["w"]
        g = arrays["g"] + self.weight_decay * w
        if self.optimiser == ADAM:
            m = self.beta1 * arrays["first_moment"] + (1.0 - self.beta1) * g
            v = self.beta2 * arrays["second_moment"] + (1.0 - self.beta2) * g * g
            rate, root = self.adam_factors()
            return np.stack([w - rate * m / (np.sqrt(v) * root + self.epsilon), m, v])
        if self.optimiser == RMSPROP:
            s = self.rho * arrays["mean_square"] + (1.0 - self.rho) * g * g
            return np.stack([w - self.learning_rate * g / (np.sqrt(s) + self.epsilon), s])
        if not self.momentum:
            return np.stack([w - self.learning_rate * g])
        velocity = self.momentum * arrays["velocity"] + g
        along = g + self.momentum * velocity if self.nesterov else velocity
        return np.stack([w - self.learning_rate * along, velocity])

    def adam_factors(self) -> tuple[float, float]:
        """learning_rate / (1 - beta1^step), and 1 / sqrt(1 - beta2^step)."""
        return self.learning_rate / (1.0 - self.beta1**self.step), 1.0 / sqrt(1.0 - self.beta2**self.step)

    def derived_params(self) -> dict[str, int | float]:
        rate, root = self.adam_factors()
        return {"adam_rate": rate, "adam_root": root}

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        return {
            "solar.adam": OptimiserStep(),
            "imdb_lstm.adam": OptimiserStep(213_301),
            "wrn_16_8.nesterov": OptimiserStep(10_961_370, SGD, True, 0.01, weight_decay=0.0005),
            "googlenet.momentum": OptimiserStep(6_998_552, SGD, False, 0.01, weight_decay=0.0005),
            "mlp.sgd": OptimiserStep(17_956_807, SGD, momentum=0.0),
            "hmdir_lstm.rmsprop": OptimiserStep(8_436, RMSPROP),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        ways: tuple[Spec, ...] = (
            OptimiserStep(1, ADAM, step=1),
            OptimiserStep(1, SGD),
            OptimiserStep(1, SGD, True),
            OptimiserStep(1, SGD, momentum=0.0),
            OptimiserStep(1, RMSPROP),
            OptimiserStep(1, ADAM, weight_decay=0.125, epsilon=0.001),
            OptimiserStep(1, SGD, True, 0.5, weight_decay=0.125),
            OptimiserStep(1, RMSPROP, weight_decay=0.125),
        )
        return [
            *(way.replaced(count=count) for way, count in zip(ways, (1, 7, 17, 33, 64, 131, 1027, 15))),
            *(way.replaced(count=count, dtype="float64") for way, count in zip(ways, (9, 8, 1, 5, 16, 45, 33, 130))),
            OptimiserStep(45, dtype="float16"),
            OptimiserStep(45, SGD, dtype="bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [OptimiserStep(300_007), OptimiserStep(200_003, SGD, True, dtype="float64")]
