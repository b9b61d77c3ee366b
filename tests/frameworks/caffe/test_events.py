"""What is recorded of Caffe models in OpenCV: its own times per layer, and the memory that it plans."""

from __future__ import annotations

import pytest

from profkit.capture.schema import AGGREGATE, INFERRED, NONE
from profkit.ops.networks import Cifar10
from tests.frameworks.caffe.cases import caffe_outcome
from tests.frameworks.events.source_checks import assert_sound, rows

STEPS = 2


@pytest.mark.parametrize(("of_pass", "quality"), [("time", AGGREGATE), ("memory", INFERRED)])
def test_recordings_are_sound(of_pass: str, quality: str) -> None:
    capture = caffe_outcome().capture("cifar10", of_pass)

    assert_sound(capture, STEPS)
    assert (capture.recorder, capture.measures) == ("opencv", (of_pass,))
    assert {row["quality"] for row in rows(capture)} == {quality}


def test_a_relu_inside_its_layer_has_no_row_of_its_own() -> None:
    capture = caffe_outcome().capture("cifar10", "time")

    found = [(row["layer"], row["type"], row["fused"]) for row in rows(capture, step=1)]

    assert found == [
        ("conv1", "Convolution", "Convolution+ReLU"),
        ("pool1", "Pooling", None),
        ("norm1", "LRN", None),
        ("conv2", "Convolution", "Convolution+ReLU"),
        ("norm2", "LRN", None),
        ("pool2", "Pooling", None),
        ("local3", "InnerProduct", "InnerProduct+ReLU"),
        ("local4", "InnerProduct", "InnerProduct+ReLU"),
        ("softmax_linear", "InnerProduct", None),
    ]
    assert {row["phase"] for row in rows(capture)} == {"forward"}


def test_planned_memory_is_that_of_every_layers_result_and_nothing_is_said_of_buffers() -> None:
    capture = caffe_outcome().capture("cifar10", "memory")

    found = {row["layer"]: row for row in rows(capture, step=0)}

    assert found["conv1"]["requested_bytes"] == 4 * 8 * 24 * 24 * 4
    assert found["softmax_linear"]["requested_bytes"] == 4 * 10 * 4
    assert {row["temporary_bytes"] for row in found.values()} == {NONE}
    assert capture.facts["held_bytes"] == 4 * Cifar10(batch=4, crop=24, filters=8).parameter_count()


def test_time_says_that_moments_are_not_observed_and_knows_no_bytes() -> None:
    capture = caffe_outcome().capture("cifar10", "time")

    assert any("not when" in note for note in capture.facts["notes"])
    assert capture.facts["observes_dispatch"] is False  # only sums are known
    assert set(capture.ranges["requested_bytes"].tolist()) == {NONE}
