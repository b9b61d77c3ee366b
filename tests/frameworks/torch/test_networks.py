"""Networks in torch give what float64 gives, in inference and in training, and are built as torch's users do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from profkit.data import synthetic_data
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Cifar10, Mlp, Solar, Training
from profkit.ops.networks.reference import Optimiser, reference_gradients
from profkit.ops.spec import max_error
from tests.frameworks.networks.network_checks import built_here

pytest.importorskip("torch", reason="torch is not installed")

SMALL = Cifar10(batch=2, crop=24, filters=4)


def test_decay_can_be_left_out_and_then_changes_the_weights_it_was_on() -> None:
    learned = {}
    for has_decay in (True, False):
        training = Training(weight_decay=has_decay)
        trial = built_here(load_builder("torch"), SMALL, NetworkConditions(1, "eager", True, training))
        trial.built.train(trial.batch)
        learned[has_decay] = trial.built.weights()

    changed = {name for name, values in learned[True].items() if not np.array_equal(values, learned[False][name])}

    assert changed == {"local3.w", "local4.w"}


def test_weights_come_back_as_they_went_in() -> None:
    for mode in ("eager", "channels_last"):
        trial = built_here(load_builder("torch"), SMALL, NetworkConditions(1, mode))

        weights = trial.built.weights()

        expected = SMALL.initial_weights()
        assert list(weights) == list(expected)
        assert all(np.array_equal(weights[name], values) for name, values in expected.items())


def test_weights_are_a_copy_that_training_does_not_change() -> None:
    trial = built_here(load_builder("torch"), SMALL, NetworkConditions(1, "eager", True, Training()))
    weights = trial.built.weights()
    before = {name: values.copy() for name, values in weights.items()}

    trial.built.train(trial.batch)

    assert all(np.array_equal(weights[name], values) for name, values in before.items())


def test_modules_have_the_names_of_the_layers() -> None:
    for network in (SMALL, Solar(batch=1)):
        model = built_here(load_builder("torch"), network, NetworkConditions(1, "eager")).built.model

        assert [name for name, _ in model.named_children()] == [layer.name for layer in network.layers]


def test_only_asymmetric_padding_is_an_operator_of_its_own_and_told() -> None:
    plain = built_here(load_builder("torch"), SMALL, NetworkConditions(1, "eager")).built
    strided = built_here(load_builder("torch"), replace(SMALL, stride=2), NetworkConditions(1, "eager")).built

    assert not plain.model.conv1.pad
    assert not any("F.pad" in note for note in plain.notes)
    assert plain.model.pool1.ceil_mode
    assert strided.model.conv1.pad == (1, 2, 1, 2)
    assert sum(note.startswith(("conv1: asymmetric padding", "conv2: asymmetric")) for note in strided.notes) == 2


def test_dropout_is_random_in_training_and_absent_in_inference() -> None:
    conditions = NetworkConditions(1, "eager", True, Training(learning_rate=0.0))
    trial = built_here(load_builder("torch"), Solar(batch=2), conditions)

    losses = {float(trial.built.to_numpy(trial.built.train(trial.batch))) for _ in range(4)}
    logits = [trial.built.to_numpy(trial.built.infer(trial.batch)) for _ in range(2)]

    assert len(losses) > 1
    assert np.array_equal(logits[0], logits[1])


def test_every_optimiser_is_the_declared_one() -> None:
    builder = load_builder("torch")
    builder.start(NetworkConditions(1, "eager"))
    for training in (
        Training(learning_rate=0.01, momentum=0.9, nesterov=True),
        Training(optimizer="adam", learning_rate=0.01),
        Training(optimizer="rmsprop", learning_rate=0.01),
    ):
        network = Mlp(batch=4, hidden=2, neurons=9)
        trial = built_here(builder, network, NetworkConditions(1, "eager", True, training))
        weights, optimiser = network.initial_weights(), Optimiser(network, training)
        images, labels = synthetic_data(network, train=32, test=8).batch(4)
        for _ in range(3):
            trial.built.train(trial.batch)
            _, gradients = reference_gradients(network, weights, images, labels)
            weights = optimiser.step(weights, gradients)
        found = trial.built.weights()
        assert max(max_error(found[name], expected) for name, expected in weights.items()) < 1e-5


def test_a_schedule_changes_the_rate_of_the_next_step() -> None:
    trial = built_here(load_builder("torch"), SMALL, NetworkConditions(1, "eager", True, Training()))
    before = trial.built.weights()

    trial.built.set_rates(0.0, 0.0)
    trial.built.train(trial.batch)

    assert all(np.array_equal(values, before[name]) for name, values in trial.built.weights().items())
