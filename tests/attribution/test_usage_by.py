"""Usage of captures made by hand, one case of docs/attribution.md each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from profkit import _core
from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.attribution.usage import Usage, UsageRow
from profkit.capture.schema import Losses, RangeKind
from profkit.errors import UsageError
from tests.capture.tables import Alloc, Row, capture_of

SPAN, MARK = RangeKind.SPAN, RangeKind.MARK


def row_of(usage: Usage, name: str) -> UsageRow:
    return next(row for row in usage.rows if row.name == name)


def usage(
    rows: Sequence[Row], allocations: Sequence[Alloc] = (), *, subtract_overhead: bool = False, **about: Any
) -> Usage:
    """Of a capture with these rows and allocations, by name."""
    return usage_of(capture_of(rows, allocations, **about), clock=THREADS, subtract_overhead=subtract_overhead)


def test_own_time_is_the_duration_without_direct_children() -> None:
    found = usage([Row("a", 0, 100), Row("b", 10, 40), Row("c", 20, 30), Row("b", 50, 60)], span_ns=(0, 120))

    assert [(row.name, row.calls, row.inclusive_ns, row.exclusive_ns) for row in found.rows] == [
        ("a", 1, 100, 60),
        ("b", 2, 40, 30),
        ("c", 1, 10, 10),
    ]
    assert (found.wall_ns, found.remainder_ns) == (120, 20)


def test_recursion_counts_once_in_inclusive_time_and_memory() -> None:
    rows = [Row("f", 0, 100), Row("f", 10, 90), Row("f", 20, 80), Row("f", 200, 210)]

    (row,) = usage(rows, [Alloc(5, 1), Alloc(30, 10), Alloc(85, 100)]).rows

    assert (row.calls, row.inclusive_ns, row.exclusive_ns) == (4, 110, 110)
    assert (row.alloc_calls, row.alloc_bytes, row.own_alloc_bytes, row.peak_bytes) == (3, 111, 111, 111)
    assert (row.min_ns, row.mean_ns, row.median_ns, row.max_ns) == (10, 62, 60, 100)


def test_threads_with_ranges_are_summed_and_idle_pool_threads_are_not() -> None:
    threads = ["main", "pool", *(f"idle {i}" for i in range(30))]

    found = usage([Row("work", 0, 50, "main"), Row("work", 20, 80, "pool")], threads=threads, span_ns=(0, 100))

    assert found.threads == 2
    assert found.wall_ns == 100 + 60
    assert row_of(found, "work").inclusive_ns == 110
    assert found.remainder_ns == 50


def test_without_any_range_everything_is_remainder_of_the_first_threads() -> None:
    found = usage([], processes=[["main", "pool"], ["child"]], span_ns=(0, 100))

    assert found.rows == ()
    assert (found.wall_ns, found.remainder_ns, found.threads) == (200, 200, 2)


def test_an_empty_capture_has_an_empty_table() -> None:
    capture = dataclasses.replace(capture_of(), processes=())
    for by in ("name", "path", "thread", "category", "domain"):
        usage = usage_of(capture, by, clock=THREADS)

        assert usage.rows == ()
        assert (usage.wall_ns, usage.elapsed_ns) == (0, 0)
        assert usage.total_alloc_bytes is None


def test_spans_have_no_own_time_and_their_overlaps_count_once() -> None:
    rows = [Row("a", 0, 100), Row("s", 10, 60, kind=SPAN), Row("s", 40, 150, kind=SPAN), Row("b", 20, 30)]

    found = usage(rows, [Alloc(25, 7)], span_ns=(0, 200))

    span = row_of(found, "s")
    assert (span.calls, span.span_calls, span.inclusive_ns, span.exclusive_ns) == (2, 2, 140, 0)
    assert (span.alloc_bytes, span.peak_bytes) == (None, None)
    assert row_of(found, "a").exclusive_ns == 90


def test_marks_are_counted_apart() -> None:
    ticks = [Row("tick", at, at, kind=MARK, domain="d") for at in (1, 2, 3)]

    found = usage([Row("a", 0, 10), *ticks, Row("a", 5, 5, kind=MARK)])

    assert [row.name for row in found.rows] == ["a"]
    assert list(found.marks.items()) == [("d:tick", 3), ("a", 1)]


def test_an_open_range_that_outlives_its_threads_last_event_keeps_the_sums_whole() -> None:
    capture = capture_of([Row("left open", 10, 500, "pool", is_open=True)], threads=["main"], span_ns=(0, 500))
    threads = dataclasses.replace(capture.threads, end_ns=np.array([500, 20]))

    found = usage_of(dataclasses.replace(capture, threads=threads), "thread", clock=THREADS)

    (row,) = found.rows
    assert (row.open_calls, row.exclusive_ns, row.wall_ns) == (1, 490, 490)
    assert (found.wall_ns, found.remainder_ns) == (490, 0)


def test_ranges_without_duration_are_counted() -> None:
    found = usage([Row("a", 5, 5), Row("a", 5, 5), Row("b", 5, 5)], span_ns=(5, 5))

    assert {row.name: (row.calls, row.inclusive_ns, row.median_ns) for row in found.rows} == {
        "a": (2, 0, 0),
        "b": (1, 0, 0),
    }
    assert found.wall_ns == 0


def test_a_name_carries_its_domain_and_equal_texts_are_one_row_of_any_script_and_size() -> None:
    names = ["日本語", "", "a\nb", "x" * 100_000, "🦊"]

    (row,) = usage([Row("c", 0, 1, domain="a:b"), Row("b:c", 1, 3, domain="a"), Row("a:b:c", 3, 6)]).rows
    others = usage([Row(name, 10 * i, 10 * i + 5) for i, name in enumerate(names)])

    assert (row.name, row.calls, row.inclusive_ns) == ("a:b:c", 3, 6)
    assert {row.name for row in others.rows} == set(names)


def test_paths_come_as_a_tree_with_the_larger_child_first() -> None:
    rows = [Row("step", 0, 100), Row("small", 0, 10), Row("large", 20, 90), Row("step", 30, 40)]
    rows += [Row("step", 100, 150), Row("large", 100, 120)]

    found = usage_of(capture_of(rows), "path", clock=THREADS)

    assert [(row.path, row.calls, row.inclusive_ns) for row in found.rows] == [
        (("step",), 2, 150),
        (("step", "large"), 2, 90),
        (("step", "large", "step"), 1, 10),
        (("step", "small"), 1, 10),
    ]
    assert found.rows[2].name == "step > large > step"


def test_categories_and_domains_are_rows_and_their_absence_is_one() -> None:
    rows = [Row("a", 0, 10, domain="d", category="k"), Row("b", 2, 4, domain="d", category="k")]
    capture = capture_of([*rows, Row("c", 20, 21), Row("e", 30, 32, domain="d")])
    for by, expected in (("category", {"d:k": 10, "(no category)": 3}), ("domain", {"d": 12, "(no domain)": 1})):
        assert {row.name: row.inclusive_ns for row in usage_of(capture, by, clock=THREADS).rows} == expected


def test_threads_of_one_name_are_told_apart() -> None:
    capture = capture_of([Row("a", 0, 10, "t"), Row("a", 0, 10, "u")], processes=[["main", "t", "u"]])
    threads = dataclasses.replace(capture.threads, name=np.full(3, capture.threads.name[1]))

    names = [row.name for row in usage_of(dataclasses.replace(capture, threads=threads), "thread", clock=THREADS).rows]

    assert names == ["t (1001)", "t (1002)"]


def test_processes_are_named_with_threads_and_can_be_chosen() -> None:
    rows = [Row("a", 0, 10, "main"), Row("b", 0, 30, "child")]
    capture = capture_of(rows, [Alloc(5, 100, thread="child")], processes=[["main"], ["child"]], span_ns=(0, 50))

    everything = usage_of(capture, "thread", clock=THREADS)
    child = usage_of(capture, process=2000, clock=THREADS)
    parent = usage_of(capture, process=1000, clock=THREADS)

    assert [row.name for row in everything.rows] == ["child of process 2000", "main of process 1000"]
    assert everything.wall_ns == 100
    assert [row.name for row in child.rows] == ["b"]
    assert (child.wall_ns, child.remainder_ns, child.total_alloc_bytes) == (50, 20, 100)
    assert (parent.total_alloc_bytes, parent.total_peak_bytes) == (0, 0)


@pytest.mark.parametrize("thread", ["pool", "1001"])
def test_a_thread_is_chosen_by_name_or_number(thread: str) -> None:
    capture = capture_of([Row("a", 0, 10, "main"), Row("b", 5, 30, "pool")], span_ns=(0, 50))

    found = usage_of(capture, thread=thread, clock=THREADS)

    assert [row.name for row in found.rows] == ["b"]
    assert (found.wall_ns, found.remainder_ns) == (25, 0)


def test_filters_that_name_nothing_say_what_there_is() -> None:
    capture = capture_of([Row("a", 0, 10, "main"), Row("b", 5, 30, "pool-1")])

    with pytest.raises(UsageError, match=r"no process 7; processes: 1000"):
        usage_of(capture, process=7, clock=THREADS)
    with pytest.raises(UsageError, match=r"did you mean pool-1\? threads: main, pool-1"):
        usage_of(capture, thread="pool1", clock=THREADS)
    with pytest.raises(UsageError, match="name, path, thread, category, domain"):
        usage_of(capture, "nothing", clock=THREADS)


def test_memory_of_nested_ranges() -> None:
    rows = [Row("outer", 0, 100), Row("inner", 20, 60), Row("later", 70, 80)]
    allocations = [
        Alloc(10, 1000, free_time_ns=90),  # outer, freed in outer
        Alloc(30, 200, free_time_ns=50),  # inner, freed in inner
        Alloc(40, 30, free_time_ns=75),  # inner, freed in later
        Alloc(55, 4),  # inner, never freed
        Alloc(110, 50000),  # no range
    ]

    found = usage(rows, allocations, span_ns=(0, 120))
    inner, outer = row_of(found, "inner"), row_of(found, "outer")
    assert (inner.alloc_bytes, inner.own_alloc_bytes, inner.alloc_calls) == (234, 234, 3)
    assert (inner.live_bytes, inner.peak_bytes, inner.freed_elsewhere_bytes) == (34, 230, 30)
    assert (outer.alloc_bytes, outer.own_alloc_bytes, outer.alloc_calls) == (1234, 1000, 4)
    assert (outer.live_bytes, outer.peak_bytes, outer.freed_elsewhere_bytes) == (4, 1230, 0)
    assert row_of(found, "later").alloc_bytes == 0
    assert (found.total_alloc_bytes, found.unattributed_alloc_bytes, found.total_peak_bytes) == (51234, 50000, 50004)


def test_an_impossible_size_does_not_break_the_sums() -> None:
    found = usage([Row("a", 0, 100)], [Alloc(10, (1 << 64) - 1), Alloc(20, 5), Alloc(110, 7)])

    assert found.rows[0].own_alloc_bytes == (1 << 47) + 5
    assert found.total_alloc_bytes == (1 << 47) + 12


@pytest.mark.parametrize(
    ("rows", "allocations", "expected"),
    [
        # Freed by another thread.
        ([Row("a", 0, 100), Row("b", 0, 100, "pool")], [Alloc(10, 64, 50, "main", "pool")], (64, 0, 64, 64)),
        # A realloc in one nanosecond does not hold both blocks.
        ([Row("a", 0, 100)], [Alloc(10, 1000, 20), Alloc(20, 2000)], (3000, 2000, 2000, 0)),
        # The peak is that of the largest call.
        (
            [Row("a", 0, 10), Row("a", 20, 30)],
            [Alloc(5, 10), Alloc(25, 300, 26), Alloc(27, 200)],
            (510, 210, 300, 0),
        ),
        # A release that was not seen is not said to be elsewhere.
        (
            [Row("a", 0, 10), Row("b", 10, 20)],
            [Alloc(1, 100, 15, is_free_known=False), Alloc(2, 7, 15), Alloc(3, 5, 4)],
            (112, 107, 112, 7),
        ),
    ],
)
def test_bytes_of_a_range_are_allocated_live_at_its_end_at_most_at_once_and_freed_elsewhere(
    rows: list[Row], allocations: list[Alloc], expected: tuple[int, int, int, int]
) -> None:
    row = row_of(usage(rows, allocations), "a")

    assert (row.alloc_bytes, row.live_bytes, row.peak_bytes, row.freed_elsewhere_bytes) == expected


def test_memory_that_was_not_recorded_is_none_and_an_open_door_without_any_is_zero() -> None:
    capture = capture_of([Row("a", 0, 10)], losses=Losses(7, 7, 0, 0, 0))
    process = dataclasses.replace(capture.processes[0], doors=("allocations",))
    with_door = dataclasses.replace(capture, processes=(process,))

    closed, opened = usage_of(capture, clock=THREADS), usage_of(with_door, clock=THREADS)

    assert (closed.total_alloc_bytes, closed.total_peak_bytes, closed.rows[0].alloc_bytes) == (None, None, None)
    assert (opened.total_alloc_bytes, opened.total_peak_bytes, opened.rows[0].alloc_bytes) == (0, 0, 0)
    assert closed.dropped == 7


def test_small_allocations_are_only_counted() -> None:
    capture = capture_of([Row("a", 0, 10)])
    small = {"small_allocations": np.array([5], np.uint64), "small_allocated_bytes": np.array([80], np.uint64)}
    threads = dataclasses.replace(capture.threads, **small)

    found = usage_of(dataclasses.replace(capture, threads=threads), clock=THREADS)

    assert (found.facts["small_alloc_calls"], found.facts["small_alloc_bytes"], found.total_alloc_bytes) == (5, 80, 0)


def test_faults_and_switches_are_summed_where_they_were_recorded() -> None:
    rows = [Row("a", 0, 10, faults=(3, 1, 2, 0)), Row("a", 2, 5, faults=(2, 0, 1, 0)), Row("a", 20, 30)]

    found = usage([*rows, Row("b", 40, 50)])

    a, b = row_of(found, "a"), row_of(found, "b")
    assert (a.minor_faults, a.major_faults, a.voluntary_switches, a.involuntary_switches) == (3, 1, 2, 0)
    assert (b.minor_faults, b.major_faults) == (None, None)


def test_the_cost_of_recording_is_estimated_from_what_is_inside_and_not_without_a_measured_one() -> None:
    rows = [Row("a", 0, 1000), Row("b", 100, 500), Row("c", 200, 300), Row("s", 600, 700, kind=SPAN)]

    found = usage([*rows, Row("d", 1500, 1600)], empty_range_ns=20.4)
    unknown = usage(rows, subtract_overhead=True)

    assert {row.name: row.overhead_ns for row in found.rows} == {"a": 61, "b": 20, "c": 0, "s": 0, "d": 0}
    assert (found.totals["overhead_ns"], unknown.totals["overhead_ns"]) == (102, None)
    assert unknown.rows[0].overhead_ns is None
    assert not found.facts["is_overhead_subtracted"] and not unknown.facts["is_overhead_subtracted"]


def test_subtracting_the_cost_keeps_the_sums_and_stays_at_or_above_zero() -> None:
    rows = [Row("a", 0, 1000), Row("b", 10, 990), *(Row("c", 20 + i, 21 + i) for i in range(0, 40, 2))]
    capture = capture_of(rows, span_ns=(0, 1010), empty_range_ns=50.0)

    found = usage_of(capture, subtract_overhead=True, clock=THREADS)

    assert {row.name: (row.inclusive_ns, row.exclusive_ns) for row in found.rows} == {
        "a": (0, 0),
        "b": (0, 0),
        "c": (20, 20),
    }
    assert found.remainder_ns == 0
    assert sum(row.exclusive_ns for row in found.rows) + found.remainder_ns == found.wall_ns
    assert found.facts["is_overhead_subtracted"]


def test_own_time_bears_the_cost_of_ranges_directly_inside_inclusive_time_of_all() -> None:
    rows = [Row("a", 0, 1000), Row("b", 10, 500), Row("c", 20, 30)]

    found = usage(rows, subtract_overhead=True, empty_range_ns=10.0)

    times = {row.name: (row.inclusive_ns, row.exclusive_ns) for row in found.rows}
    assert times == {"a": (980, 500), "b": (480, 470), "c": (10, 10)}


def test_each_process_has_its_own_cost_of_recording() -> None:
    rows = [Row("a", 0, 1000, "main"), Row("b", 0, 10, "main"), Row("a", 0, 1000, "child"), Row("b", 0, 10, "child")]
    capture = capture_of(rows, processes=[["main"], ["child"]], empty_range_ns=10.0)
    dear = dataclasses.replace(capture.processes[1], empty_range_ns=100.0)

    found = usage_of(dataclasses.replace(capture, processes=(capture.processes[0], dear)), clock=THREADS)

    assert row_of(found, "a").overhead_ns == 110
    assert found.totals["overhead_ns"] == 220


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("parent", [1, -1], "parent of a range does not precede it"),
        ("parent", [-1, 5], "parent of a range does not precede it"),
        ("thread", [0, 3], "no thread"),
        ("kind", [1, 0], "a span or a mark as its parent"),
        ("start_ns", [0], "one entry for each of 2 rows"),
    ],
)
def test_columns_that_contradict_themselves_are_refused(column: str, value: list[int], message: str) -> None:
    columns = {"kind": [0, 0], "is_open": [0, 0], "thread": [0, 0], "parent": [-1, 0], "start_ns": [0, 1]}
    columns |= {"end_ns": [9, 5], column: value}

    with pytest.raises(ValueError, match=message):
        _core.RangeTable(**{name: np.array(values) for name, values in columns.items()}, threads=1)


def test_groups_and_allocations_out_of_bounds_are_refused() -> None:
    one = np.zeros(1, np.int64)
    table = _core.RangeTable(one, one, one, one - 1, one, one + 9, 1)

    with pytest.raises(ValueError, match="group 1 of 1"):
        table.outermost(one + 1, 1)
    with pytest.raises(ValueError, match="range that does not exist"):
        table.memory(one + 1, one, one, one - 1, one - 1, one)
