"""Networks in Keras over its three backends give what float64 gives, in inference and in training."""

from __future__ import annotations

import pytest

from profkit.frameworks.keras.networks import backend_of
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from tests.frameworks.networks.network_process import outcome

by_mode = pytest.mark.parametrize(
    "mode", ["tensorflow", "torch", "jax", pytest.param("tensorflow_xla", marks=pytest.mark.full)]
)


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
