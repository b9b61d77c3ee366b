"""Optimisers as plain arithmetic on a framework's arrays, and the numbers that each step takes. No framework here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from profkit.frameworks.networks.contract import NESTEROV
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD

ALL_OPTIMIZERS = (SGD, NESTEROV, ADAM, RMSPROP)
Numbers = Mapping[str, Any]
"""Of one step: rate, momentum, and the shares of Adam's moments that their start at 0 has not taken."""
Slots = tuple[Any, ...]
"""What an optimiser keeps of one parameter."""
Change = tuple[Any, Slots]
"""What is subtracted from a parameter, and what is kept of it then."""


def slot_names(training: Training) -> tuple[str, ...]:
    """Arrays that are kept of each parameter; SGD without momentum keeps none."""
    return training.step_spec(1).state_names


class StepNumbers:
    """Counts the steps of a network in training, and gives each its numbers."""

    def __init__(self, training: Training) -> None:
        self.rates = training.rates()
        """Learning rate and momentum of the next steps."""
        self._training = training
        self._step = 0
        is_constant = training.is_constant and training.optimizer != ADAM
        self.constant: Numbers = self._all() if is_constant else {}
        """The numbers of all steps where they never change: part of what is compiled. Otherwise nothing."""

    def next(self) -> dict[str, Any]:
        """Of the next step, float32 as the arrays; nothing when they are constant."""
        self._step += 1
        return self.now()

    def now(self) -> dict[str, Any]:
        """Of the step that `next` was called for last, or of the first one."""
        return {} if self.constant else {name: np.float32(number) for name, number in self._all().items()}

    def _all(self) -> dict[str, float]:
        training, step = self._training, max(self._step, 1)
        numbers = dict(zip(("rate", "momentum"), self.rates))
        if training.optimizer == ADAM:
            numbers |= {"mean_share": 1 - training.beta1**step, "square_share": 1 - training.beta2**step}
        return numbers


def decay_of(training: Training, layer: Layer, parameter: str) -> float:
    """What is added to the gradient of one of a layer's parameters, times the parameter."""
    return layer.decay_of(parameter) if training.weight_decay else 0.0


def change(training: Training, numbers: Numbers, gradient: Any, slots: Slots, sqrt: Callable[[Any], Any]) -> Change:
    """By the declared formulas: epsilon is added to the root."""
    return _CHANGES[training.optimizer](training, numbers, gradient, slots, sqrt)


def _sgd(training: Training, numbers: Numbers, gradient: Any, slots: Slots, sqrt: Callable[[Any], Any]) -> Change:
    if not slots:
        return numbers["rate"] * gradient, ()
    velocity = numbers["momentum"] * slots[0] + gradient
    direction = gradient + numbers["momentum"] * velocity if training.nesterov else velocity
    return numbers["rate"] * direction, (velocity,)


def _adam(training: Training, numbers: Numbers, gradient: Any, slots: Slots, sqrt: Callable[[Any], Any]) -> Change:
    mean = training.beta1 * slots[0] + (1 - training.beta1) * gradient
    square = training.beta2 * slots[1] + (1 - training.beta2) * gradient * gradient
    root = sqrt(square / numbers["square_share"]) + training.epsilon
    return numbers["rate"] * (mean / numbers["mean_share"]) / root, (mean, square)


def _rmsprop(training: Training, numbers: Numbers, gradient: Any, slots: Slots, sqrt: Callable[[Any], Any]) -> Change:
    square = training.rho * slots[0] + (1 - training.rho) * gradient * gradient
    return numbers["rate"] * gradient / (sqrt(square) + training.epsilon), (square,)


_CHANGES = {SGD: _sgd, ADAM: _adam, RMSPROP: _rmsprop}
