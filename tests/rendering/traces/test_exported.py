"""Exported traces as Perfetto's trace processor and Catapult's importer understand them: all, exactly, in both."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.schema import NONE, Capture, RangeKind
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.files import write_chrome, write_perfetto
from tests.capture.importers.foreign_traces import KinetoTrace, opened_trace
from tests.capture.network_captures import network_capture, recording_of
from tests.capture.tables import capture_of
from tests.rendering.traces.formats import ABOUT, Writer, both_formats
from tests.viewers.sample_captures import AWKWARD_NAME, everything, random_capture
from tests.viewers.trace_viewers import (
    ARGUMENTS,
    COUNTERS,
    FLOWS,
    SLICES,
    load_with_catapult,
    load_with_trace_processor,
)


@both_formats
def test_everything_arrives_with_exact_counts(write: Writer, tmp_path: Path) -> None:
    capture = everything()

    write(trace_content(capture, flows=10), tmp_path / "trace")
    loaded = load_with_trace_processor(tmp_path / "trace", [SLICES, COUNTERS, FLOWS])

    lanes = 2 if write is write_chrome else 0  # there a lane must be a thread
    assert (loaded.processes, loaded.threads) == (2, 3 + lanes)
    assert loaded.slices == len(capture.ranges) + ABOUT + 2 * loaded.flows
    assert (loaded.flows, loaded.counters, loaded.counter_values) == (2, 3, 6 + 3 + 2)
    slices, counters, flows = loaded.answers
    assert [row[:6] for row in slices if row[0] == "load"] == [["load", 200, 3_800, "nvtx,input", "step", 1]]
    assert [row[4:] for row in slices if row[0] == "seen"] == [["load", 2, 1_000, "main"]]
    assert [row[:5] for row in slices if row[0] == AWKWARD_NAME] == [[AWKWARD_NAME, 1_000, 1_000, "nvtx", ""]]
    assert [row[4:6] for row in slices if row[0] == "copy"] == [["", 0]] * 3
    assert [row[1:] for row in counters if row[0] == "resident bytes"] == [[0, 10_000], [5_000, 20_000]]
    assert max(row[2] for row in counters if row[0] == "live recorded bytes") == 4_096 + 100 + 500
    assert sorted(flows) == [["malloc", "release", 250, 6_000], ["malloc", "release", 1_500, 5_500]]


def test_both_formats_hold_the_same_slices_arguments_counters_and_arrows(tmp_path: Path) -> None:
    content = trace_content(everything(), flows=10)
    write_chrome(content, tmp_path / "a.json")
    write_perfetto(content, tmp_path / "a.pftrace")
    queries = [SLICES, ARGUMENTS, COUNTERS, FLOWS]

    chrome = load_with_trace_processor(tmp_path / "a.json", queries).answers
    perfetto = load_with_trace_processor(tmp_path / "a.pftrace", queries).answers

    # A lane is a thread of its own in Chrome traces, a track of its thread in Perfetto's.
    assert [row[:6] for row in chrome[0]] == [row[:6] for row in perfetto[0]]
    assert _by_meaning(chrome[1]) == _by_meaning(perfetto[1])
    assert chrome[2:] == perfetto[2:]
    arguments = {(name, key): value for name, key, value in perfetto[1]}
    assert arguments["load", "payload"] == -3
    assert arguments["load", "colour"] == "#00ff00"
    assert arguments["load", "domain"] == "data"
    assert arguments["seen", "payload"] == 2.5
    assert arguments["train", "involuntary_switches"] == 4
    assert arguments["left open", "end"] == "not recorded"
    assert arguments[AWKWARD_NAME, "payload"] == str(2**63 + 5)
    assert arguments["profkit capture", "warning 1"] == "process 2000 was killed"
    assert arguments["profkit capture", "records lost"] == "0"


def _by_meaning(rows: list[list[Any]]) -> list[list[Any]]:
    """Arguments sorted; the order of equal times and an importer's own entries do not matter."""
    return sorted(row for row in rows if not row[1].startswith("legacy"))


