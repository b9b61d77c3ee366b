"""Step times of a network: what the alternation of recorded and unrecorded steps tells, with samples made by hand."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize(
    ("step_ns", "recorded", "step", "passes"),
    [
        ([100] * 4, {"time": [110, 110], "memory": [500, 500]}, 100, {"time"}),  # memory: in a process of its own
        ([100, 102, 98], {}, 100, set()),  # interrupted
        ([], {}, None, set()),
    ],
)
def test_without_steps_around_it_a_pass_has_no_ratio(
    step_ns: list[int], recorded: dict[str, list[int]], step: float | None, passes: set[str]
) -> None:
    times = step_times(network_capture(step_ns=step_ns, recorded_step_ns=recorded))

    assert (times.step and times.step.value) == (step and pytest.approx(step, rel=1e-3))
    assert (times.samples, set(times.recording)) == (len(step_ns), passes)
    assert passes or times.null is None


def test_of_several_processes_the_step_is_their_mean_and_its_interval_how_they_differ() -> None:
    processes = [{"steps": 3, "recorded": {"time": 3}, "captures": 0, "machine": {}} for _ in range(3)]
    capture = network_capture(
        step_ns=[100, 100, 100, 110, 110, 110, 121, 121, 121],
        recorded_step_ns={"time": [7] * 9},
        processes=processes,
    )

    times = step_times(capture)

    assert times.step is not None and times.step.high is not None
    assert times.step.value == pytest.approx(110)
    assert list(times.processes) == pytest.approx([100, 110, 121])
    assert times.step.high / times.step.value == pytest.approx(math.exp(4.303 * math.log(1.1) / math.sqrt(3)), rel=0.02)
    assert times.recording == {}  # the first process has no unrecorded steps behind its pass


def test_recording_is_compared_inside_the_first_process() -> None:
    process = {"steps": 4, "recorded": {"time": 2}, "captures": 0, "machine": {}}
    capture = network_capture(
        step_ns=[100, 100, 100, 100, 900, 900, 900, 900],
        recorded_step_ns={"time": [120, 120, 50, 50]},
        processes=[process, process],
    )

    assert step_times(capture).recording["time"].value == pytest.approx(1.2)
