"""Step times of a network: what the alternation of recorded and unrecorded steps tells, with samples made by hand."""

from __future__ import annotations

import pytest

from profkit.measurement.network_times import step_times
from tests.capture.network_captures import network_capture


def test_a_pass_is_compared_with_the_unrecorded_steps_around_it() -> None:
    # Blocks of three: before, [time], between, [memory], after; the machine gets slower and slower.
    capture = network_capture(
        step_ns=[100, 101, 99, 200, 202, 198, 400, 404, 396],
        recorded_step_ns={"time": [160, 161, 159], "memory": [390, 391, 389]},
    )

    times = step_times(capture)

    assert times.step is not None and times.step.value == pytest.approx(200, rel=0.01)
    assert times.samples == 9
    # Geometric means of the neighbours: sqrt(100 * 200), sqrt(200 * 400).
    assert times.recording["time"].value == pytest.approx(160 / 141.4, rel=0.02)
    assert times.recording["memory"].value == pytest.approx(390 / 282.8, rel=0.02)
    assert times.null is not None and times.null.value == pytest.approx(2.0, rel=0.02)


def test_a_pass_in_a_process_of_its_own_has_no_ratio() -> None:
    capture = network_capture(step_ns=[100, 100, 100, 100], recorded_step_ns={"time": [110, 110], "memory": [500, 500]})

    assert set(step_times(capture).recording) == {"time"}


def test_without_samples_nothing_is_claimed() -> None:
    times = step_times(network_capture(step_ns=[], recorded_step_ns={}))

    assert (times.step, times.samples, times.recording, times.null) == (None, 0, {}, None)


def test_an_interrupted_run_has_its_step_time_but_no_ratio() -> None:
    times = step_times(network_capture(step_ns=[100, 102, 98], recorded_step_ns={}))

    assert times.step is not None and times.step.value == pytest.approx(100)
    assert (times.recording, times.null) == ({}, None)