@both_formats
def test_random_trees_keep_every_name_time_and_parent(write: Writer, tmp_path: Path) -> None:
    capture = random_capture(seed=5)

    write(trace_content(capture), tmp_path / "trace")
    loaded = load_with_trace_processor(tmp_path / "trace", [SLICES])

    found = sorted((row[0], row[1], row[2], row[4]) for row in loaded.answers[0] if row[0] != "profkit capture")
    assert found == sorted(_expected(capture))


def _expected(capture: Capture) -> list[tuple[str, int, int, str]]:
    ranges = capture.ranges
    rows = []
    for row, parent in enumerate(ranges.parent.tolist()):
        # Spans stand in lanes, where nothing is around them.
        is_alone = parent == NONE or ranges.kind[row] == RangeKind.SPAN
        around = "" if is_alone else capture.strings[ranges.name[parent]]
        start, end = int(ranges.start_ns[row]), int(ranges.end_ns[row])
        rows.append((capture.strings[ranges.name[row]], start, end - start, around))
    return rows


def test_catapult_imports_everything_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"

    write_chrome(trace_content(everything(), flows=10), path)
    imported = load_with_catapult(path)

    assert imported["bounds_us"] == pytest.approx([0, 9.5])
    first, second = imported["processes"]
    assert [thread["name"] for thread in first["threads"]] == [
        "main",
        "worker",
        "main (overlapping 1)",
        "main (overlapping 2)",
    ]
    # The ranges and marks of `everything`, and the ends of two arrows.
    assert [len(thread["slices"]) for thread in first["threads"]] == [4 + 3, 1 + 1, 1, 2]
    assert [thread["slices"][0]["name"] for thread in second["threads"]] == ["left open"]
    slices = {entry["name"]: entry for entry in first["threads"][0]["slices"]}
    assert (slices["load"]["parent"], slices["load"]["start_us"], slices["load"]["duration_us"]) == ("step", 0.2, 3.8)
    assert first["threads"][1]["slices"][0]["name"] == AWKWARD_NAME
    assert first["instants"] == ["profkit capture"]
    assert [counter["name"] for counter in first["counters"]] == ["live recorded bytes", "resident bytes"]
    assert imported["flows"] == [["malloc", "release"]] * 2


def test_catapult_counts_random_trees_exactly(tmp_path: Path) -> None:
    capture = random_capture(seed=8)
    path = tmp_path / "trace.json"

    write_chrome(trace_content(capture), path)
    imported = load_with_catapult(path)

    threads = imported["processes"][0]["threads"]
    assert sum(len(thread["slices"]) for thread in threads) == len(capture.ranges)


@both_formats
def test_a_compressed_trace_holds_the_same_bytes_and_loads(write: Writer, tmp_path: Path) -> None:
    content = trace_content(everything())
    plain, packed = tmp_path / "trace", tmp_path / "trace.gz"

    write(content, plain)
    write(content, packed)

    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert load_with_trace_processor(packed).slices == len(everything().ranges) + ABOUT


@both_formats
def test_captures_without_ranges_steps_or_gpu_give_traces_that_load(write: Writer, tmp_path: Path) -> None:
    for number, capture in enumerate((capture_of(), network_capture(recording_of(steps=[])).whole())):
        write(trace_content(capture), tmp_path / f"{number}")
        assert load_with_trace_processor(tmp_path / f"{number}").slices == ABOUT
    trace = KinetoTrace().operator("aten::mm", 10, 20).write(tmp_path / "made.json")
    write(trace_content(opened_trace(trace)), tmp_path / "trace")
    loaded = load_with_trace_processor(tmp_path / "trace", ["select 1 from gpu_slice", FLOWS])
    assert (loaded.slices, loaded.answers) == (1 + ABOUT, [[], []])
