"""What a training step needs beside its layers, as array expressions: losses, their gradients, masks, optimisers.

`xp` is NumPy or CuPy. Optimisers work in place; everything else gives a fresh result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profkit.frameworks.networks.array_functions import ArrayCall, DeviceArray, number
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD, OptimiserStep


def log_softmax(xp: Any) -> ArrayCall:
    """Logarithms of the probabilities of every row."""

    def run(x: DeviceArray) -> DeviceArray:
        shifted = x - x.max(axis=-1, keepdims=True)
        shifted -= xp.log(xp.exp(shifted).sum(axis=-1, keepdims=True))
        return shifted.reshape(-1, shifted.shape[-1])

    return run


def cross_entropy(xp: Any) -> ArrayCall:
    """Mean of -log p of the right classes."""
    return lambda logarithms, labels: -logarithms[xp.arange(len(logarithms)), labels.reshape(-1)].mean()


def cross_entropy_gradient(xp: Any, shape: tuple[int, ...]) -> ArrayCall:
    """(p - 1 at the right class) / rows, in the shape of the network's result."""

    def run(logarithms: DeviceArray, labels: DeviceArray) -> DeviceArray:
        gradient = xp.exp(logarithms)
        gradient[xp.arange(len(gradient)), labels.reshape(-1)] -= 1
        gradient /= len(gradient)
        return gradient.reshape(shape)

    return run


def squared_error(difference: DeviceArray) -> DeviceArray:
    return (difference * difference).mean()


def squared_error_gradient(difference: DeviceArray) -> DeviceArray:
    return difference * (2 / difference.size)


def binary_cross_entropy(xp: Any) -> ArrayCall:
    """Mean of log(1 + e^x) - x label, without an exponential of a positive number."""

    def run(x: DeviceArray, labels: DeviceArray) -> DeviceArray:
        losses = xp.log1p(xp.exp(-xp.abs(x)))
        losses += xp.maximum(x, 0)
        losses -= x * labels
        return losses.mean()

    return run


def binary_cross_entropy_gradient(xp: Any) -> ArrayCall:
    """(sigmoid(x) - label) / elements."""

    def run(x: DeviceArray, labels: DeviceArray) -> DeviceArray:
        gradient = xp.tanh(x * 0.5)
        gradient *= 0.5
        gradient += 0.5
        gradient -= labels
        gradient /= x.size
        return gradient

    return run


def dropout_mask(xp: Any, rate: float, shape: tuple[int, ...]) -> ArrayCall:
    """1 / (1 - rate) with this probability, otherwise 0: new in every call."""
    generator, kept = xp.random.default_rng(0), number(xp, 1 / (1 - rate))
    return lambda: (generator.random(shape, xp.float32) >= rate) * kept


def running_statistics(xp: Any, share: float) -> ArrayCall:
    """The means and variances that inference uses follow those of the batch by this share, in place."""
    kept, new = number(xp, 1 - share), number(xp, share)

    def run(mean: DeviceArray, variance: DeviceArray, *batch: DeviceArray) -> tuple[DeviceArray, ...]:
        for running, value in zip((mean, variance), batch):
            xp.multiply(running, kept, out=running)
            xp.add(running, value * new, out=running)
        return mean, variance

    return run


def gradient_sum(xp: Any, target: int | None) -> ArrayCall:
    """Of two; in the place of one of them, where nothing else needs it."""
    if target is None:
        return xp.add  # type: ignore[no-any-return]
    return lambda *parts: xp.add(*parts, out=parts[target])


def channels_of(xp: Any, first: int, last: int) -> ArrayCall:
    """A copy of these channels."""
    return lambda images: xp.ascontiguousarray(images[:, first:last])


_CHANGING = ("learning_rate", "momentum", "step", "adam_rate", "adam_root")


