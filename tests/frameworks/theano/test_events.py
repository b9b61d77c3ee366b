"""What is recorded of Theano: every operator of the compiled graph, its layer and phase, its exact bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from profkit.capture.schema import AGGREGATE, EXACT, NONE, Level
from profkit.ops.networks import Cifar10
from tests.frameworks.events.source_checks import assert_sound, rows
from tests.frameworks.networks.foreign_networks import Case
from tests.frameworks.theano.cases import CIFAR10_TRAINING, INFERENCE, MLP_TRAINING, theano_recording

STEPS = 2
BATCH, FILTERS = 4, 8


@pytest.mark.parametrize(
    "case", [MLP_TRAINING, pytest.param(INFERENCE[0], marks=pytest.mark.full)], ids=lambda case: case.name
)
@pytest.mark.parametrize("of_pass", ["time", "memory"])
def test_recordings_are_sound(case: Case, of_pass: str) -> None:
    capture = theano_recording(case, of_pass)

    assert_sound(capture, STEPS)
    assert capture.measures == (of_pass,)
    assert {row["quality"] for row in rows(capture)} == {AGGREGATE if of_pass == "time" else EXACT}


@pytest.mark.full
def test_every_operator_of_inference_has_its_layer() -> None:
    capture = theano_recording(INFERENCE[0], "time")

    layers = [row["layer"] for row in rows(capture, step=0)]

    network = Cifar10(batch=BATCH, crop=24, filters=FILTERS)
    assert set(layers) == {layer.name for layer in network.layers}
    assert {row["phase"] for row in rows(capture)} == {"forward"}


def test_every_operator_of_training_has_its_phase_and_all_but_the_loss_a_layer() -> None:
    capture = theano_recording(MLP_TRAINING, "time")

    found = rows(capture, step=0)

    products = Counter((row["layer"], row["phase"]) for row in found if row["type"] in ("Dot22", "Dot22Scalar", "Gemm"))
    # Backward: the gradients by weights and by input, which the first layer does not need.
    assert products == {
        ("hidden1", "forward"): 1,
        ("hidden2", "forward"): 1,
        ("output", "forward"): 1,
        ("hidden1", "backward"): 1,
        ("hidden2", "backward"): 2,
        ("output", "backward"): 2,
    }
    assert {row["layer"] for row in found if row["phase"] == "optimiser"} == {"hidden1", "hidden2", "output"}
    assert all(row["phase"] for row in found)
    assert not any("not mapped" in note for note in capture.facts["notes"])


def test_a_product_that_does_the_momentum_too_is_told() -> None:
    notes = theano_recording(MLP_TRAINING, "time").facts["notes"]

    assert any("Gemm counted as backward of hidden1 does also optimiser of hidden1" in note for note in notes)


@pytest.mark.full
def test_a_convolution_requests_its_result_and_gives_its_columns_back() -> None:
    capture = theano_recording(INFERENCE[0], "memory")

    conv1, conv2 = [row for row in rows(capture, step=0) if row["type"] == "CorrMM"]

    result, columns = BATCH * FILTERS * 24 * 24 * 4, 3 * 5 * 5 * 24 * 24 * 4
    assert (conv1["layer"], conv1["output_bytes"]) == ("conv1", result)
    assert (conv1["requested_bytes"], conv1["temporary_bytes"]) == (result + columns, columns)
    assert conv1["shapes"] == f"{BATCH}x3x24x24, {FILTERS}x3x5x5"
    assert conv2["temporary_bytes"] == FILTERS * 5 * 5 * 12 * 12 * 4


def test_what_works_in_place_requests_nothing() -> None:
    capture = theano_recording(MLP_TRAINING, "memory")

    updates = [row for row in rows(capture, step=0) if row["phase"] == "optimiser"]

    assert updates
    assert {row["requested_bytes"] for row in updates} == {0}
    assert capture.facts["peak_bytes"] > 0
    # Every parameter has a velocity.
    assert capture.facts["held_bytes"] == 2 * 4 * MLP_TRAINING.network.parameter_count()


def test_time_knows_no_bytes_and_memory_says_so_by_none() -> None:
    capture = theano_recording(MLP_TRAINING, "time")

    assert set(capture.ranges["requested_bytes"].tolist()) == {NONE}
    assert [row["name"] for row in rows(capture, Level.RUNTIME)] == ["theano.function"] * STEPS
    assert capture.clock_error_ns == 1000
    assert capture.facts["observes_dispatch"] is False  # only sums are known
    assert any("not when" in note for note in capture.facts["notes"])


@pytest.mark.full
def test_the_layers_of_cifar10_in_training() -> None:
    found = rows(theano_recording(CIFAR10_TRAINING, "time"), step=0)

    convolutions = Counter((row["layer"], row["type"]) for row in found if row["type"].startswith("CorrMM"))
    assert convolutions == {
        ("conv1", "CorrMM"): 1,
        ("conv2", "CorrMM"): 1,
        ("conv1", "CorrMM_gradWeights"): 1,
        ("conv2", "CorrMM_gradWeights"): 1,
        ("conv2", "CorrMM_gradInputs"): 1,
    }
    backward = {row["layer"] for row in found if row["phase"] == "backward"} - {None}
    assert backward == {layer.name for layer in CIFAR10_TRAINING.network.layers}
