"""Random trees: every number equals the slow reference's, and nothing gets lost between rows and totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.attribution.usage import UsageRow
from profkit.capture.schema import Capture
from tests.attribution.random_captures import captures
from tests.attribution.slow_reference import SlowTree, slow_rows

TIMES = ("calls", "inclusive_ns", "exclusive_ns", "min_ns", "mean_ns", "median_ns", "max_ns")
MEMORY = ("alloc_calls", "alloc_bytes", "own_alloc_bytes", "live_bytes", "peak_bytes", "freed_elsewhere_bytes")
KEYS: dict[str, tuple[Callable[[SlowTree, int], Any], Callable[[UsageRow], Any]]] = {
    "name": (lambda tree, row: tree.capture.range_title(row), lambda row: row.name),
    "path": (lambda tree, row: tree.path(row), lambda row: row.path),
    "thread": (
        lambda tree, row: tree.capture.strings[tree.capture.threads.name[tree.thread[row]]],
        lambda row: row.name.partition(" of process ")[0],
    ),
    "category": (
        lambda tree, row: _category(tree.capture, row),
        lambda row: row.name,
    ),
    "domain": (
        lambda tree, row: "d" if tree.capture.ranges.domain[row] >= 0 else "(no domain)",
        lambda row: row.name,
    ),
}


def _category(capture: Capture, row: int) -> str:
    domain, category = capture.ranges.domain[row], capture.ranges.category[row]
    if category < 0:
        return "(no category)"
    return capture.strings[category] if domain < 0 else f"{capture.strings[domain]}:{capture.strings[category]}"


by_key = pytest.mark.parametrize(
    "by", [pytest.param(by, marks=() if by == "path" else pytest.mark.full) for by in sorted(KEYS)]
)


@by_key
@settings(max_examples=60, deadline=None)
@given(capture=captures())
def test_every_number_is_that_of_the_slow_reference(by: str, capture: Capture) -> None:
    slow_key, key = KEYS[by]
    expected = slow_rows(capture, slow_key)

    usage = usage_of(capture, by, clock=THREADS)

    assert {key(row) for row in usage.rows} == set(expected)
    for row in usage.rows:
        slow = expected[key(row)]
        for field in (*TIMES, *MEMORY):
            if field in MEMORY and not (len(capture.allocations) and row.span_calls < row.calls):
                assert getattr(row, field) is None
            else:
                assert getattr(row, field) == slow[field], (by, row.name, field)


@settings(max_examples=60, deadline=None)
@given(capture=captures())
def test_time_adds_up_on_every_single_thread(capture: Capture) -> None:
    tree = SlowTree(capture)
    for index in range(len(capture.threads)):
        name = capture.strings[capture.threads.name[index]]

        usage = usage_of(capture, "name", thread=name, clock=THREADS)

        expected = sum(tree.own_ns(row) for row in tree.rows if tree.thread[row] == index)
        assert sum(row.exclusive_ns for row in usage.rows) == expected
        assert usage.remainder_ns == usage.wall_ns - expected


@settings(max_examples=60, deadline=None)
@given(capture=captures())
def test_the_total_peak_is_the_most_that_was_live_at_once(capture: Capture) -> None:
    made, freed = capture.allocations.time_ns.tolist(), capture.allocations.free_time_ns.tolist()
    sizes = capture.allocations.bytes.tolist()
    highest = 0
    for last, now in enumerate(made):
        live = [sizes[i] for i in range(last) if freed[i] == -1 or freed[i] > now]
        highest = max(highest, sum(live) + sizes[last])

    usage = usage_of(capture, clock=THREADS)

    assert usage.total_peak_bytes == (highest if made else None)
