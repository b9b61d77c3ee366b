"""What goes into a trace: lanes, ids, counters, arrows and numbers, without any viewer."""

from __future__ import annotations

import io
import json
import math
import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit import _core
from profkit.capture.schema import Calls, Capture, MemoryEvents, RangeKind, Ranges
from profkit.errors import ProfkitError
from profkit.rendering.traces import counters as trace_counters
from profkit.rendering.traces.building import FIRST_FREE_ID
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.content import INSTANT, TraceContent
from profkit.rendering.traces.files import write_chrome, write_perfetto
from profkit.rendering.traces.outline import Outline, outline
from tests.capture.network_captures import op, recording_of
from tests.capture.tables import Alloc, Row, capture_of
from tests.viewers.sample_captures import AWKWARD_NAME, everything

times = st.tuples(st.integers(0, 40), st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def chrome_events(content: TraceContent) -> list[dict[str, Any]]:
    stream = io.BytesIO()
    _core.write_chrome(content, stream.write)
    events: list[dict[str, Any]] = json.loads(stream.getvalue())["traceEvents"]
    return events


def slices_of(content: TraceContent) -> dict[int, list[tuple[int, int]]]:
    """Start and end of the slices of each track."""
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    events = content.events
    for shape, track, start, end in zip(events.shape, events.track, events.start_ns, events.end_ns):
        if shape != INSTANT:
            found[int(track)].append((int(start), int(end)))
    return found


@given(st.lists(st.tuples(times, st.sampled_from([RangeKind.RANGE, RangeKind.SPAN])), max_size=30))
def test_no_track_has_slices_that_overlap_whatever_the_capture_holds(
    given_rows: list[tuple[tuple[int, int], RangeKind]],
) -> None:
    capture = capture_of([Row("r", start, end, kind=kind) for (start, end), kind in given_rows])

    content = trace_content(capture)

    tracks = slices_of(content)
    assert sum(map(len, tracks.values())) == len(given_rows)
    for slices in tracks.values():
        for index, (start, end) in enumerate(slices):
            for later_start, later_end in slices[index + 1 :]:
                assert later_start >= end or (later_start >= start and later_end <= end)


@given(st.lists(times, max_size=30))
def test_spans_take_no_more_lanes_than_overlap_at_once(given_times: list[tuple[int, int]]) -> None:
    capture = capture_of([Row("s", start, end, kind=RangeKind.SPAN) for start, end in given_times])

    content = trace_content(capture)

    starts = [start for start, _ in given_times]
    at_once = [sum(s <= at < e or s == e == at for s, e in given_times) for at in starts]
    assert len(content.tracks) - 1 <= max(at_once, default=0)


def test_lanes_stand_beside_their_thread_under_its_name() -> None:
    capture = capture_of(
        [Row("a", 0, 9, thread="io", kind=RangeKind.SPAN), Row("b", 5, 20, thread="io", kind=RangeKind.SPAN)],
        threads=["main", "io", "last"],
    )

    tracks = trace_content(capture).tracks

    by_rank = [track.name for track in sorted(tracks, key=lambda track: track.rank)]
    assert by_rank == ["main", "io", "io (overlapping 1)", "io (overlapping 2)", "last"]
    assert [tracks[track.thread].name for track in tracks if track.thread >= 0] == ["io", "io"]


def test_a_domain_is_an_argument_of_profkits_own_ranges_and_in_the_name_of_others() -> None:
    """Whoever reads a trace of another profiler again knows its ranges by their whole names."""
    ours = capture_of([Row("load", 0, 9, domain="data")])
    columns = {name: column for name, column in ours.ranges.columns().items() if name != "source"}
    foreign = replace(ours, ranges=Ranges(**columns))

    for capture, name in ((ours, "load"), (foreign, "data:load")):
        (event,) = [event for event in chrome_events(trace_content(capture)) if event["ph"] == "X"]
        assert (event["name"], event["args"]["domain"]) == (name, "data")


def test_calls_of_a_thread_stand_below_its_spans_and_above_the_next_thread() -> None:
    rows = [Row("a", 0, 9, kind=RangeKind.SPAN), Row("b", 5, 20, kind=RangeKind.SPAN), Row("c", 0, 1, thread="next")]
    capture = capture_of(rows)
    call = Calls(thread=np.array([0]), start_ns=np.array([3]), end_ns=np.array([4]), name=np.array([0]))

    tracks = trace_content(replace(capture, calls=call)).tracks

    by_rank = [track.name for track in sorted(tracks, key=lambda track: track.rank)]
    assert by_rank == ["main", "main (overlapping 1)", "main (overlapping 2)", "main (CUDA calls)", "next"]


def test_ids_that_the_system_gave_twice_are_told_apart() -> None:
    capture = capture_of([Row("a", 0, 1, thread="x")], processes=[["main", "x", "y"], ["child"]])
    capture = replace(
        capture,
        processes=tuple(replace(process, pid=1000) for process in capture.processes),
        threads=replace(capture.threads, os_thread_id=np.array([1000, 7, 7, 1000], np.uint64)),
    )

    content = trace_content(capture)

    pids = [process.pid for process in content.processes]
    assert pids == [1000, FIRST_FREE_ID]
    assert [track.tid for track in content.tracks[:2]] == [1000, 7]
    assert len({track.tid for track in content.tracks}) == 4
    assert content.tracks[3].tid == pids[1]  # still the main thread of its process


def test_live_bytes_rise_and_fall_with_the_recorded_allocations() -> None:
    capture = capture_of([], [Alloc(10, 100, 40), Alloc(20, 50), Alloc(30, 7, 35)], span_ns=(5, 50))

    (counter,) = trace_content(capture).counters

    assert counter.time_ns.tolist() == [5, 10, 20, 30, 35, 40]
    assert counter.value.tolist() == [0, 100, 150, 157, 150, 50]


def test_without_recorded_memory_there_is_no_counter_instead_of_one_at_zero() -> None:
    assert trace_content(capture_of([Row("a", 0, 1)])).counters == ()


def test_a_long_counter_is_thinned_and_keeps_its_peak_and_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_counters, "MOST_POINTS", 300)
    values = np.random.default_rng(3).integers(0, 1000, 10_001)
    values[7_777] = 5_000

    times_ns, thinned = trace_counters.thinned(np.arange(10_001), values)

    assert len(times_ns) <= 300
    assert (times_ns[0], times_ns[-1]) == (0, 10_000)
    assert thinned.max() == 5_000
    assert np.array_equal(values[times_ns], thinned)


