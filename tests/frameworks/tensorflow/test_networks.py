"""Networks in TensorFlow (graph, eager, Session) give what float64 gives, in inference and in training."""

from __future__ import annotations

from typing import Any

import pytest

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Cifar10, Layer
from profkit.ops.networks.network import Chain, Network
from profkit.ops.pool2d import Pool2d
from tests.frameworks.networks.network_checks import NETWORKS, name_of
from tests.support.processes import answer_of_python

BUILDER = load_builder("tensorflow")
CASES = [f"graph {name_of(network)}" for network in NETWORKS]
CASES += [f"{mode} {name_of(NETWORKS[1])}" for mode in ("eager", "session")]


@pytest.fixture(scope="module")
def results() -> Any:
    if not BUILDER.is_available().available:
        pytest.skip("tensorflow is not installed")
    return answer_of_python(
        ["-m", "tests.frameworks.tensorflow.equality_runner"], BUILDER.environment(NetworkConditions())
    )


def case_of(results: Any, name: str) -> Any:
    return next(case for case in results["cases"] if case["case"] == name)


@pytest.mark.parametrize("name", CASES)
def test_inference_is_equal_to_float64(results: Any, name: str) -> None:
    error, tolerance = case_of(results, name)["logits"]

    assert error <= tolerance


@pytest.mark.parametrize("name", CASES)
def test_steps_with_momentum_are_equal_to_float64_and_change_what_is_inferred(results: Any, name: str) -> None:
    case = case_of(results, name)

    error, tolerance = case["training"]

    assert error <= tolerance
    assert case["learned"]


@pytest.mark.parametrize("mode", BUILDER.modes)
def test_a_step_without_momentum_is_equal_to_float64(results: Any, mode: str) -> None:
    error, tolerance = results["plain"][mode]

    assert error <= tolerance


def test_dropout_does_nothing_in_inference_and_is_random_in_training(results: Any) -> None:
    error, tolerance = results["dropout"]["logits"]

    assert error <= tolerance
    assert results["dropout"]["is_finite"]
    assert len(set(results["dropout"]["losses"])) > 1  # the weights do not change: only dropout does


def test_what_tensorflow_cannot_do_is_refused_with_the_reason() -> None:
    class Odd(Cifar10):
        """Not a network of profkit's: averages, or normalises over an even number of channels."""

        def describe(self) -> tuple[Layer, ...]:
            return Chain(self.input_shape()).norm("norm", size=self.filters).layers

    class Averaging(Cifar10):
        def describe(self) -> tuple[Layer, ...]:
            spec = Pool2d(4, 3, 24, 24, 2, 2, "valid", mode="average")
            return (Layer("pool", "pool2d", spec, spec.output_shape()),)

    def refusal(network: Network) -> str:
        return BUILDER.supports(network, NetworkConditions(mode="graph"))

    assert refusal(Cifar10()) == ""
    assert refusal(Odd(batch=1, filters=4)) == (
        "norm: TensorFlow normalises over an odd number of channels, got 4"
    )  # fmt: skip
    assert refusal(Averaging(batch=4, crop=24)) == "pool: only max pooling is built, got average"
