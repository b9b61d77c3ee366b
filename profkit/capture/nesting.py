"""Ranges inside ranges: intervals of threads in, each one's parent and the innermost one open at a moment out."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profkit.capture.schema import NONE, Column, RangeKind, Ranges


def time_order(start_ns: Column, end_ns: Column) -> Column:
    """Rows by start; of those that start together the longest first, so that a parent precedes its children."""
    return np.lexsort((-np.asarray(end_ns, np.int64), start_ns))


def thread_order(thread: Column, start_ns: Column, end_ns: Column) -> Column:
    """The same within each thread, one thread after another: the order of a capture's ranges."""
    return np.lexsort((-np.asarray(end_ns, np.int64), start_ns, thread))


def interval_at(start_ns: Column, end_ns: Column, moments: Column) -> Column:
    """Of intervals in order that do not overlap, the one that holds each moment; NONE where none does."""
    place = np.searchsorted(start_ns, moments, "right") - 1
    ends = np.append(end_ns, np.iinfo(np.int64).min)  # the last is for NONE
    return np.where(moments < ends[place], place, NONE)


def depths_of(parent: Column) -> Column:
    """The number of ancestors of each row; parents precede their children."""
    depths: list[int] = []
    for above in parent.tolist():
        depths.append(0 if above == NONE else depths[above] + 1)
    return np.array(depths, np.int32)


def parents_of(thread: Column, start_ns: Column, end_ns: Column) -> Column:
    """The row of the innermost range of the same thread that is open when each one begins; rows by start."""
    parents = np.full(len(start_ns), NONE, np.int32)
    stacks: dict[int, list[int]] = {}
    ends = end_ns.tolist()
    for row, (where, start) in enumerate(zip(thread.tolist(), start_ns.tolist())):
        stack = stacks.setdefault(where, [])
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        if stack:
            parents[row] = stack[-1]
        stack.append(row)
    return parents


def climbed(rows: Column, parent: Column, goes_on: Callable[[Column], Column]) -> Column:
    """Each row, replaced by its parent for as long as `goes_on` is true of it; NONE where no parent is left.

    `goes_on` gets all rows, NONE among them: its answer for NONE is ignored.
    """
    found: Column = rows.copy()
    for _ in range(len(parent) + 1):  # ends at the depth of the nesting; a circle of parents is cut off
        climbs = (found != NONE) & goes_on(found)
        if not climbs.any():
            break
        found[climbs] = parent[found[climbs]]
    return found


def rows_by_thread(ranges: Ranges) -> dict[int, Column]:
    """The rows of each thread's tree in their order: ranges, neither spans nor marks."""
    rows = np.flatnonzero(ranges.kind == np.uint8(RangeKind.RANGE))
    threads, begins = np.unique(ranges.thread[rows], return_index=True)
    return dict(zip(threads.tolist(), np.split(rows, begins[1:])))


class OpenRanges:
    """Answers which range was the innermost one of a thread at a moment; spans and marks do not count."""

    def __init__(self, ranges: Ranges) -> None:
        self._end_ns = ranges.end_ns
        self._start_ns = ranges.start_ns
        self._parent = ranges.parent
        self._rows = rows_by_thread(ranges)

    def at(self, thread: Column, time_ns: Column, slack_ns: int = 0) -> Column:
        """The row of the innermost range at each time; NONE where none is open.

        A source that cuts off fractions of microseconds makes ranges seem to end before what they hold: where no
        range is open, one that ended less than `slack_ns` ago counts.
        """
        found = np.full(len(time_ns), NONE, np.int32)
        order = np.argsort(thread, kind="stable")
        threads, begins = np.unique(thread[order], return_index=True)
        for where, wanted in zip(threads.tolist(), np.split(order, begins[1:])):
            rows = self._rows.get(where)
            if rows is None:
                continue
            times = time_ns[wanted]
            before = np.searchsorted(self._start_ns[rows], times, "right") - 1
            last = np.where(before >= 0, rows[np.maximum(before, 0)], NONE)
            inside = self._innermost(last, times)
            if slack_ns:
                inside = np.where(inside == NONE, self._innermost(last, times - slack_ns), inside)
            found[wanted] = inside
        return found

    def _innermost(self, rows: Column, times: Column) -> Column:
        return climbed(rows, self._parent, lambda row: self._end_ns[row] <= times)
