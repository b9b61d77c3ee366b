"""Captures with steps as traces: layers above operators above primitives, memory by phase, in both viewers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from profkit.capture.run import Run
from profkit.capture.schema import AGGREGATE, EXACT, Capture, MemoryEvents, MemoryKind
from profkit.rendering.traces.captures import OUTLINE, run_about, trace_content
from profkit.rendering.traces.content import TraceContent
from profkit.rendering.traces.files import write_chrome
from profkit.rendering.traces.outline import outline
from tests.capture.network_captures import layer, network_capture, op, pool, primitive, recording_of, runtime
from tests.rendering.traces.formats import ABOUT, FORMATS, WRITERS, Writer, both_formats
from tests.viewers import trace_viewers as viewers


def with_memory(capture: Capture, *rows: tuple[int, int, int, int]) -> Capture:
    """The capture with what the framework's allocator did: rows of (range, time, address, bytes)."""
    columns = dict(zip(("range", "time_ns", "address", "bytes"), np.array(rows, np.int64).reshape(-1, 4).T))
    kind = np.full(len(rows), MemoryKind.PAGEABLE)
    return replace(capture, memory_events=MemoryEvents(**columns, kind=kind, process=np.zeros(len(rows))))


def run_trace(run: Run) -> TraceContent:
    """As the command shows a run."""
    return trace_content(run.whole(), about=run_about(run))


def two_threads() -> Capture:
    """Forward on one thread, backward on another; a pool, a primitive, an operator in an operator, one overlap."""
    at = 5_000_000_000
    made = recording_of(
        layer("conv1", at + 10, at + 90),
        op("aten::conv2d", at + 20, at + 80, layer="conv1", phase="forward", quality=EXACT, shapes="[2,3]"),
        op("aten::convolution", at + 25, at + 75, layer="conv1", phase="forward", requested_bytes=512),
        primitive("brgemm", at + 30, at + 70, layer="conv1", phase="forward", implementation="jit:avx2"),
        op("aten::max_pool2d", at + 100, at + 140, layer="pool1", phase="forward"),
        runtime("evaluate_function", at + 200, at + 300, thread="autograd"),
        op("aten::convolution_backward", at + 210, at + 290, thread="autograd", layer="conv1", phase="backward"),
        op("straddles", at + 280, at + 320, thread="autograd"),
        pool(at + 32, at + 60, "helper", owner=3),
        steps=[(at, at + 400)],
        facts={"notes": ["hooks add 2 us per layer"]},
    )
    allocations = ((2, at + 26, 0x10, 512), (6, at + 220, 0x20, 100), (6, at + 230, 0x10, -512), (4, at + 1, 0x99, -7))
    return with_memory(made, *allocations)


def the_capture() -> Run:
    return network_capture(two_threads(), notes=["padding is a separate operator"])


