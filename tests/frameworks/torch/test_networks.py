"""Networks in torch give what float64 gives, in inference and in training, and are built as torch's users do."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Cifar10, Layer, LeNet, Mlp, Network, Solar, Training
from profkit.ops.networks.network import Chain
from tests.frameworks.networks.network_checks import NETWORKS, WITH_MOMENTUM, built_here, name_of

pytest.importorskip("torch", reason="torch is not installed")

MODES = ("eager", "channels_last")
SMALL = Cifar10(batch=2, crop=24, filters=4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS, ids=name_of)
def test_inference_and_three_steps_with_momentum_are_equal_to_float64(mode: str, network: Network) -> None:
    trial = built_here(load_builder("torch"), network, NetworkConditions(1, mode, True, WITH_MOMENTUM))

    inference_error = trial.logits_error()
    largest = np.abs(trial.built.to_numpy(trial.built.infer(trial.batch))).max()
    training_error = trial.training_error(WITH_MOMENTUM, 3)

    assert largest > 0.01  # a network whose last ReLU is closed would equal anything
    assert inference_error <= trial.tolerance()
    assert training_error <= trial.tolerance(is_training=True, steps=3)


def test_one_plain_step_is_equal_to_float64() -> None:
    trial = built_here(load_builder("torch"), SMALL, NetworkConditions(1, "eager", True, Training()))

    assert trial.training_error(Training(), 1) <= trial.tolerance(is_training=True)


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
    for mode in MODES:
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


class Skipping(Mlp):
    """Its last layer takes what the first one made."""

    def describe(self) -> tuple[Layer, ...]:
        first, second, last = Chain(self.input_shape()).dense("a", 8).dense("b", 8).dense("c", 7).layers
        return first, second, replace(last, inputs=("a",))


def test_what_cannot_be_built_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = load_builder("torch")
    eager = NetworkConditions(mode="eager")

    assert builder.supports(LeNet(), eager) == ""
    assert builder.supports(Skipping(), eager) == "torch builds chains only, and c takes a"
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("CXX", raising=False)
    assert "needs a C++ compiler" in builder.supports(LeNet(), NetworkConditions(mode="compile"))
