"""Attribution the slow and obvious way: every definition of docs/attribution.md as a loop over plain numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from profkit.capture.schema import NONE, Capture, RangeKind

SlowRow = Counter[str]
"""What usage_by says of one group, by metric."""


class SlowTree:
    """Ranges and allocations of a capture as lists."""

    def __init__(self, capture: Capture) -> None:
        ranges = capture.ranges
        self.capture = capture
        self.kind: list[int] = ranges.kind.tolist()
        self.parent: list[int] = ranges.parent.tolist()
        self.thread: list[int] = ranges.thread.tolist()
        self.start: list[int] = ranges.start_ns.tolist()
        self.end: list[int] = ranges.end_ns.tolist()
        self.rows = [row for row, kind in enumerate(self.kind) if kind != RangeKind.MARK]
        allocations = capture.allocations
        self.allocations = list(
            zip(
                allocations.range.tolist(),
                allocations.time_ns.tolist(),
                allocations.bytes.tolist(),
                allocations.free_time_ns.tolist(),
                allocations.free_range.tolist(),
            )
        )
        self.is_part: list[bool] = allocations.is_part.tolist()
        self.is_free_known: list[bool] = (allocations.free_thread != NONE).tolist()

    def ancestors(self, row: int) -> list[int]:
        """The row itself and all ranges around it."""
        found = []
        while row >= 0:
            found.append(row)
            row = self.parent[row]
        return found

    def own_ns(self, row: int) -> int:
        """Duration without the direct children of kind RANGE."""
        if self.kind[row] != RangeKind.RANGE:
            return 0
        children = [other for other in self.rows if self.parent[other] == row and self.kind[other] == RangeKind.RANGE]
        return self.end[row] - self.start[row] - sum(self.end[child] - self.start[child] for child in children)

    def path(self, row: int) -> tuple[str, ...]:
        """Titles from the outermost range to this one."""
        return tuple(self.capture.range_title(each) for each in reversed(self.ancestors(row)))

    def peak(self, row: int) -> int:
        """Most bytes live at once, in the range, of what it and the ranges inside it allocated."""
        mine = [each for each in self.allocations if row in self.ancestors(each[0])]
        highest = 0
        for moment in range(len(mine)):
            now = mine[moment][1]
            # What was allocated before and freed in this nanosecond is gone.
            live = [size for _, _, size, freed, _ in mine[:moment] if freed == -1 or freed > now]
            highest = max(highest, sum(live) + mine[moment][2])
        return highest


def slow_rows(capture: Capture, key: Callable[[SlowTree, int], Any]) -> dict[Any, SlowRow]:
    """One row per key."""
    tree = SlowTree(capture)
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in tree.rows:
        groups[key(tree, row)].append(row)
    return {name: _row(tree, rows) for name, rows in groups.items()}


def covered(intervals: list[tuple[int, int]]) -> int:
    """Length of the union, nanosecond by nanosecond: only for short times."""
    return len({moment for start, end in intervals for moment in range(start, end)})


def _row(tree: SlowTree, rows: list[int]) -> SlowRow:
    durations = sorted(tree.end[row] - tree.start[row] for row in rows)
    result = Counter(
        calls=len(rows),
        exclusive_ns=sum(tree.own_ns(row) for row in rows),
        min_ns=durations[0],
        mean_ns=sum(durations) // len(durations),
        median_ns=durations[(len(durations) - 1) // 2],
        max_ns=durations[-1],
    )
    for thread in {tree.thread[row] for row in rows}:
        result["inclusive_ns"] += covered([(tree.start[r], tree.end[r]) for r in rows if tree.thread[r] == thread])
    members = set(rows)
    for row in rows:
        result["peak_bytes"] = max(result["peak_bytes"], tree.peak(row))
        is_outermost = not members.intersection(tree.ancestors(row)[1:])
        for number, (holder, _, size, freed, free_range) in enumerate(tree.allocations):
            if holder == row:
                result["own_alloc_bytes"] += size
            if not is_outermost or row not in tree.ancestors(holder):
                continue
            result["alloc_calls"] += not tree.is_part[number]
            result["alloc_bytes"] += size
            if freed == -1 or freed > tree.end[row]:
                result["live_bytes"] += size
            if freed != -1 and tree.is_free_known[number] and row not in tree.ancestors(free_range):
                result["freed_elsewhere_bytes"] += size
    return result