def test_arrows_join_the_largest_allocations_whose_ends_lie_in_different_slices() -> None:
    capture = capture_of(
        [Row("a", 0, 100), Row("b", 100, 200), Row("inner", 110, 120)],
        [
            Alloc(10, 1_000, 150),  # the smaller of two that qualify
            Alloc(20, 2_000, 115),
            Alloc(30, 9_000, 50),  # in one slice
            Alloc(40, 9_000),  # never released
            Alloc(250, 9_000, 260),  # outside all slices
        ],
    )

    one, all_ = trace_content(capture, flows=1), trace_content(capture, flows=100)

    starts, all_starts = ([event for event in chrome_events(each) if event["ph"] == "s"] for each in (one, all_))
    assert ([event["ts"] for event in starts], len(all_starts)) == ([0.02], 2)
    ends = [event["args"]["bytes"] for event in chrome_events(all_) if event["name"] == "release"]
    assert ends == [2_000, 1_000]


def test_times_are_microseconds_with_three_decimals_exact_beyond_doubles() -> None:
    far = 2**53 + 1
    capture = capture_of([Row("a", 7, 1_007), Row("far", far, far + 1)])
    stream = io.BytesIO()

    _core.write_chrome(trace_content(capture), stream.write)

    text = stream.getvalue().decode()
    assert '"ts":0.007,"dur":1.000' in text
    assert '"ts":9007199254740.993,"dur":0.001' in text


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (-(2**53), -(2**53)),
        (-(2**63), str(-(2**63))),
        (2**64 - 1, str(2**64 - 1)),
        (0.1, 0.1),
        (1e300, 1e300),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_payloads_are_exact_in_json(payload: float, shown: object) -> None:
    content = trace_content(capture_of([Row("a", 0, 1, payload=payload)]))

    assert [event["args"] for event in chrome_events(content) if event["name"] == "a"] == [{"payload": shown}]


def test_every_character_survives_json() -> None:
    name = "".join(map(chr, range(0x300))) + AWKWARD_NAME

    events = chrome_events(trace_content(capture_of([Row(name, 0, 1, domain=name)])))

    assert [event["args"]["domain"] for event in events if event["name"] == name] == [name]


def test_half_a_surrogate_pair_becomes_a_question_mark(tmp_path: Path) -> None:
    capture = capture_of([Row("a\udc80", 0, 1)])

    events = chrome_events(trace_content(capture))
    write_perfetto(trace_content(capture), tmp_path / "t.pftrace")

    assert "a?" in {event["name"] for event in events}
    assert b"a?" in (tmp_path / "t.pftrace").read_bytes()


def test_long_texts_pass_through_buffers_smaller_than_themselves() -> None:
    name = "n" * 3_000_000

    events = chrome_events(trace_content(capture_of([Row(name, 0, 1), Row("after", 2, 3)])))

    assert [event["name"] for event in events][-2:] == [name, "after"]