@pytest.fixture(scope="module", params=WRITERS, ids=FORMATS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> viewers.Loaded:
    """The run in one format as the trace processor has it: its slices, arguments and counters."""
    path = tmp_path_factory.mktemp("network") / "trace"
    request.param(run_trace(the_capture()), path)
    return viewers.load_with_trace_processor(path, [viewers.SLICES, viewers.ARGUMENTS, viewers.COUNTERS])


def test_layers_stand_above_operators_above_primitives(loaded: viewers.Loaded) -> None:
    found = {(row[0], row[7]): row for row in loaded.answers[0]}
    # name, start, duration, category, around it
    assert found["step 0", OUTLINE][1:5] == [0, 400, "outline", ""]
    assert found["forward", OUTLINE][1:5] == [20, 120, "outline", "step 0"]
    assert [row[1:5] for row in loaded.answers[0] if row[0] == "conv1" and row[7] == OUTLINE] == [
        [20, 60, "outline", "forward"],
        [210, 80, "outline", "backward"],
    ]
    assert found["aten::conv2d", "main"][1:5] == [20, 60, "operator", "conv1"]
    assert found["aten::convolution", "main"][4] == "aten::conv2d"
    assert found["brgemm", "main"][3:5] == ["primitive", "aten::convolution"]
    assert found["aten::convolution_backward", "autograd (pool)"][4] == "evaluate_function"
    assert found["pool", "helper (pool)"][3] == "pool"
    assert next(row for row in loaded.answers[0] if row[0] == "straddles")[4] == ""


def test_every_span_and_argument_arrives(loaded: viewers.Loaded) -> None:
    capture = two_threads()
    arguments = {(row[0], row[1]): row[2] for row in loaded.answers[1]}

    assert loaded.slices == len(capture.ranges) + len(outline(capture)) + ABOUT
    assert arguments["aten::conv2d", "Input Dims"] == "[2,3]"
    assert arguments["aten::convolution", "requested_bytes"] == 512
    assert arguments["aten::convolution", "layer"] == "conv1"
    assert arguments["brgemm", "implementation"] == "jit:avx2"
    assert arguments["brgemm", "phase"] == "forward"
    assert arguments["aten::conv2d", "kind"] == "conv2d"
    assert ("conv1", "kind") not in arguments
    assert ("aten::conv2d", "requested_bytes") not in arguments  # not observable, hence not 0
    assert ("aten::conv2d", "quality") not in arguments
    about = [value for (name, key), value in arguments.items() if name == "profkit capture" and "note" in key]
    assert sorted(about) == ["hooks add 2 us per layer", "padding is a separate operator"]


def test_catapult_imports_it_without_a_warning(tmp_path: Path) -> None:
    write_chrome(run_trace(the_capture()), tmp_path / "trace.json")

    imported = viewers.load_with_catapult(tmp_path / "trace.json")

    (process,) = imported["processes"]
    assert process["name"] == "torch: time and memory (by hand)"
    names = {OUTLINE, "main", "autograd (pool)", "helper (pool)", "autograd (pool) (overlapping 1)"}
    assert {thread["name"] for thread in process["threads"]} == names


@both_formats
def test_every_recording_has_a_group_of_its_own_on_the_common_clock(write: Writer, tmp_path: Path) -> None:
    first = recording_of(op("a", 1_000, 1_100), steps=[(1_000, 1_200)], measures=["time"])
    second = recording_of(op("b", 9_000, 9_050), steps=[(8_900, 9_100)], measures=["memory"])

    write(run_trace(network_capture(first, second)), tmp_path / "trace")

    loaded = viewers.load_with_trace_processor(tmp_path / "trace", [viewers.SLICES])
    assert loaded.processes == 2
    starts = {row[0]: row[1] for row in loaded.answers[0]}
    assert (starts["a"], starts["b"]) == (0, 8_000)
    assert len({row[6] for row in loaded.answers[0] if row[0] in ("a", "b")}) == 2  # the same thread id, kept apart


def test_what_was_placed_and_not_observed_is_marked() -> None:
    made = recording_of(op("Conv", 0, 60, quality=AGGREGATE), op("Pool", 60, 80, quality=EXACT), steps=[(0, 100)])

    content = run_trace(network_capture(made))

    events = content.events
    categories = {content.strings[n]: content.strings[c] for n, c in zip(events.name, events.category)}
    assert categories["Conv"] == "operator,placed"
    assert categories["Pool"] == "operator"


def test_a_run_without_recordings_has_no_tracks() -> None:
    content = run_trace(network_capture(status="crashed", reason="ended by SIGSEGV"))

    assert (content.processes, content.tracks, len(content.events)) == ((), (), 0)
    assert ("status", "crashed: ended by SIGSEGV") in content.about


def test_memory_is_counted_in_all_and_by_the_phase_that_asked_for_it(loaded: viewers.Loaded) -> None:
    counters: dict[str, list[list[float]]] = {}
    for counter, time, value in loaded.answers[2]:
        counters.setdefault(counter, []).append([time, value])
    # The release of memory from before the recording (0x99) changes nothing.
    assert counters["live bytes"] == [[26, 512], [220, 612], [230, 100]]
    assert counters["live from forward bytes"] == [[26, 512], [230, 0]]
    assert counters["live from backward bytes"] == [[220, 100]]