class StepNumbers:
    """What changes from step to step; the optimisers' calls read it."""

    def __init__(self, xp: Any, training: Training) -> None:
        self.training = training
        self.steps = 0
        """That have begun."""
        self.learning_rate, self.momentum = training.rates()
        self.rate, self.kept = number(xp, self.learning_rate), number(xp, self.momentum)
        self.mean_factor, self.square_factor = number(xp, 1.0), number(xp, 1.0)
        """Adam's corrections of its moments."""
        self.params: dict[str, int | float] = {}
        """The same for a kernel."""

    def step_spec(self) -> OptimiserStep:
        """The present step, of one weight."""
        spec = self.training.step_spec(1, iteration=self.steps - 1)
        momentum = self.momentum if spec.state_names == ("velocity",) else spec.momentum
        return spec.replaced(learning_rate=self.learning_rate, momentum=momentum)

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self.learning_rate, self.momentum = learning_rate, momentum
        self.rate.fill(learning_rate)
        self.kept.fill(momentum)

    def begin(self) -> None:
        """The next step."""
        self.steps += 1
        spec = self.step_spec()
        self.params = {name: value for name, value in spec.params().items() if name in _CHANGING}
        if self.training.optimizer == ADAM:
            self.mean_factor.fill(1 / (1 - self.training.beta1**self.steps))
            self.square_factor.fill(1 / (1 - self.training.beta2**self.steps))


def optimiser(xp: Any, numbers: StepNumbers, decay: float) -> ArrayCall:
    """call(w, gradient, *states): all of them change in place, and the gradient is used up; (w, *states)."""
    update = _OPTIMISERS[numbers.training.optimizer](xp, numbers)
    shrink = number(xp, decay)

    def run(w: DeviceArray, gradient: DeviceArray, *states: DeviceArray) -> Any:
        if decay:
            gradient += shrink * w
        update(w, gradient, *states)
        return (w, *states) if states else w

    return run


def _sgd(xp: Any, numbers: StepNumbers) -> ArrayCall:
    rate, momentum, is_nesterov = numbers.rate, numbers.kept, numbers.training.nesterov

    def run(w: DeviceArray, gradient: DeviceArray, velocity: DeviceArray | None = None) -> None:
        if velocity is None:
            gradient *= rate
        else:
            velocity *= momentum
            velocity += gradient
            if is_nesterov:
                gradient += velocity * momentum
                gradient *= rate
            else:
                xp.multiply(velocity, rate, out=gradient)
        w -= gradient

    return run


def _adam(xp: Any, numbers: StepNumbers) -> ArrayCall:
    training = numbers.training
    beta1, beta2, epsilon = (number(xp, value) for value in (training.beta1, training.beta2, training.epsilon))
    new1, new2 = number(xp, 1 - training.beta1), number(xp, 1 - training.beta2)

    def run(w: DeviceArray, gradient: DeviceArray, mean: DeviceArray, square: DeviceArray) -> None:
        mean *= beta1
        mean += gradient * new1
        gradient *= gradient
        gradient *= new2
        square *= beta2
        square += gradient
        xp.multiply(square, numbers.square_factor, out=gradient)
        xp.sqrt(gradient, out=gradient)
        gradient += epsilon
        xp.divide(mean, gradient, out=gradient)
        gradient *= numbers.rate * numbers.mean_factor
        w -= gradient

    return run


def _rmsprop(xp: Any, numbers: StepNumbers) -> ArrayCall:
    training = numbers.training
    rho, new, epsilon = (number(xp, value) for value in (training.rho, 1 - training.rho, training.epsilon))

    def run(w: DeviceArray, gradient: DeviceArray, square: DeviceArray) -> None:
        square *= rho
        step = gradient * gradient
        step *= new
        square += step
        xp.sqrt(square, out=step)
        step += epsilon
        xp.divide(gradient, step, out=step)
        step *= numbers.rate
        w -= step

    return run


_OPTIMISERS: Mapping[str, Callable[[Any, StepNumbers], Callable[..., None]]] = {
    SGD: _sgd,
    ADAM: _adam,
    RMSPROP: _rmsprop,
}
