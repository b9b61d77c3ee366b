"""Is the first training step right? Loss, every gradient, every new parameter and running statistic against float64.

Every array has its own limit, of its own size, that a missing, a doubled or a turned gradient exceeds. Near a tie, a
ReLU or a maximum takes the other side when the sums before it are rounded in another way, and what is behind it changes
by more than any rounding. An array beyond its limit may be as far away as other roundings of the weights move it in
float64, if that limit still finds such faults; otherwise it counts as not checked, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from profkit.ops.networks.network import Network
from profkit.ops.networks.reference import KEPT, network_tolerance, reference_training
from profkit.ops.networks.training import Training
from profkit.ops.spec import Array

Values = NDArray[np.float64]
ROUNDINGS = 4
"""Of the weights, at most: each takes the side of a tie at random."""
SUM_ERROR = 32 * float(np.finfo(np.float32).eps)
TIES = 3.0
"""An error may be so many times as large as what rounding alone moves."""
LARGEST_LIMIT = 0.25
"""Of an array's size: with a gradient that is missing, or twice as large, or turned, it is 0.75 away at least."""
VANISHED = 1e-9
"""Of the layer's largest gradient: what is smaller is 0, and what float64 shows is its rounding."""
STEP_ERROR, WEIGHT_ERROR = 1e-3, 8 * float(np.finfo(np.float32).eps)
"""Of the optimiser's own arithmetic: a share of the step (Adam's 1 - 0.999 is exact to 5e-5), and of the weight."""
LOSS = "the loss"
_BLOCK = 1 << 22


@dataclass(frozen=True)
class FirstStep:
    """What a framework gave: gradients are empty where it cannot tell them."""

    loss: Array
    weights: Mapping[str, Array]
    gradients: Mapping[str, Array]


@dataclass(frozen=True)
class Deviation:
    """An error of a step and its limit, both relative to the size of what it is an error of."""

    error: float
    limit: float
    what: str
    """local3.w's gradient, the loss, ..."""

    @property
    def share(self) -> float:
        """Of the limit; right is at most 1."""
        return self.error / self.limit if np.isfinite(self.error) else float("inf")


@dataclass(frozen=True)
class StepCheck:
    """What is known of a first step."""

    worst: Deviation
    """Of the arrays that could be checked the one that is nearest to its limit, or farthest beyond."""
    beyond: tuple[str, ...]
    """Arrays that are wrong."""
    widened: Mapping[str, float]
    """Arrays with the limits that follow from what rounding moves."""
    unchecked: tuple[str, ...]
    """Arrays whose limit would let a wrong gradient pass."""


class ExpectedStep:
    """What float64 gives, and how far rounding moves it."""

    def __init__(
        self,
        network: Network,
        weights: Mapping[str, Array],
        batch: tuple[Array, Array],
        masks: Mapping[str, Array],
    ) -> None:
        self.network, self.weights = network, weights
        self._batch, self._masks = batch, masks
        self.loss, self.gradients, self.states = reference_training(network, weights, *batch, masks)
        self._moved: list[dict[str, float]] = []
        self._generator = np.random.default_rng(0)

    def moved(self, roundings: int) -> Mapping[str, float]:
        """By array: as far as so many other roundings of the weights move it. Computed once for all frameworks."""
        while len(self._moved) < roundings:
            before = self._moved[-1] if self._moved else {}
            self._moved.append({name: max(error, before.get(name, 0.0)) for name, error in self._errors().items()})
        return self._moved[roundings - 1]

    def _errors(self) -> dict[str, float]:
        """Of one more rounding."""
        moved = {name: _rounded(self._generator, each) for name, each in self.weights.items()}
        loss, gradients, states = reference_training(self.network, moved, *self._batch, self._masks)
        found = {LOSS: abs(loss - self.loss)}
        for others, own in ((gradients, self.gradients), (states, self.states)):
            found |= {name: _farthest(others[name], own[name]) for name in own}
        return found

    @cached_property
    def sizes(self) -> Mapping[str, float]:
        """What an array's error is divided by. A gradient that vanishes (of a bias before a batch normalisation) is
        measured by the others of its layer, and a mean near 0 by the deviation of what it is the mean of."""
        sizes = {LOSS: abs(self.loss)}
        for layer in self.network.layers:
            largest = {name: _largest(self.gradients[name]) for name in layer.parameter_shapes()}
            whole = max(largest.values(), default=0.0)
            sizes |= {name: own if own > VANISHED * whole else whole for name, own in largest.items()}
            for name in layer.state_shapes():
                spread = (1 - KEPT) * float(np.sqrt(self.states[f"{layer.name}.variance"].max()))
                sizes[name] = max(_largest(self.states[name]), spread)
        return {name: size or 1.0 for name, size in sizes.items()}

    @cached_property
    def limits(self) -> Mapping[str, float]:
        """Of the errors that rounding makes where nothing is near a tie; a layer's gradients share their sums."""
        tolerance = network_tolerance(self.network, is_training=True)
        limits = dict.fromkeys(self.sizes, min(tolerance, LARGEST_LIMIT))
        for layer in self.network.layers:
            whole = max((self.sizes[name] for name in layer.parameter_shapes()), default=0.0)
            for name in layer.parameter_shapes():
                limits[name] = min(tolerance * whole / self.sizes[name], LARGEST_LIMIT)
        return limits

    def vanishes(self, name: str) -> bool:
        """Whether this parameter's gradient is 0."""
        return _largest(self.gradients[name]) <= VANISHED * self.sizes[name]


