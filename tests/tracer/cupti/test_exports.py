"""From a traced program to the lanes of its GPU in exported traces: recorded through the doubles, opened by viewers."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.capture.schema import Capture
from profkit.export import main
from tests.tracer.cupti.gpu_programs import device_of, run_gpu_program
from tests.viewers.trace_viewers import load_with_catapult, load_with_trace_processor

PROGRAM = """
for _ in range(3):
    with profkit.scope("conv"):
        first, second = call(), call()
        start = kernel("gemm_128x128", first, lasts=90_000)
        kernel("beside_it", second, at=start, after=10_000, lasts=200_000)
        time.sleep(0.001)
    copy(1, 1, 3, 4096, call(COPY))
gpu.double_memory(0, big(1), big(4096), 3, big(0))
"""
IN_CHROME = "select ts, dur, track_id from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset') order by ts"
IN_PERFETTO = "select ts, dur, track_id from gpu_slice order by ts"
LINKS = "select count(*) from args where flat_key = 'gpu_correlation.render_stage_submission_event_ids'"


def expected(capture: Capture) -> list[list[int]]:
    activities = device_of(capture).activities
    starts, ends = activities["start_ns"].tolist(), activities["end_ns"].tolist()
    return sorted([start, end - start] for start, end in zip(starts, ends))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Capture, Path]:
    folder = tmp_path_factory.mktemp("exports")
    capture, _ = run_gpu_program(folder, PROGRAM)
    words = ["--chrome", str(folder / "t.json"), "--perfetto", str(folder / "t.pftrace")]
    assert main([capture.path, *words]) == 0
    return capture, folder


@pytest.mark.parametrize(("name", "asked"), [("t.json", IN_CHROME), ("t.pftrace", IN_PERFETTO)])
def test_kernels_and_copies_of_a_traced_program_are_in_its_trace_to_the_nanosecond(
    name: str, asked: str, recorded: tuple[Capture, Path]
) -> None:
    capture, folder = recorded

    loaded = load_with_trace_processor(folder / name, [asked, LINKS, "select name, ts, dur from slice"])

    assert loaded.is_sound, loaded.troubles
    gpu, ((links,),), slices = loaded.answers
    assert sorted(row[:2] for row in gpu) == expected(capture)
    assert len({row[2] for row in gpu}) >= 2  # what overlaps stands apart
    assert max(loaded.flows, links) == len(gpu) == 9
    ranges = capture.ranges
    for row in range(len(ranges)):
        start, end = int(ranges.start_ns[row]), int(ranges.end_ns[row])
        assert [capture.strings[ranges.name[row]], start, end - start] in slices


def test_calls_stand_beside_their_thread_and_the_gpu_in_a_group_of_its_own(recorded: tuple[Capture, Path]) -> None:
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
