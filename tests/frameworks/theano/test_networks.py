"""Networks in Theano: equal to float64 in inference and over several steps of training."""

from __future__ import annotations

import os

import pytest

from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.theano.model import pooling_of
from profkit.frameworks.theano.networks import BUILDER, joined_flags
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.window import Window
from tests.frameworks.networks.foreign_networks import Case, environment_of
from tests.frameworks.networks.network_checks import name_of
from tests.frameworks.theano.cases import CIFAR10_TRAINING, INFERENCE, MLP_TRAINING, found_of


@pytest.mark.full
@pytest.mark.parametrize("case", INFERENCE, ids=lambda case: name_of(case.network))
def test_inference_is_equal_to_float64(case: Case) -> None:
    found = found_of(case)

    assert found["error"] <= found["tolerance"]
    assert found["largest"] > 0


@pytest.mark.parametrize(
    "case",
    [MLP_TRAINING, pytest.param(CIFAR10_TRAINING, marks=pytest.mark.full)],
    ids=lambda case: name_of(case.network),
)
def test_three_steps_of_sgd_with_momentum_are_equal_to_float64(case: Case) -> None:
    found = found_of(case)

    assert found["error"] <= found["tolerance"]


def test_a_whole_run_goes_through_a_worker_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(environment_of("theano").folder.parent))
    network = MLP_TRAINING.network

    capture = run_network(NetworkRequest(network, "theano", is_training=True, steps=2, passes=["time"]))

    assert (capture.status, capture.reason) == ("ok", "")
    assert (capture.versions["theano"], capture.versions["numpy"]) == ("1.0.5", "1.23.5")
    assert len(capture.captures) == 1


@pytest.mark.full
def test_notes_tell_what_the_network_has() -> None:
    notes = found_of(INFERENCE[0])["notes"]

    assert any("CorrMM" in note for note in notes)
    assert any("composed of elementwise operators" in note for note in notes)
    assert found_of(MLP_TRAINING)["notes"] == []


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Window((32, 32), (3, 3), (2, 2), "same"), ("ceil", (0, 0))),
        (Window((7, 7), (3, 3), (2, 2), "same"), ("floor", (1, 1))),
        (Window((28, 28), (2, 2), (2, 2), "valid"), ("floor", (0, 0))),
        (Window((7, 8), (3, 3), (2, 2), "same"), ("explicit", (0, 0))),
        (Window((12, 12), (5, 5), (2, 2), "same"), ("explicit", (0, 0))),
    ],
)
def test_pooling_takes_theanos_own_way_where_the_windows_are_exactly_the_same(
    window: Window, expected: tuple[str, tuple[int, int]]
) -> None:
    assert pooling_of(window) == expected


def test_compiled_modules_go_into_the_cache_and_the_users_flags_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", "/one, two")
    monkeypatch.setenv("THEANO_FLAGS", "openmp=False")

    variables = BUILDER.environment(NetworkConditions(threads=2))

    assert variables["THEANO_FLAGS"] == (
        "base_compiledir='/one, two/theano',device='cpu',floatX='float32',openmp='True',openmp=False"
    )
    assert variables["THEANORC"] == os.devnull
    assert joined_flags("", "") == ""


def test_without_an_environment_the_line_to_type_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(tmp_path_factory.mktemp("none")))

    availability = BUILDER.is_available()

    assert not availability.available
    assert availability.reason == "theano has no environment yet"
    assert availability.install == "python -m profkit.env create theano"
