"""Small networks with every kind of layer, and what float64 says of a framework's: logits, gradients, three steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.frameworks.networks.contract import NetworkBuilder, NetworkConditions, reason_against
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks import Network, Training
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot, orthogonal, uniform
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, SQUARED_ERROR
from profkit.ops.networks.reference import (
    Optimiser,
    dropout_masks,
    network_tolerance,
    reference_logits,
    reference_training,
)
from profkit.ops.networks.training import EXPONENTIAL, ITERATION, STEPS
from profkit.ops.optimiser_step import ADAM, RMSPROP
from profkit.ops.spec import max_error

STEPS_TAKEN = 3
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class _Small(Network):
    """A network of this file; `batch` is the only parameter."""

    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), weight_decay=0.01)

    batch: int = axis(axes.COUNT, 3, "rows of a step")


@dataclass(frozen=True)
class Residual(_Small, name="residual"):
    """Bias-free convolutions, batch normalisation of images and of flattened rows, add, global average, dropout."""

    image: ClassVar[Shape] = (3, 9, 8)

    def describe(self, graph: Graph) -> None:
        graph.conv("stem", 4, 3, 2, 1, "none", bias=False).batch_norm("stem_norm").activate("stem_relu", "relu")
        source = graph.last
        graph.conv("left_conv", 6, 3, 1, (1, 0, 1, 1), "none", bias=False).batch_norm("left_norm")
        graph.conv("left_last", 6, 2, 1, (1, 1, 0, 1), "none").dropout("left_dropout", 0.3)
        left = graph.last
        graph.at(source).conv("right_conv", 6, 1, 1, 0, "none", bias=False).add("sum", left)
        graph.activate("sum_relu", "relu")
        activated = graph.last
        graph.global_average_pool("average").flatten("average_flat").dense("of_average", 4, "none")
        of_average = graph.last
        graph.at(activated).flatten("flat").batch_norm("flat_norm").dropout("flat_dropout", 0.5)
        graph.dense("of_pixels", 4, "none", bias=False).add("total", of_average)


@dataclass(frozen=True)
class Inception(_Small, name="inception"):
    """Branches that are joined: grouped convolutions, average and maximum pooling with padding, other functions."""

    loss: ClassVar[str] = SQUARED_ERROR
    image: ClassVar[Shape] = (4, 6, 6)

    def describe(self, graph: Graph) -> None:
        source = graph.conv("stem", 4, 3, 1, "same", "scaled_tanh", groups=2).last
        branches = [graph.conv("one", 3, 1).last]
        branches.append(graph.at(source).conv("three_reduce", 2, 1).conv("three", 4, 3, activation="sigmoid").last)
        branches.append(graph.at(source).average_pool("average", 3, 1).conv("of_average", 2, 1).last)
        branches.append(graph.at(source).max_pool("maximum", 3, 1, 1).conv("of_maximum", 2, 1, activation="tanh").last)
        graph.concat("joined", *branches).norm("norm", 5, 0.5).average_pool("last_pool", 3, 2, (1, 1, 0, 1))
        pooled = graph.last
        graph.max_pool("largest", 3, 1, "valid").flatten("largest_flat").dense("of_largest", 6, "none")
        of_largest = graph.last
        graph.at(pooled).flatten("flat").activate("hard", "hard_sigmoid").dropout("dropout", 0.25)
        graph.dense("hidden", 6).layer_norm("hidden_norm").add("hidden_sum", of_largest)
        graph.dense("output", 3, "none")


@dataclass(frozen=True)
class Recurrent(_Small, name="recurrent"):
    """Indices, embedding, positions, attention with its dense layers, layer normalisation, two forms of LSTM."""

    loss: ClassVar[str] = BINARY_CROSS_ENTROPY
    image: ClassVar[Shape] = (5,)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), orthogonal(), weight_decay=0.01)

    def describe(self, graph: Graph) -> None:
        embedded = graph.embedding("embedding", 11, 8, start=Initialisation(uniform(0.5))).positions("positions").last
        # A bias of k has no influence: its gradient is the noise of the rounding.
        q, k, v = (graph.at(embedded).dense(part, 8, "none", bias=part != "k").last for part in ("q", "k", "v"))
        graph.attention("attention", q, k, v, heads=2, causal=True).add("sum", embedded).layer_norm("norm")
        graph.dense("inner", 12, "gelu")
        inner = graph.last
        graph.lstm("lstm1", 6, "tanh", "hard_sigmoid", returns_sequence=True)
        graph.lstm("lstm2", 4, "sigmoid", "sigmoid").dense("of_cells", 3, "none")
        of_cells = graph.last
        graph.at(inner).mean("mean").dense("of_mean", 3, "none").add("output", of_cells)


@dataclass(frozen=True)
class SharedTwice(_Small, name="shared_twice"):
    """A result with three readers, one of them twice, and a sum with itself."""

    image: ClassVar[Shape] = (4,)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot())

    def describe(self, graph: Graph) -> None:
        graph.dense("a", 4).dense("b", 4, "gelu").add("c", "a")
        graph.add("d", "c").add("e", "a").dense("output", 3, "none")


GRAPHS: tuple[tuple[_Small, Training], ...] = (
    (Residual(), Training(learning_rate=0.05, momentum=0.9, nesterov=True)),
    (Inception(), Training(ADAM, 0.01, epsilon=0.01)),
    (
        Recurrent(),
        Training(
            optimizer=RMSPROP, learning_rate=0.01, schedule=EXPONENTIAL, schedule_by=ITERATION, schedule_factor=0.5
        ),
    ),
)
_CHANGING: dict[str, Any] = {"schedule": STEPS, "schedule_by": ITERATION, "schedule_at": (1, 2), "momentum_drop": 0.4}
MORE_GRAPHS: tuple[tuple[_Small, Training], ...] = (
    (SharedTwice(), Training()),
    (Residual(), Training(RMSPROP, 0.01, epsilon=0.01)),
    (Residual(), Training(ADAM, 0.01, epsilon=0.01, **_CHANGING)),
    (Inception(), Training(learning_rate=0.05, momentum=0.9, **_CHANGING)),
    (Recurrent(), Training(learning_rate=0.05, momentum=0.9, nesterov=True, **_CHANGING)),
)


def graph_problems(builder: NetworkBuilder, network: Network, training: Training, mode: str) -> dict[str, float]:
    """Which results are wrong, with their errors: inference, gradients with given dropout masks, losses, weights and
    running values of three steps. Built and run in this process, where the framework is started."""
    weights, images, labels = _weights(network), *_batch(network)
    masks = dropout_masks(network)
    conditions = NetworkConditions(2, mode, True, training)
    assert reason_against(builder, network, conditions) == ""
    built = builder.build(network, weights, conditions)
    batch = built.put(images, labels, masks)
    logits = built.to_numpy(built.infer(batch))
    gradients = built.gradients(batch)
    unchanged = built.weights()
    _, expected_gradients, _ = reference_training(network, weights, images, labels, masks)
    expected, optimiser, losses, expected_losses = dict(weights), Optimiser(network, training), [], []
    for number in range(STEPS_TAKEN):
        if not training.is_constant:
            built.set_rates(*training.rates(iteration=number))
        losses.append(float(built.to_numpy(built.train(batch))))
        loss, found, states = reference_training(network, expected, images, labels, masks)
        expected = {**optimiser.step(expected, found), **states}
        expected_losses.append(loss)
    errors = {
        "inference": max_error(logits, reference_logits(network, weights, images)),
        "losses": max_error(np.array(losses), np.array(expected_losses)),
        **_errors("gradient of ", gradients, expected_gradients),
        **_errors("new ", built.weights(), expected),
    }
    accepted = network_tolerance(network, is_training=True)
    problems = {what: error for what, error in errors.items() if not error <= accepted}
    return problems | {
        what: error for what, error in _errors("gradients changed ", unchanged, weights).items() if error
    }


def inference_error(builder: NetworkBuilder, network: Network, mode: str) -> tuple[float, float]:
    """Of the logits, and what is accepted."""
    weights, (images, labels) = _weights(network), _batch(network)
    built = builder.build(network, weights, NetworkConditions(2, mode))
    logits = built.to_numpy(built.infer(built.put(images, labels)))
    expected = reference_logits(network, weights, images)
    return max_error(logits, expected), network_tolerance(network, is_training=False)


def _errors(what: str, found: Arrays, expected: Arrays) -> dict[str, float]:
    """Of each array; infinite for one that is missing."""
    errors = {name: max_error(found[name], values) if name in found else np.inf for name, values in expected.items()}
    return {what + name: error for name, error in errors.items()}


def _weights(network: Network) -> Arrays:
    """Nothing is 0 or 1 for all channels: an order that is wrong would not show."""
    generator = np.random.default_rng(1)
    weights: Arrays = dict(network.initial_weights())
    for name, values in weights.items():
        if values.ndim == 1:
            weights[name] = values + generator.uniform(0.0, 0.5, values.shape).astype(np.float32)
    return weights


def _batch(network: Network) -> tuple[NDArray[Any], NDArray[Any]]:
    generator = np.random.default_rng(2)
    shape, (rows, outputs) = network.input_shape(), network.output_shape()
    if network.vocabulary:
        images: NDArray[Any] = generator.integers(0, network.vocabulary, shape)
    else:
        images = generator.standard_normal(shape, dtype=np.float32)
    if network.loss == CROSS_ENTROPY:
        return images, generator.integers(0, outputs, rows)
    values = generator.standard_normal((rows, outputs), dtype=np.float32)
    return images, (values > 0).astype(np.float32) if network.loss == BINARY_CROSS_ENTROPY else values
