"""Sums over groups of a program's ranges, on the clock of threads. Hot: a capture may have millions, all is native."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from profkit.attribution.account import ThreadShares
from profkit.attribution.grouping import Groups
from profkit.attribution.titles import titles
from profkit.attribution.tree import is_mark
from profkit.attribution.usage import Remainder, largest_first
from profkit.capture.schema import NONE, Capture, Column

REMAINDER = "(no range open)"
ALLOCATIONS_DOOR = "allocations"
MOST_BYTES = 1 << 47
"""More than a process can address: a size above it is damage, and must not make sums overflow."""


@dataclass(frozen=True)
class RangeMemory:
    """Columns per group, and totals over the chosen threads."""

    columns: Mapping[str, Column]
    total_calls: int
    total_bytes: int
    unattributed_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class Overhead:
    """What recording itself cost, estimated: the number of ranges inside times an empty range. Nanoseconds.

    The whole cost of a range is put into what encloses it: part of it is between the range's own two readings of the
    clock, but how much is not known.
    """

    inside_ns: Column  # of the ranges and spans at any depth inside: part of the inclusive time
    own_ns: Column  # of those directly inside: part of the own time
    outside_ns: int  # of those in no range: part of the remainder
    total_ns: int


class RangeSums:
    """Of one grouping; columns have one entry per group."""

    def __init__(self, shares: ThreadShares, groups: Groups, by: str, subtract_overhead: bool = False) -> None:
        assert groups.of_range is not None
        self.shares, self.groups, self.by = shares, groups, by
        self._table, self._of_range, self._count = shares.tree.table, groups.of_range, len(groups)
        self._subtracted = self.overhead if subtract_overhead else None

    @cached_property
    def times(self) -> Mapping[str, Column]:
        """Calls, inclusive and own times, shortest to longest call; less the cost of recording if that is requested."""
        found = self._table.group_times(self.shares.ns[: len(self._of_range)], self._of_range, self._count)
        if self._subtracted:
            for name, cost in (("inclusive_ns", self._subtracted.inside_ns), ("exclusive_ns", self._subtracted.own_ns)):
                found[name] = np.maximum(0, found[name] - cost)
        return found

    def time(self, name: str) -> Column:
        return self.times[name]

    def threads_wall(self, _: str) -> Column | None:
        """By thread only: from its first to its last known moment."""
        return None if self.groups.threads is None else self.shares.thread_ns[list(self.groups.threads)]

    def counter(self, name: str) -> list[int | None] | None:
        """Sum of a counter over the outermost calls for which it was recorded; None where for none."""
        values = self.shares.capture.ranges[name]
        is_recorded = values >= 0 if self.shares.capture.ranges.has(name) else np.zeros(0, np.bool_)
        if not is_recorded.any():
            return None
        chosen = self._is_outermost & is_recorded.view(np.uint8)
        sums, counts = self._sums(values, chosen), self._sums(np.ones(len(values), np.int64), chosen)
        return [total if count else None for total, count in zip(sums.tolist(), counts.tolist())]

    def bytes(self, name: str) -> list[int | None] | None:
        """A column of the memory of ranges. Allocations belong to ranges of the tree: of spans nothing was recorded."""
        if self.memory is None:
            return None
        column = self.memory.columns[name]
        is_span = (self.times["span_calls"] == self.times["calls"]) & (self.memory.columns["alloc_calls"] == 0)
        return [None if span else value for span, value in zip(is_span.tolist(), column.tolist())]

    @cached_property
    def memory(self) -> RangeMemory | None:
        """None where allocations were not recorded.

        Bytes with nesting are summed over the outermost ranges of a group only, so that recursion counts once; a peak
        is the largest of any call.
        """
        capture, allocations = self.shares.capture, self.shares.capture.allocations
        if not _has_memory(capture):
            return None
        columns = [
            allocations.range,
            allocations.time_ns,
            np.minimum(allocations.bytes, np.uint64(MOST_BYTES)),
            allocations.free_time_ns,
            # Who freed it may not be known: that must not count as "elsewhere".
            np.where(allocations.free_thread == NONE, allocations.range, allocations.free_range),
            allocations.is_part,
        ]
        is_chosen = self.shares.is_thread_chosen[allocations.thread]
        if not is_chosen.all():
            columns = [column[is_chosen] for column in columns]
        memory = self._table.memory(*columns)
        sources = {"alloc_calls": "calls", "alloc_bytes": "bytes"}
        names = ("alloc_calls", "alloc_bytes", "live_bytes", "freed_elsewhere_bytes")
        summed = {name: self._sums(memory[sources.get(name, name)], self._is_outermost) for name in names}
        own = self._sums(memory["own_bytes"], np.ones(len(capture.ranges), np.uint8))
        peak = self._table.max_by_group(memory["peak_bytes"], self._of_range, self._count)
        ranges, sizes, is_part = columns[0], columns[2], columns[5]
        return RangeMemory(
            columns={**summed, "own_alloc_bytes": own, "peak_bytes": peak},
            total_calls=int(np.count_nonzero(~is_part)),
            total_bytes=int(sizes.sum()),
            unattributed_bytes=int(sizes[ranges < 0].sum()),
            peak_bytes=memory["total_peak_bytes"],
        )

    def cost(self, _: str) -> Column | None:
        return self.overhead.inside_ns if self.overhead else None

    @cached_property
    def overhead(self) -> Overhead | None:
        """None when no process measured an empty range."""
        capture, tree, is_shown = self.shares.capture, self.shares.tree, self.shares.is_shown
        if not any(process.empty_range_ns > 0 for process in capture.processes):
            return None
        direct, at_any_depth = tree.table.counts_inside()
        is_top = is_shown & (capture.ranges.parent < 0)
        owner = capture.threads.process[capture.ranges.thread]
        inside, own = np.zeros(self._count), np.zeros(self._count)
        outside = total = 0.0
        for index, process in enumerate(capture.processes):
            rows, cost = owner == index, process.empty_range_ns
            chosen = self._is_outermost & rows.view(np.uint8)
            inside += cost * self._sums(at_any_depth, chosen)
            own += cost * self._sums(direct, rows)
            outside += cost * int((is_top & rows).sum())
            total += cost * int((is_shown & rows).sum())
        return Overhead(np.rint(inside).astype(np.int64), np.rint(own).astype(np.int64), round(outside), round(total))

    def _sums(self, values: Column, chosen: Column) -> Column:
        """Of these rows of ranges, by group."""
        return self._table.sum_by_group(values, chosen, self._of_range, self._count)

    @cached_property
    def _is_outermost(self) -> Column:
        return self._table.outermost(self._of_range, self._count)

    def order(self, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """The largest own time first; paths as a tree."""
        if "path" in columns:
            return _as_tree(columns["path"], columns["inclusive_ns"])
        return largest_first(columns, "exclusive_ns", "inclusive_ns")

    def whole(self) -> dict[str, Any]:
        """The fields of a Usage other than its rows."""
        shares, capture, memory, cost = self.shares, self.shares.capture, self.memory, self.overhead
        own_ns = int(self.times["exclusive_ns"].sum())
        rest_ns = int(shares.ns[len(self._of_range) :].sum())
        if self._subtracted:
            rest_ns = max(0, rest_ns - self._subtracted.outside_ns)
        values: dict[str, Any] = {"inclusive_ns": rest_ns, "exclusive_ns": rest_ns}
        totals: dict[str, Any] = {"overhead_ns": cost.total_ns if cost else None, "peak_bytes": None}
        if memory:
            values |= {"alloc_bytes": memory.unattributed_bytes, "own_alloc_bytes": memory.unattributed_bytes}
            totals |= {"alloc_calls": memory.total_calls, "peak_bytes": memory.peak_bytes}
            totals |= dict.fromkeys(("alloc_bytes", "own_alloc_bytes"), memory.total_bytes)
        counted, sizes = capture.threads.small_allocations, capture.threads.small_allocated_bytes
        small = [int(column[shares.is_thread_chosen].sum()) for column in (counted, sizes)]
        return {
            "wall_ns": own_ns + rest_ns,
            "elapsed_ns": capture.duration_ns,
            "threads": int(shares.is_counted.sum()),
            "dropped": capture.losses.records,
            "remainders": (Remainder(REMAINDER, values),),
            "totals": totals,
            "marks": _count_marks(capture, is_mark(capture) & shares.is_chosen),
            "facts": {
                "small_alloc_calls": small[0] if memory else None,
                "small_alloc_bytes": small[1] if memory else None,
                "is_overhead_subtracted": self._subtracted is not None,
                "replaced_names": capture.losses.replaced_names,
            },
        }


def _has_memory(capture: Capture) -> bool:
    """Whether allocations were recorded at all: without the door, a 0 would be a guess."""
    return (
        len(capture.allocations) > 0
        or bool(capture.threads.small_allocations.any())
        or any(ALLOCATIONS_DOOR in process.doors for process in capture.processes)
    )


def _as_tree(paths: Sequence[tuple[str, ...]], inclusive_ns: Sequence[int]) -> list[int]:
    """Children follow their parent, larger ones first: the key of a row begins with that of its parent."""
    rank: dict[tuple[str, ...], tuple[tuple[int, str], ...]] = {}
    for row in sorted(range(len(paths)), key=lambda row: len(paths[row])):
        path = paths[row]
        rank[path] = (*rank.get(path[:-1], ()), (-inclusive_ns[row], path[-1]))
    return sorted(range(len(paths)), key=lambda row: rank[paths[row]])


def _count_marks(capture: Capture, marks: Column) -> dict[str, int]:
    if not marks.any():
        return {}
    of_row, names = titles(capture, marks)
    counts = np.bincount(of_row[marks], minlength=len(names)).tolist()
    return dict(sorted(zip(names, counts), key=lambda mark: (-mark[1], mark[0])))
