"""Networks small enough for tests, built in this process, and what float64 says of them: logits, and steps of SGD."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.data import synthetic_data
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.measurement.first_step import ExpectedStep, FirstStep, check_step
from profkit.ops.networks import Cifar10, LeNet, Mlp, Network, Solar, Training
from profkit.ops.networks.reference import dropout_masks, network_tolerance, reference_gradients, reference_logits
from profkit.ops.spec import max_error

NETWORKS: tuple[Network, ...] = (
    Cifar10(batch=4, crop=24, filters=8),
    Cifar10(batch=3, crop=24, filters=8, stride=2, pool=5),
    LeNet(batch=3, maps=2),
    Mlp(batch=5, hidden=2, neurons=16),
    Solar(batch=2, dropout=False),
)
WITH_MOMENTUM = Training(learning_rate=0.05, momentum=0.9)


def name_of(network: Network) -> str:
    """A test's name: the network and the parameters that its size comes from."""
    return "-".join(str(value) for value in network.to_dict().values())


@dataclass
class Trial:
    """A built network with its batch."""

    network: Network
    built: BuiltNetwork
    batch: Any

    def logits_error(self) -> float:
        """Of inference, relative to the largest reference value."""
        result = self.built.to_numpy(self.built.infer(self.batch))
        return max_error(result, _expected_logits(self.network))

    def training_error(self, training: Training, steps: int) -> float:
        """Of every loss and of the weights after the last step; the largest counts."""
        losses = [float(self.built.to_numpy(self.built.train(self.batch))) for _ in range(steps)]
        expected_losses, expected = _expected_training(self.network, training, steps)
        weights = self.built.weights()
        errors = [max_error(weights[name], values) for name, values in expected.items()]
        return max(max_error(np.array(losses), np.array(expected_losses)), *errors)

    def tolerance(self, is_training: bool = False, steps: int = 1) -> float:
        """Errors of a step are carried into the next."""
        return network_tolerance(self.network, is_training) * steps


def built_here(builder: NetworkBuilder, network: Network, conditions: NetworkConditions) -> Trial:
    """Start and build in this process."""
    builder.start(conditions)
    return with_batch(network, builder.build(network, network.initial_weights(), conditions))


def with_batch(network: Network, built: BuiltNetwork) -> Trial:
    """A network that was built already."""
    return Trial(network, built, built.put(*_batch(network)))


def step_problems(builder: NetworkBuilder, network: Network, conditions: NetworkConditions) -> list[str]:
    """What is wrong with inference and with a first training step of an own model; nothing when all is right."""
    weights = network.initial_weights()
    built = builder.build(network, weights, conditions)
    images, labels = _batch(network)
    masks = dropout_masks(network)
    batch = built.put(images, labels, masks)
    found = max_error(built.to_numpy(built.infer(batch)), reference_logits(network, weights, images))
    problems = [f"logits {found:.1e}"] if not found <= network_tolerance(network, is_training=False) else []
    gradients = built.gradients(batch)
    loss = built.to_numpy(built.train(batch))
    step = FirstStep(np.asarray(loss), built.weights(), gradients)
    check = check_step(ExpectedStep(network, weights, (images, labels), masks), conditions.training, step)
    if check.beyond:
        problems.append(f"{check.worst.what} {check.worst.error:.1e}, limit {check.worst.limit:.1e}")
    if check.unchecked:
        problems.append(f"not checked: {', '.join(check.unchecked)}")
    if gradients.keys() != network.parameter_shapes().keys() or step.weights.keys() != weights.keys():
        problems.append("names of gradients or weights")
    return problems


def _batch(network: Network) -> tuple[NDArray[Any], NDArray[Any]]:
    return synthetic_data(network, train=32, test=8).batch(network.input_shape()[0])


@cache
def _expected_logits(network: Network) -> NDArray[np.float64]:
    return reference_logits(network, network.initial_weights(), _batch(network)[0])


@cache
def _expected_training(
    network: Network, training: Training, steps: int
) -> tuple[list[float], dict[str, NDArray[np.float64]]]:
    """Plain SGD with momentum, written once more from Training's formula."""
    weights = {name: value.astype(np.float64) for name, value in network.initial_weights().items()}
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    decay = {f"{layer.name}.w": layer.start.weight_decay * training.weight_decay for layer in network.layers}
    losses = []
    for _ in range(steps):
        loss, gradients = reference_gradients(network, weights, *_batch(network))
        losses.append(loss)
        for name, value in weights.items():
            velocity[name] = training.momentum * velocity[name] + gradients[name] + decay.get(name, 0.0) * value
            weights[name] = value - training.learning_rate * velocity[name]
    return losses, weights
