"""Forked children: the ranges that their parent had open stay the parent's."""

from __future__ import annotations

from pathlib import Path

from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.schema import RangeKind
from tests.capture.builders import EVENTS, CaptureBuilder, rows


def test_a_fork_child_has_no_rows_for_the_ranges_of_its_parent(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).inherit(10, "outer", "inner")
    builder.alloc(13, 0x1000, 100).mark(14, "m").span_begin(15, 1, "span")
    builder.begin(16, "own").begin(17, "inside").alloc(18, 0x2000, 200).end(19).end(20).span_end(21, 1)
    builder.end(22).end(23).begin(24, "after").end(25)

    capture = builder.read(tmp_path)

    outer = [("m", 14, 14, -1), ("span", 15, 21, -1), ("own", 16, 20, -1)]
    assert rows(capture) == [*outer, ("inside", 17, 19, 2), ("after", 24, 25, -1)]
    assert capture.ranges.depth.tolist() == [0, 0, 0, 1, 0]
    assert capture.allocations.range.tolist() == [-1, 3]
    assert not capture.ranges.is_open.any() and capture.warnings == ()


def test_a_fork_child_may_close_its_parents_ranges_in_any_order_and_from_another_thread(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).inherit(10, "outer", "middle", "inner").begin(14, "own").begin(15, "inside")
    builder.end(16, index=1).end(17, index=2).end(18, index=2)
    builder.thread("helper").end_elsewhere(20, opener=0, begin_t=12).thread("child").begin(22, "late").end(23)

    capture = builder.read(tmp_path)

    assert rows(capture) == [("own", 14, 17, -1), ("inside", 15, 18, -1), ("late", 22, 23, -1)]
    assert capture.ranges.kind.tolist() == [RangeKind.SPAN, RangeKind.RANGE, RangeKind.RANGE]


def test_a_fork_child_that_lost_words_still_knows_its_parents_ranges(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).inherit(10, "outer").begin(12, "seen").cut().begin(13, "lost").cut()
    builder.begin(14, "new").end(15).end(16).end(17).end(18)

    capture = builder.read_without(EVENTS, 1, tmp_path)

    assert rows(capture) == [("seen", 12, 17, -1), ("lost", 13, 16, 0), ("new", 14, 15, 1)]


def test_usage_after_an_event_without_a_row_is_nobodys(tmp_path: Path) -> None:
    builder = CaptureBuilder(first_tick=0).inherit(10, "outer").alloc(12, 0x1000, 100).usage(False, 1, 2, 3, 4)
    builder.begin(13, "own").usage(False, 10, 20, 30, 40).usage(True, 11, 22, 33, 44).end(14)
    builder.usage(True, 50, 50, 50, 50).end(15)

    capture = builder.read(tmp_path)

    assert capture.ranges.minor_faults.tolist() == [1] and capture.ranges.involuntary_switches.tolist() == [4]


def test_workers_do_not_multiply_the_calls_and_time_of_the_range_that_started_them(tmp_path: Path) -> None:
    builder = CaptureBuilder().process(10).begin(0, "epoch").end(100)
    for pid in (11, 12):
        builder.process(pid).inherit(20, "epoch").begin(30, "work").end(50)

    usage = usage_of(builder.read(tmp_path), clock=THREADS)

    assert [(row.name, row.calls, row.inclusive_ns) for row in usage.rows] == [("epoch", 1, 100), ("work", 2, 40)]
