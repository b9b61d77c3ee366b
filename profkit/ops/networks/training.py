"""How a network learns: optimisers with their formulas and states, and schedules of the learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.fields import Fields
from profkit.ops.optimiser_step import ADAM, OPTIMISERS, RMSPROP, SGD, OptimiserStep

if TYPE_CHECKING:
    from profkit.ops.axes import CountsField

CONSTANT, STEPS, EXPONENTIAL = "constant", "steps", "exponential"
EPOCH, ITERATION = "epoch", "iteration"


@dataclass(frozen=True)
class Training(Fields):
    """How a network learns, in every framework. g is the gradient + weight_decay * w, the layer's own decay.

    sgd: v = momentum * v + g; w -= rate * v, and with nesterov w -= rate * (g + momentum * v).
    adam: m = beta1 * m + (1 - beta1) * g; s = beta2 * s + (1 - beta2) * g^2;
    w -= rate * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon) in step t, counted from 1.
    rmsprop: s = rho * s + (1 - rho) * g^2; w -= rate * g / (sqrt(s) + epsilon).

    CIFAR-10's tutorial has sgd with rate 0.1 without momentum, times 0.1 every 350 epochs, and decay 0.004 on local3
    and local4.
    """

    size_formula: ClassVar[str] = "sgd: v = momentum * v + gradient + weight_decay * w; w -= rate * v"

    optimizer: str = axis(axes.choice(*OPTIMISERS), SGD, "how the weights follow the gradient")
    learning_rate: float = axis(axes.NUMBER, 0.1, "of a step")
    momentum: float = axis(axes.NUMBER, 0.0, "sgd: share of the last step that is kept")
    nesterov: bool = axis(axes.FLAG, False, "sgd: the gradient once more beside the momentum")
    beta1: float = axis(axes.NUMBER, 0.9, "adam: share of the mean gradient that is kept")
    beta2: float = axis(axes.NUMBER, 0.999, "adam: share of the mean square that is kept")
    rho: float = axis(axes.NUMBER, 0.9, "rmsprop: share of the mean square that is kept")
    epsilon: float = axis(axes.NUMBER, 1e-7, "adam, rmsprop: added to the root")
    weight_decay: bool = axis(axes.FLAG, True, "the decay of the layers that have one")
    schedule: str = axis(axes.choice(CONSTANT, STEPS, EXPONENTIAL), CONSTANT, "how the learning rate changes")
    schedule_by: str = axis(axes.choice(EPOCH, ITERATION), EPOCH, "what the schedules count")
    schedule_at: CountsField = axis(axes.COUNTS, (), "steps: where the rate is multiplied, as 80,120")
    schedule_factor: float = axis(axes.NUMBER, 0.1, "steps, exponential: what the rate is multiplied by")
    least_rate: float = axis(axes.NUMBER, 0.0, "no schedule goes below it")
    momentum_drop: float = axis(axes.NUMBER, 0.0, "the momentum of epoch i is momentum - drop * exp(-speed * i)")
    momentum_speed: float = axis(axes.NUMBER, 0.06, "speed of the formula of momentum-drop")

    def check(self) -> None:
        if self.nesterov and (self.optimizer != SGD or not self.momentum):
            raise SpecError(f"nesterov is a form of sgd with momentum, got {self.optimizer}, momentum {self.momentum}")
        if self.schedule == STEPS and not self.schedule_at:
            raise SpecError("schedule steps: schedule_at says where, as 80,120")
        if self.optimizer == SGD and self.momentum_drop and not self.momentum_drop < self.momentum:
            raise SpecError(f"momentum_drop must be below the momentum {self.momentum:g}, got {self.momentum_drop:g}")
        for name in ("momentum", "beta1", "beta2", "rho"):
            if not 0 <= getattr(self, name) < 1:
                raise SpecError(f"{name} must be at least 0 and below 1, got {getattr(self, name):g}")

    @property
    def is_constant(self) -> bool:
        """Whether every step has the same learning rate and momentum."""
        return self.schedule == CONSTANT and not self.momentum_drop

    def with_optimizer(self, optimizer: str) -> Training:
        """The same rate and schedule with another optimiser, without the momentum that belongs to sgd."""
        if optimizer == self.optimizer:
            return self
        return self.replaced(optimizer=optimizer, momentum=0.0, nesterov=False, momentum_drop=0.0)

    def rates(self, epoch: int = 0, iteration: int = 0) -> tuple[float, float]:
        """Learning rate and momentum of a step; both are counted from 0."""
        number = epoch if self.schedule_by == EPOCH else iteration
        rate = self.learning_rate
        if self.schedule == STEPS:
            rate *= self.schedule_factor ** sum(number >= place for place in self.schedule_at)
        elif self.schedule == EXPONENTIAL:
            rate *= self.schedule_factor**number
        return max(rate, self.least_rate), self.momentum - self.momentum_drop * math.exp(-self.momentum_speed * number)

    def step_spec(self, count: int, decay: float = 0.0, epoch: int = 0, iteration: int = 0) -> OptimiserStep:
        """A step on so many weights with this decay of theirs, as an operator."""
        rate, momentum = self.rates(epoch, iteration)
        return OptimiserStep(
            count=count,
            optimiser=self.optimizer,
            nesterov=self.nesterov,
            learning_rate=rate,
            momentum=momentum if self.optimizer == SGD else 0.0,
            rho=self.rho,
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            step=iteration + 1,
            weight_decay=decay if self.weight_decay else 0.0,
        )

    def used(self) -> dict[str, object]:
        """The fields that have an influence: what a line about a run says."""
        own = {SGD: ("momentum", "nesterov"), ADAM: ("beta1", "beta2", "epsilon"), RMSPROP: ("rho", "epsilon")}
        names = ["optimizer", "learning_rate", *own[self.optimizer], "weight_decay"]
        if not self.is_constant:
            names += [name for name in self.field_values() if name.startswith(("schedule", "least", "momentum_"))]
        return {name: value for name, value in self.field_values().items() if name in names}
