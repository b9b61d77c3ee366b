"""Networks in Keras over its three backends give what float64 gives, in inference and in training."""

from __future__ import annotations

import pytest

from profkit.frameworks.keras.networks import backend_of
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.conv2d import Conv2d
from profkit.ops.networks import Cifar10, Layer
from profkit.ops.pool2d import Pool2d
from tests.frameworks.networks.network_process import by_network, outcome

by_mode = pytest.mark.parametrize(
    "mode", ["tensorflow", "torch", "jax", pytest.param("tensorflow_xla", marks=pytest.mark.full)]
)


@by_mode
@by_network
def test_inference_and_three_steps_with_momentum_are_equal_to_float64(mode: str, part: str, number: int) -> None:
    found = outcome("keras", mode, part).facts["errors"][number]

    assert found["output"] > 0.01  # a network whose last ReLU is closed would equal anything
    assert found["inference"] <= found["inference_tolerance"]
    assert found["training"] <= found["training_tolerance"]


@by_mode
def test_a_step_without_momentum_is_equal_to_float64(mode: str) -> None:
    facts = outcome("keras", mode).facts

    assert facts["plain_error"] <= facts["plain_tolerance"]


@by_mode
def test_dropout_is_random_in_training(mode: str) -> None:
    losses = outcome("keras", mode).facts["dropout_losses"]

    assert len(set(losses)) == 3


@by_mode
def test_the_reader_learns_how_keras_ran(mode: str) -> None:
    facts = outcome("keras", mode).facts

    notes = " ".join(facts["notes"])

    assert facts["start"]["backend"] == backend_of(mode)
    assert facts["start"][f"{backend_of(mode)}_version"]
    assert "no LRN" in notes
    assert "custom training loop" in notes
    assert ("NCHW" in notes) == (mode == "torch")
    assert ("without XLA" in notes) == (mode == "tensorflow")
    assert ("compiled by XLA" in notes) == (mode == "tensorflow_xla")


@by_mode
def test_the_backend_is_chosen_before_keras_is_imported(mode: str) -> None:
    environment = load_builder("keras").environment(NetworkConditions(mode=mode))

    assert environment["KERAS_BACKEND"] == backend_of(mode)


def test_what_keras_cannot_run_is_refused_with_the_reason() -> None:
    builder = load_builder("keras")
    spec = Conv2d(2, 3, 8, 8, 4, 3, padding=(0, 1, 2, 1))
    average = Pool2d(2, 3, 8, 8, 2, 2, mode="average")

    class Odd(Cifar10):
        def describe(self) -> tuple[Layer, ...]:
            return (Layer("conv1", "conv2d", spec, spec.output_shape()),)

    class Averaging(Cifar10):
        def describe(self) -> tuple[Layer, ...]:
            return (Layer("pool1", "pool2d", average, average.output_shape()),)

    conditions = NetworkConditions(mode="torch")

    assert "(0, 1, 2, 1)" in builder.supports(Odd(), conditions)
    assert "average" in builder.supports(Averaging(), conditions)
    assert builder.supports(Cifar10(), conditions) == ""
