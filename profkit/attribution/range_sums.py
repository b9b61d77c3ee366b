"""Sums over groups of a program's ranges, on the clock of threads. Hot: a capture may have millions, all is native."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from profkit.attribution.account import ThreadShares
from profkit.attribution.grouping import Groups
from profkit.attribution.memory import RangeMemory, has_memory, range_memory
from profkit.attribution.overhead import Overhead, estimate_overhead
from profkit.attribution.titles import titles
from profkit.attribution.tree import is_mark
from profkit.attribution.usage import MarkCount, Remainder, largest_first
from profkit.capture.schema import Capture, Column

REMAINDER = "(no range open)"


class RangeSums:
    """Of one grouping; columns have one entry per group."""

    def __init__(self, shares: ThreadShares, groups: Groups, by: str, subtract_overhead: bool = False) -> None:
        assert groups.of_range is not None
        self.shares, self.groups, self.by = shares, groups, by
        self._table, self._of_range, self._count = shares.tree.table, groups.of_range, len(groups)
        self._subtracted = self.overhead if subtract_overhead else None

    @cached_property
    def times(self) -> Mapping[str, Column]:
        """Calls, inclusive and own times, shortest to longest call; less the cost of recording if that is asked for."""
        found = self._table.group_times(self.shares.ns[: len(self._of_range)], self._of_range, self._count)
        if self._subtracted:
            for name, cost in (("inclusive_ns", self._subtracted.inside_ns), ("exclusive_ns", self._subtracted.own_ns)):
                found[name] = np.maximum(0, found[name] - cost)
        return found

    def time(self, name: str) -> Column:
        """One of `times`."""
        return self.times[name]

    def threads_wall(self, _: str) -> Column | None:
        """By thread only: from its first to its last known moment."""
        return None if self.groups.threads is None else self.shares.times.wall_ns[list(self.groups.threads)]

    def counter(self, name: str) -> list[int | None] | None:
        """Sum of a counter over the outermost calls for which it was recorded; None where for none."""
        values = self.shares.capture.ranges[name]
        is_recorded = values >= 0 if self.shares.capture.ranges.has(name) else np.zeros(0, np.bool_)
        if not is_recorded.any():
            return None
        chosen = self._is_outermost & is_recorded.view(np.uint8)
        sums = self._table.sum_by_group(values, chosen, self._of_range, self._count)
        counts = self._table.sum_by_group(np.ones(len(values), np.int64), chosen, self._of_range, self._count)
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
        """None where allocations were not recorded."""
        shares = self.shares
        if not has_memory(shares.capture):
            return None
        return range_memory(shares, self._of_range, self._count, self._is_outermost)

    def cost(self, _: str) -> Column | None:
        """What recording the ranges inside cost."""
        return self.overhead.inside_ns if self.overhead else None

    @cached_property
    def overhead(self) -> Overhead | None:
        """What recording cost, estimated; None where it was not measured."""
        return estimate_overhead(self.shares, self._of_range, self._count, self._is_outermost)

    @cached_property
    def _is_outermost(self) -> Column:
        return self._table.outermost(self._of_range, self._count)

    def order(self, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """The largest own time first; paths as a tree."""
        if "path" in columns:
            return _as_tree(columns["path"], columns["inclusive_ns"])
        return largest_first(columns, "exclusive_ns", "inclusive_ns")

    def whole(self) -> dict[str, Any]:
        """What a Usage says besides its rows."""
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
        return {
            "wall_ns": own_ns + rest_ns,
            "elapsed_ns": capture.duration_ns,
            "threads": int(shares.times.is_counted.sum()),
            "dropped": capture.losses.records,
            "remainders": (Remainder(REMAINDER, values),),
            "totals": totals,
            "marks": _count_marks(capture, is_mark(capture) & shares.is_chosen),
            "facts": {
                "small_alloc_calls": memory.small_calls if memory else None,
                "small_alloc_bytes": memory.small_bytes if memory else None,
                "is_overhead_subtracted": self._subtracted is not None,
                "replaced_names": capture.losses.replaced_names,
            },
        }


def _as_tree(paths: Sequence[tuple[str, ...]], inclusive_ns: Sequence[int]) -> list[int]:
    """Children stand below their parent, larger ones first: the key of a row begins with that of its parent."""
    rank: dict[tuple[str, ...], tuple[tuple[int, str], ...]] = {}
    for row in sorted(range(len(paths)), key=lambda row: len(paths[row])):
        path = paths[row]
        rank[path] = (*rank.get(path[:-1], ()), (-inclusive_ns[row], path[-1]))
    return sorted(range(len(paths)), key=lambda row: rank[paths[row]])


def _count_marks(capture: Capture, marks: Column) -> tuple[MarkCount, ...]:
    if not marks.any():
        return ()
    of_row, names = titles(capture, marks)
    counts = np.bincount(of_row[marks], minlength=len(names)).tolist()
    found = [MarkCount(name, count) for name, count in zip(names, counts)]
    return tuple(sorted(found, key=lambda mark: (-mark.count, mark.name)))
