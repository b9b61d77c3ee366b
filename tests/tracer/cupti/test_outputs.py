"""From a traced program to the tables and the exported traces of its GPU: recorded through the doubles, conserved by
every grouping, opened by viewers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import usage_of
from profkit.capture.schema import Capture
from profkit.export import main
from tests.support.typed import Typed
from tests.tracer.cupti.gpu_programs import device_of, run_gpu_program
from tests.viewers.trace_viewers import load_with_catapult, load_with_trace_processor

PROGRAM = """
for _ in range(3):
    with profkit.scope("conv"):
        first, second = call(), call()
        start = kernel("ampere_sgemm_128x64_nn", first, lasts=90_000)
        kernel("beside_it", second, at=start, after=10_000, lasts=200_000)
        time.sleep(0.001)
    with profkit.scope("pool"):
        kernel("max_pool", call(), lasts=7_000)
    copy(1, 1, 3, 4096, call(COPY))
gpu.double_memory(0, big(1), big(4096), 3, big(0))
"""
IN_CHROME = "select ts, dur, track_id from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset') order by ts"
IN_PERFETTO = "select ts, dur, track_id from gpu_slice order by ts"
LINKS = "select count(*) from args where flat_key = 'gpu_correlation.render_stage_submission_event_ids'"


class Recorded(NamedTuple):
    """A capture whose GPU did something, and the folder with its two traces."""

    capture: Capture
    folder: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("exports")
    capture, _ = run_gpu_program(folder, PROGRAM)
    words = ["--chrome", str(folder / "t.json"), "--perfetto", str(folder / "t.pftrace")]
    assert main([capture.path, *words]) == 0
    return Recorded(device_of(capture), folder)


@pytest.mark.parametrize("by", groupings_on(DEVICES))
def test_tables_of_a_recorded_gpu_add_up(by: str, recorded: Recorded) -> None:
    trace = recorded.capture
    durations = (trace.activities["end_ns"] - trace.activities["start_ns"]).tolist()

    usage = usage_of(trace, by, clock=DEVICES)

    assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
    assert usage.wall_ns == trace.end_ns - trace.start_ns
    assert sum(durations) == usage.totals["device_ns"]
    assert (usage.parts or {})["copy_ns"] > 0
    for field, total in (("launches", 12), ("device_ns", sum(durations)), ("copy_bytes", 3 * 4096)):
        found = sum(value or 0 for value in usage.rows.column(field))
        assert found + (usage.left(field) or 0) == total


def test_kernels_of_a_scope_are_its_own_and_copies_outside_are_not(recorded: Recorded) -> None:
    usage = usage_of(recorded.capture, "operator", clock=DEVICES)

    rows = {row.name: row for row in usage.rows}
    # The two clocks are joined by a line, which rounds.
    for name, launches, device_ns in (("conv", 6, 3 * 290_000), ("pool", 3, 3 * 7_000)):
        row = rows[name]
        assert (row.calls, row.launches, row.copy_bytes) == (3, launches, None)
        assert row.device_ns == pytest.approx(device_ns, abs=20)


def test_the_report_of_a_capture_has_the_tables_of_its_gpu(recorded: Recorded, typed: Typed) -> None:
    target = recorded.folder / "usage.json"

    typed.shows("report", recorded.capture.path, "--by", "gemm", "--json", target)

    (row,) = json.loads(target.read_text(encoding="utf-8"))["rows"]
    assert (row["name"], row["calls"], row["device_ns"]) == ("128x64_nn f32", 3, pytest.approx(270_000, abs=20))


@pytest.mark.parametrize(("name", "asked"), [("t.json", IN_CHROME), ("t.pftrace", IN_PERFETTO)])
def test_kernels_and_copies_of_a_traced_program_are_in_its_trace_to_the_nanosecond(
    name: str, asked: str, recorded: Recorded
) -> None:
    capture, folder = recorded

    loaded = load_with_trace_processor(folder / name, [asked, LINKS, "select name, ts, dur from slice"])

    assert loaded.is_sound, loaded.troubles
    gpu, ((links,),), slices = loaded.answers
    activities = capture.activities
    durations = (activities["end_ns"] - activities["start_ns"]).tolist()
    assert sorted(row[:2] for row in gpu) == sorted(map(list, zip(activities["start_ns"].tolist(), durations)))
    assert len({row[2] for row in gpu}) >= 2  # what overlaps stands apart
    assert max(loaded.flows, links) == len(gpu) == 12
    ranges = capture.ranges
    for row in range(len(ranges)):
        start, end = int(ranges.start_ns[row]), int(ranges.end_ns[row])
        assert [capture.strings[ranges.name[row]], start, end - start] in slices


def test_calls_stand_beside_their_thread_and_the_gpu_in_a_group_of_its_own(recorded: Recorded) -> None:
    _, folder = recorded

    imported = load_with_catapult(folder / "t.json")

    assert (imported["error"], imported["warnings"]) == ("", [])
    host, gpu = imported["processes"]
    named = [thread["name"] for thread in host["threads"]]
    calls = [name for name in named if name.endswith(" (CUDA calls)")]
    assert len(calls) == 1 and calls[0].removesuffix(" (CUDA calls)") in named
    assert gpu["name"].startswith("GPU 0")
    assert gpu["threads"][0]["name"] == "stream 7"
    assert all(source and target for source, target in imported["flows"])
