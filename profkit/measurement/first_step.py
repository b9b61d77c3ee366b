"""Is the first training step right? Loss, every gradient, every new parameter and running statistic against float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.reference import KEPT, network_tolerance, reference_training
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import SGD, OptimiserStep
from profkit.ops.spec import Array

Values = NDArray[np.float64]
ROUNDINGS = 4
"""Of the weights, at most: each takes the side of a tie at random."""
SUM_ERROR = 32 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True)
class Deviation:
    """The largest error of a step, relative to the size of what it is an error of."""

    error: float
    what: str
    """local3.w's gradient, the loss, ..."""


@dataclass(frozen=True)
class FirstStep:
    """What a framework gave: gradients are empty where it cannot tell them."""

    loss: Array
    weights: Mapping[str, Array]
    gradients: Mapping[str, Array]


def step_deviation(
    network: Network,
    training: Training,
    weights: Mapping[str, Array],
    batch: tuple[Array, Array],
    masks: Mapping[str, Array],
    found: FirstStep,
) -> Deviation:
    """Of the worst number of a first step."""
    loss, gradients, states = reference_training(network, weights, *batch, masks)
    tolerance = network_tolerance(network, is_training=True)
    deviations = [Deviation(_relative(found.loss, np.asarray(loss), abs(loss)), "the loss")]
    for layer in network.layers:
        deviations += _of_layer(layer, training, weights, gradients, found, tolerance)
        deviations += _of_states(layer, states, found)
    return max(deviations, key=lambda each: each.error)


def rounding_deviation(
    network: Network,
    weights: Mapping[str, Array],
    batch: tuple[Array, Array],
    masks: Mapping[str, Array],
    enough: float,
) -> float:
    """How far rounding alone moves loss and gradients: of the float64 reference, from other weights within float32.

    Near a tie, a ReLU or a maximum takes the other side when the sums before it are rounded in another way, and
    everything behind it changes by more than any rounding. Deep networks have such a place more often than not. It ends
    when `enough` is reached.
    """
    loss, gradients, _ = reference_training(network, weights, *batch, masks)
    generator = np.random.default_rng(0)
    worst = 0.0
    for _ in range(ROUNDINGS):
        if worst >= enough:
            break
        moved = {name: _rounded_otherwise(generator, each) for name, each in weights.items()}
        other_loss, others, _ = reference_training(network, moved, *batch, masks)
        found = [abs(other_loss - loss) / (abs(loss) or 1.0)]
        for layer in network.layers:
            names = list(layer.parameter_shapes())
            size = max((float(np.abs(gradients[name]).max()) for name in names), default=0.0)
            found += [_relative(others[name], gradients[name], size) for name in names]
        worst = max(worst, *found)
    return worst


def _rounded_otherwise(generator: np.random.Generator, weights: Array) -> Array:
    """As far away as the sums of a layer are from each other in float32 when they are added in another order."""
    share: Array = 1.0 + SUM_ERROR * generator.uniform(-1.0, 1.0, weights.shape)
    moved: Array = weights.astype(np.float64) * share
    return moved


def _of_layer(
    layer: Layer,
    training: Training,
    weights: Mapping[str, Array],
    gradients: Mapping[str, Values],
    found: FirstStep,
    tolerance: float,
) -> Iterator[Deviation]:
    """A gradient that vanishes (a bias before a batch normalisation) is measured by the others of its layer."""
    names = list(layer.parameter_shapes())
    size = max((float(np.abs(gradients[name]).max()) for name in names), default=0.0)
    for name in names:
        expected = gradients[name]
        if name in found.gradients:
            yield Deviation(_relative(found.gradients[name], expected, size), f"{name}'s gradient")
        # Adam's and RMSprop's first steps have the size of the rate however small the gradient: where it is no larger
        # than its own error, both directions are right.
        slack = 0.0 if training.optimizer == SGD else tolerance * size
        spec = training.step_spec(expected.size, layer.decay_of(name))
        low, high = (_updated(spec, weights[name], expected + shift) for shift in (slack, -slack))
        own = found.weights[name].astype(np.float64)
        outside = own - np.clip(own, low, high)
        scale = max(float(np.abs(low).max()), float(np.abs(high).max()), training.rates()[0] * size)
        yield Deviation(_relative(outside, np.zeros_like(outside), scale), f"the new {name}")


def _of_states(layer: Layer, states: Mapping[str, Values], found: FirstStep) -> Iterator[Deviation]:
    """A mean near 0 is measured by the deviation of what it is the mean of."""
    for name in layer.state_shapes():
        expected = states[name]
        spread = (1 - KEPT) * float(np.sqrt(states[f"{layer.name}.variance"].max()))
        size = max(float(np.abs(expected).max()), spread)
        yield Deviation(_relative(found.weights[name], expected, size), f"the new {name}")


def _updated(spec: OptimiserStep, w: Array, gradient: Values) -> Values:
    states = [np.zeros(w.size) for _ in spec.state_names]
    arrays = dict(zip(spec.input_shapes(), (w.ravel(), gradient.ravel(), *states)))
    new: Values = spec.reference(arrays)[0].reshape(w.shape)
    return new


def _relative(found: Array, expected: Values, size: float) -> float:
    """Infinite for what is not a number."""
    worst = float(np.abs(found.astype(np.float64) - expected).max()) if expected.size else 0.0
    return worst / (size or 1.0) if np.isfinite(worst) else float("inf")