def _with(column: str, values: list[int]) -> TraceContent:
    content = trace_content(capture_of([Row("a", 0, 5), Row("b", 1, 2)]))
    dtype = getattr(content.events, column).dtype
    return replace(content, events=replace(content.events, **{column: np.array(values, dtype)}))


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("track", [0, 1]),
        ("track", [-1, 0]),
        ("name", [0, 999]),
        ("category", [0, -2]),
        ("start_ns", [1]),
        ("depth", [0, 7]),
    ],
)
@pytest.mark.parametrize("write", [_core.write_chrome, _core.write_perfetto])
def test_columns_that_do_not_fit_together_are_refused(write: Any, column: str, values: list[int]) -> None:
    with pytest.raises(ValueError, match=r"values, not|is not one of"):
        write(_with(column, values), io.BytesIO().write)


def test_rows_out_of_order_are_refused() -> None:
    capture = capture_of([Row("a", 0, 5), Row("b", 7, 9)])
    ranges = replace(capture.ranges, start_ns=capture.ranges.start_ns[::-1])

    with pytest.raises(ValueError, match="row 1 follows one that begins later"):
        trace_content(replace(capture, ranges=ranges))


def test_a_full_disk_is_an_error_with_its_reason() -> None:
    with pytest.raises(ProfkitError, match="could not write /dev/full: No space left"):
        write_chrome(trace_content(everything()), "/dev/full")


def test_a_failure_half_way_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_half_way(_: object, write: Any) -> None:
        write(b"half")
        raise OSError(28, os.strerror(28))

    target = tmp_path / "trace.json.gz"
    target.write_text("old")
    monkeypatch.setattr(_core, "write_chrome", stop_half_way)

    with pytest.raises(ProfkitError, match="No space left"):
        write_chrome(trace_content(everything()), target)

    assert os.listdir(tmp_path) == [target.name]
    assert target.read_text() == "old"


def test_a_writer_that_fails_ends_the_serialiser_with_its_own_error() -> None:
    def refuse(_: memoryview) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _core.write_perfetto(trace_content(everything()), refuse)


def test_a_slice_takes_at_most_41_bytes_in_a_perfetto_trace(tmp_path: Path) -> None:
    count = 20_000
    rows = [Row(f"op {i % 100}", 2_000 * i, 2_000 * i + 1_500, domain="torch") for i in range(count)]
    capture: Capture = capture_of(rows)

    write_perfetto(trace_content(capture), tmp_path / "t.pftrace")

    assert (tmp_path / "t.pftrace").stat().st_size <= 41 * count


def test_memory_taken_again_without_a_release_is_not_counted_twice() -> None:
    columns = {"time_ns": [5, 9], "address": [1, 1], "bytes": [100, 30], "range": [0, 0], "process": [0, 0]}
    events = MemoryEvents(**{name: np.array(values) for name, values in columns.items()}, kind=np.full(2, 1))
    made = replace(recording_of(op("a", 0, 50)), memory_events=events)

    (counter,) = trace_content(made).counters

    assert counter.value.tolist()[-1] == 30
    assert counter.value.max() == 100


def test_without_allocations_the_allocators_own_total_is_shown() -> None:
    made = recording_of(op("a", 0, 50, live_bytes=70), op("b", 50, 60), op("c", 60, 90, live_bytes=20))

    (counter,) = trace_content(replace(made, origin_ns=10)).counters

    assert (counter.process, counter.name) == (0, "allocator's total")
    assert (counter.time_ns.tolist(), counter.value.tolist()) == ([40, 80], [70, 20])
    assert trace_content(recording_of(op("a", 0, 50))).counters == ()


# --- Steps, phases and layers ---


def test_operators_in_a_row_of_one_layer_are_one_slice_and_nested_ones_do_not_count() -> None:
    made = recording_of(
        op("pad", 10, 20, layer="conv1", phase="forward"),
        op("empty", 22, 24, phase="forward"),
        op("conv", 25, 60, layer="conv1", phase="forward"),
        op("relu", 30, 40, layer="elsewhere", phase="backward"),
        op("pool", 70, 90, layer="pool1", phase="forward"),
        steps=[(0, 100)],
    )

    assert outline(made) == [
        Outline("step 0", 0, 0, 100),
        Outline("forward", 1, 10, 90),
        Outline("conv1", 2, 10, 60),
        Outline("pool1", 2, 70, 90),
    ]


def test_layers_that_run_at_the_same_time_do_not_overlap_in_the_outline() -> None:
    made = recording_of(
        op("a", 10, 50, layer="one", phase="forward"),
        op("b", 30, 80, "second", layer="two", phase="forward"),
        steps=[(0, 70)],
    )

    assert outline(made)[2:] == [Outline("one", 2, 10, 30), Outline("two", 2, 30, 70)]


def test_the_same_layer_in_two_steps_is_two_slices() -> None:
    made = recording_of(
        op("a", 10, 50, layer="one", phase="forward"),
        op("a", 110, 150, layer="one", phase="forward"),
        op("late", 300, 310, layer="one", phase="forward"),  # in no step
        steps=[(0, 100), (100, 200)],
    )

    assert [(made.name, made.start_ns) for made in outline(made) if made.depth == 2] == [("one", 10), ("one", 110)]
