"""Every kind of record, written by hand and read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.schema import PayloadType, RangeKind, Source
from profkit.rendering.sql.captures import open_database
from tests.capture.builders import CaptureBuilder, memory, rows, word
from tests.capture.tables import payload_values


def test_labels_bring_domain_category_colour_and_source(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "näme", domain="dömain", category="cat", colour=0xFF00FF00, source=Source.ITT)
    builder.mark(2, "plain", source=Source.PROFKIT).end(3)

    capture = builder.read(tmp_path)

    r = capture.ranges
    assert [capture.range_title(0), capture.range_title(1)] == ["dömain:näme", "plain"]
    assert capture.strings[r.category[0]] == "cat"
    assert r.category[1] == -1
    assert r.colour.tolist() == [0xFF00FF00, 0]
    assert r.source.tolist() == [Source.ITT, Source.PROFKIT]


@pytest.mark.parametrize(
    ("payload_type", "bits", "value"),
    [
        (PayloadType.INT64, 2**64 - 5, -5),
        (PayloadType.UINT64, 2**64 - 5, 2**64 - 5),
        (PayloadType.FLOAT64, 0x4004000000000000, 2.5),
        (PayloadType.INT32, 0xFFFFFFFE, -2),
        (PayloadType.UINT32, 0xFFFFFFFE, 0xFFFFFFFE),
        (PayloadType.FLOAT32, 0x3FC00000, 1.5),
        (PayloadType.OPAQUE, 64, None),
    ],
)
def test_payloads_of_every_type_arrive(tmp_path: Path, payload_type: PayloadType, bits: int, value: Any) -> None:
    builder = CaptureBuilder().begin(1, "a").words(word("payload", payload_type), bits).mark(2, "m")

    capture = builder.mark(3, "n", payload=3).span_begin(3, 99, "s", payload=4.5).end(5).span_end(9, 99).read(tmp_path)

    types = [payload_type, PayloadType.NONE, PayloadType.INT64, PayloadType.FLOAT64]
    assert payload_values(capture.ranges) == [value, None, 3, 4.5]
    assert capture.ranges.payload_type.tolist() == types


RANGE, SPAN, MARK = RangeKind.RANGE, RangeKind.SPAN, RangeKind.MARK


@pytest.mark.parametrize(
    ("builder", "expected", "columns"),
    [
        pytest.param(
            CaptureBuilder().begin(1, "wide", wide=True).end(2),
            [("wide", 1, 2, -1)],
            {},
            id="a label above 65535 comes in a word of its own",
        ),
        pytest.param(
            CaptureBuilder().begin(1, "a").mark(2, "m").span_begin(3, 99, "s").end(5).span_end(9, 99),
            [("a", 1, 5, -1), ("m", 2, 2, 0), ("s", 3, 9, 0)],
            {"kind": [RANGE, MARK, SPAN]},
            id="marks and spans know the range in which they began",
        ),
        pytest.param(
            CaptureBuilder().thread("one").span_begin(3, 5, "s").thread("two").span_end(8, 5),
            [("s", 3, 8, -1)],
            {"thread": [0], "end_thread": [1]},
            id="a span may end on another thread",
        ),
        pytest.param(
            CaptureBuilder().begin(1, "a").begin(2, "b").begin(3, "c").begin(4, "early").end(5).end(6, 1).end(8).end(9),
            [("a", 1, 9, -1), ("b", 2, 6, 0), ("c", 3, 8, 0), ("early", 4, 5, 2)],
            {"kind": [RANGE, SPAN, RANGE, RANGE], "depth": [0, 1, 1, 2]},
            id="a range closed out of order becomes a span and its children move up",
        ),
        pytest.param(
            CaptureBuilder().thread("one").begin(1, "a").begin(2, "b").begin(3, "c").end(4)
            .thread("two").end_elsewhere(7, opener=0, begin_t=2)
            .thread("one").begin(8, "d").end(9).end(10, index=0).mark(11, "m"),
            [("a", 1, 10, -1), ("b", 2, 7, 0), ("c", 3, 4, 0), ("d", 8, 9, 0), ("m", 11, 11, -1)],
            {"kind": [RANGE, SPAN, RANGE, RANGE, MARK], "end_thread": [0, 1, 0, 0, 0], "is_open": [False] * 5},
            id="a range closed by another thread becomes a span that ends there",
        ),
        pytest.param(
            CaptureBuilder().thread("two").end_elsewhere(4, opener=1, begin_t=5)
            .thread("one").begin(5, "a").begin(8, "b").end(9).end(10, index=0),
            [("a", 5, 5, -1), ("b", 8, 9, -1)],
            {"kind": [SPAN, RANGE], "end_thread": [0, 1]},
            id="a core whose clock is behind may end a range before it began",
        ),
        pytest.param(
            CaptureBuilder().begin(1, "a").begin(2, "b").end(3).thread("two").mark(50, "late"),
            [("a", 1, 50, -1), ("b", 2, 3, 0), ("late", 50, 50, -1)],
            {"is_open": [True, False, False]},
            id="a range left open ends with the process",
        ),
    ],
)  # fmt: skip
def test_ranges_spans_and_marks_are_read(
    builder: CaptureBuilder, expected: list[tuple[str, int, int, int]], columns: dict[str, list[int]], tmp_path: Path
) -> None:
    capture = builder.read(tmp_path)

    assert rows(capture) == expected
    assert {name: capture.ranges[name].tolist() for name in columns} == columns


def test_allocations_in_a_range_that_became_a_span_belong_to_the_range_around_it(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "a").begin(2, "b").begin(3, "c").alloc(4, 4096, 10)
    outer = CaptureBuilder().begin(1, "a").begin(2, "b").alloc(3, 4096, 10).begin(4, "c").end(5, index=1).end(6).end(7)

    inner = builder.begin(4, "early").end(5).end(6, index=1).alloc(7, 8192, 20).end(8).end(9).read(tmp_path)

    assert inner.allocations.range.tolist() == [2, 2]
    assert outer.read(tmp_path).allocations.range.tolist() == [0]


def test_ranges_left_open_by_a_thread_that_ended_end_with_the_thread(tmp_path: Path) -> None:
    builder = CaptureBuilder().thread("main").mark(50, "late")
    builder.thread("short").begin(1, "a").mark(4, "m").thread_ends(small=7, small_bytes=700, unbalanced=2)

    capture = builder.read(tmp_path)

    assert rows(capture)[1] == ("a", 1, 4, -1)
    assert capture.ranges.is_open.tolist() == [False, True, False]
    t = capture.threads
    assert (t.small_allocations[1], t.small_allocated_bytes[1], t.unbalanced_pops[1]) == (7, 700, 2)
    assert (t.start_ns.tolist(), t.end_ns.tolist()) == ([0, 1], [50, 4])


def test_usage_is_the_difference_of_counts_modulo_2_to_32(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "a").usage(False, 2**32 - 1, 5, 7, 9).payload(8).begin(2, "b").end(3)

    capture = builder.usage(True, 1, 5, 10, 9).end(4).read(tmp_path)

    r = capture.ranges
    counts = [r.minor_faults, r.major_faults, r.voluntary_switches, r.involuntary_switches]
    assert [int(column[0]) for column in counts] == [2, 0, 3, 0]
    assert [int(column[1]) for column in counts] == [-1] * 4
    assert payload_values(r) == [8, None]


def test_memory_samples_arrive(tmp_path: Path) -> None:
    builder = CaptureBuilder().begin(1, "a").end(30).sample(10, 4096).sample(20, 8192)

    capture = builder.read(tmp_path)

    assert capture.samples.time_ns.tolist() == [10, 20]
    assert capture.samples.resident_bytes.tolist() == [4096, 8192]


def test_processes_share_one_clock_and_keep_their_own_names_and_addresses(tmp_path: Path) -> None:
    builder = CaptureBuilder().process(100).begin(1, "first").alloc(2, 0x1000, 10).end(3)
    builder.process(200, has_ended=False, parent_pid=100).begin(2, "second").alloc(3, 0x1000, 20).end(9)

    capture = builder.read(tmp_path)

    assert rows(capture) == [("first", 1, 3, -1), ("second", 2, 9, -1)]
    assert memory(capture) == [(0x1000, 10, 2, -1), (0x1000, 20, 3, -1)]
    assert [(p.pid, p.parent_pid, p.has_ended) for p in capture.processes] == [(100, 1, True), (200, 100, False)]
    assert capture.threads.process.tolist() == [0, 1]
    assert capture.warnings == (
        "process 200 did not end normally: killed, crashed or still running; its last moments may be missing",
    )


def test_counters_of_the_header_become_losses(tmp_path: Path) -> None:
    builder = CaptureBuilder(counters=[60, 10, 20, 30, 12345]).begin(1, "a").end(2).dropped(3, 44)

    capture = builder.read(tmp_path)

    losses = capture.losses
    assert (losses.records, losses.disk_full, losses.too_slow, losses.too_deep) == (60, 10, 20, 30)
    assert losses.stalled_ns == 12345
    assert capture.threads.dropped.tolist() == [44]


def test_a_capture_without_blocks_is_empty_and_no_error(tmp_path: Path) -> None:
    capture = CaptureBuilder().read(tmp_path)

    assert (len(capture.ranges), len(capture.threads), capture.processes) == (0, 0, ())
    assert capture.duration_ns == 0


def test_replaced_names_are_told_in_a_warning_and_counted_in_the_table_and_in_sql(tmp_path: Path) -> None:
    builder = CaptureBuilder(counters=[0, 0, 0, 0, 0, 1, 1, 37_857]).begin(1, "(too many names)").end(2)

    capture = builder.read(tmp_path)

    assert capture.losses.replaced_names == usage_of(capture, clock=THREADS).facts["replaced_names"] == 37_857
    assert len(capture.warnings) == 1
    assert capture.warnings[0].startswith('37,857 times a name was recorded as "(too many names)"')
    pytest.importorskip("duckdb", reason="DuckDB is not installed: no SQL")
    assert open_database(capture).execute("select replaced_names from capture").fetchall() == [(37_857,)]