def check_step(expected: ExpectedStep, training: Training, found: FirstStep) -> StepCheck:
    """Of the first step from `expected.weights` on."""
    judge = _Judge(expected, training, found)
    limits = dict(expected.limits)
    judged = {name: judge.deviation(name, limit) for name, limit in limits.items()}
    beyond = [name for name, each in judged.items() if not each.share <= 1]
    is_open = bool(beyond) and all(np.isfinite(judged[name].error) for name in beyond)
    roundings = 0
    while is_open and roundings < ROUNDINGS:
        roundings += 1
        moved = expected.moved(roundings)
        for name in beyond:
            limits[name] = max(limits[name], TIES * moved[name] / expected.sizes[name])
            judged[name] = judge.deviation(name, limits[name])
        is_open = any(judged[name].share > 1 for name in beyond)
    wrong = tuple(name for name in beyond if not judged[name].share <= 1)
    explained = [name for name in beyond if name not in wrong]
    unchecked = [name for name in explained if limits[name] > LARGEST_LIMIT]
    # What is wrong was seen, whatever else would not have been.
    rest = [name for name in judged if name not in {*unchecked, *wrong}]
    unchecked += [name for name in rest if judge.sees_nothing(name, limits[name])]
    checked = [each for name, each in judged.items() if name not in unchecked]
    worst = max(checked or judged.values(), key=lambda each: each.share)
    widened = {name: limits[name] for name in explained if name not in unchecked}
    return StepCheck(worst, wrong, widened, tuple(name for name in judged if name in unchecked))


class _Judge:
    """Compares one framework's step."""

    def __init__(self, expected: ExpectedStep, training: Training, found: FirstStep) -> None:
        self._expected, self._training, self._found = expected, training, found
        layers = expected.network.layers
        self._decays = {name: layer.decay_of(name) for layer in layers for name in layer.parameter_shapes()}

    def deviation(self, name: str, limit: float) -> Deviation:
        """Of one array; of a parameter the gradient or the new values, whichever is worse."""
        expected, found = self._expected, self._found
        if name == LOSS:
            error = float(np.abs(np.float64(found.loss) - expected.loss).max()) / expected.sizes[name]
            return Deviation(_known(error), limit, LOSS)
        if name not in self._decays:
            error = _farthest(found.weights[name], expected.states[name]) / expected.sizes[name]
            return Deviation(error, limit, f"the new {name}")
        new = self._update_deviation(name, limit, found.weights[name])
        if name not in found.gradients:
            return new
        error = _farthest(found.gradients[name], expected.gradients[name]) / expected.sizes[name]
        return max(Deviation(error, limit, f"{name}'s gradient"), new, key=lambda each: each.share)

    def sees_nothing(self, name: str, limit: float) -> bool:
        """Whether the new values, where they are all there is, would be accepted without any gradient."""
        if name not in self._decays or name in self._found.gradients or self._expected.vanishes(name):
            return False
        return bool(self._expected.gradients[name].size) and self._update_deviation(name, limit, None).share <= 1

    def _update_deviation(self, name: str, limit: float, new: Array | None) -> Deviation:
        """Of the optimiser's step: with any gradient within the limit it is right. None: of a step without gradient.

        The first step of Adam and RMSprop has the size of the rate however small the gradient: where it is no larger
        than its own error, both directions are right.
        """
        slack = limit * self._expected.sizes[name]
        outside = size = step = 0.0
        arrays = [self._expected.weights[name], self._expected.gradients[name], *([] if new is None else [new])]
        for w, gradient, *given in _blocks(*arrays):
            own = given[0] if given else self._updated(w, np.zeros(w.size), self._decays[name])
            ends = [self._updated(w, gradient + shift, self._decays[name]) for shift in (slack, -slack)]
            outside = max(outside, _known(float(np.abs(own - np.clip(own, *ends)).max())))
            size = max(size, *(_largest(end) for end in ends))
            step = max(step, *(_farthest(end, w) for end in ends))
        size = max(size, step) or 1.0
        return Deviation(outside / size, STEP_ERROR * step / size + WEIGHT_ERROR, f"the new {name}")

    def _updated(self, w: Array, gradient: Values, decay: float) -> Values:
        """All optimisers' first steps fall as the gradient grows."""
        spec = self._training.step_spec(gradient.size, decay)
        states = [np.zeros(w.size) for _ in spec.state_names]
        new: Values = spec.reference(dict(zip(spec.input_shapes(), (w, gradient, *states))))[0]
        return new


def _rounded(generator: np.random.Generator, weights: Array) -> Array:
    """As far away as the sums of a layer are from each other in float32 when they are added in another order."""
    moved: Array = weights * (1.0 + SUM_ERROR * generator.uniform(-1.0, 1.0, weights.shape))
    return moved


def _blocks(*arrays: Array) -> Iterator[tuple[Values, ...]]:
    """Parts of arrays of one shape, in float64: whole copies of the largest parameters would not fit."""
    flat = [each.reshape(-1) for each in arrays]
    for first in range(0, flat[0].size, _BLOCK):
        yield tuple(each[first : first + _BLOCK].astype(np.float64) for each in flat)


def _largest(values: Array) -> float:
    return max((float(np.abs(part).max()) for (part,) in _blocks(values)), default=0.0)


def _farthest(found: Array, expected: Array) -> float:
    """Infinite for what is not a number."""
    return max((_known(float(np.abs(a - b).max())) for a, b in _blocks(found, expected)), default=0.0)


def _known(error: float) -> float:
    return error if np.isfinite(error) else float("inf")
