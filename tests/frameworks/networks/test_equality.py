"""Networks give what float64 gives in every framework, in inference and in training. Those of Numba, Theano and Caffe
are tested where their processes are: test_numpy_numba.py, theano/, caffe/."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import NETWORKS as NETWORKS_BY_NAME
from profkit.ops.networks import Network, Training
from tests.frameworks.networks import network_process_runner as runner
from tests.frameworks.networks.graphs import GRAPHS, MORE_GRAPHS
from tests.frameworks.networks.network_checks import NETWORKS, WITH_MOMENTUM, Trial, built_here, name_of, with_batch
from tests.frameworks.networks.network_process import outcome
from tests.support.fake_cupy import FakeCupy

TRAINED_HERE = [("native", ""), ("numpy", ""), ("torch", "eager"), ("torch", "channels_last"), ("cupy", "")]
INFERRED_HERE = [*TRAINED_HERE, ("onnxruntime", "default"), ("onnxruntime", "opset7")]
TRAINED = [*NETWORKS[:-1], pytest.param(NETWORKS[-1], marks=pytest.mark.full)]
"""The last one is large."""
in_full = partial(pytest.param, marks=pytest.mark.full)
by_process = pytest.mark.parametrize(
    ("framework", "mode"),
    [
        *(("keras", "tensorflow"), ("keras", "torch"), ("keras", "jax"), in_full("keras", "tensorflow_xla")),
        ("jax", "jit"),
        *(("tensorflow", "graph"), in_full("tensorflow", "eager"), in_full("tensorflow", "session")),
    ],
)


def trial_of(
    framework: str, mode: str, network: Network, training: Training | None, monkeypatch: pytest.MonkeyPatch
) -> Trial:
    """Built in this process; CuPy's on NumPy in its place, without looking for a device."""
    builder = load_builder(framework)
    conditions = NetworkConditions(2, mode, training is not None, training or Training())
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
        return with_batch(network, builder.build(network, network.initial_weights(), conditions))
    if not builder.is_available().available:
        pytest.skip(f"{framework} is not installed")
    return built_here(builder, network, conditions)


@pytest.mark.parametrize(("framework", "mode"), INFERRED_HERE)
@pytest.mark.parametrize("network", NETWORKS, ids=name_of)
def test_inference_is_equal_to_float64(
    framework: str, mode: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(framework, mode, network, None, monkeypatch)

    result = trial.built.to_numpy(trial.built.infer(trial.batch))

    assert np.abs(result).max() > 0.01  # a network whose last ReLU is closed would equal anything
    assert trial.logits_error() <= trial.tolerance()


@pytest.mark.parametrize(("framework", "mode"), TRAINED_HERE)
@pytest.mark.parametrize("network", TRAINED, ids=name_of)
@pytest.mark.parametrize(("training", "steps"), [(Training(), 1), (WITH_MOMENTUM, 3)], ids=["plain", "momentum"])
def test_training_is_equal_to_float64(
    framework: str, mode: str, network: Network, training: Training, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_of(framework, mode, network, training, monkeypatch)

    error = trial.training_error(training, steps)

    assert error <= trial.tolerance(is_training=True, steps=steps)


@by_process
@pytest.mark.parametrize(
    ("part", "network"),
    [
        *((runner.QUICK, network) for network in runner.NETWORKS[runner.QUICK]),
        *(in_full(runner.REST, network) for network in runner.NETWORKS[runner.REST]),
    ],
    ids=lambda item: item if isinstance(item, str) else item.name,
)
def test_inference_and_three_steps_with_momentum_are_equal_to_float64(
    framework: str, mode: str, part: str, network: Network
) -> None:
    reason = load_builder(framework).supports(network, NetworkConditions(mode=mode, is_training=True))
    if reason:
        pytest.skip(reason)

    found = outcome(framework, mode, part).facts["errors"][network.name]

    assert found["output"] > 0.01
    assert found["inference"] <= found["inference_tolerance"]
    assert found["training"] <= found["training_tolerance"]
    assert found["learned"]


@by_process
@pytest.mark.parametrize("part", [runner.QUICK, in_full(runner.REST)])
def test_graphs_of_all_layers_and_optimisers_are_equal_to_float64(framework: str, mode: str, part: str) -> None:
    """Inference, gradients with given dropout masks, three steps with their running values."""
    graphs = outcome(framework, mode, part).facts["graphs"]

    assert graphs == [{}] * len(GRAPHS if part == runner.QUICK else MORE_GRAPHS)


@pytest.mark.full
@pytest.mark.parametrize(
    ("framework", "mode"),
    [("jax", "jit"), ("tensorflow", "graph"), ("keras", "tensorflow"), ("keras", "torch"), ("keras", "jax")],
)
def test_every_published_network_takes_its_first_step_as_float64_does(framework: str, mode: str) -> None:
    problems = outcome(framework, mode, runner.PUBLISHED).facts

    assert problems.keys() == NETWORKS_BY_NAME.keys()
    assert {name: found for name, found in problems.items() if found} == {}


@by_process
def test_a_step_without_momentum_is_equal_to_float64(framework: str, mode: str) -> None:
    facts = outcome(framework, mode).facts

    assert facts["plain_error"] <= facts["plain_tolerance"]


@by_process
def test_dropout_is_random_in_training_and_nothing_in_inference(framework: str, mode: str) -> None:
    found: Any = outcome(framework, mode).facts["dropout"]

    assert len(set(found["losses"])) == 3
    assert np.isfinite(found["losses"]).all()
    assert found["error"] <= found["tolerance"]
