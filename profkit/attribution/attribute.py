"""The one entry of attribution: a capture in, a table of usage out. Nothing is printed, nothing is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from profkit.attribution.grouping import GROUPINGS, RangeGroups, group_ranges, titles
from profkit.attribution.memory import MemoryTotals, group_memory, has_memory
from profkit.attribution.overhead import Overhead, estimate_overhead
from profkit.attribution.selection import choose_threads
from profkit.attribution.tree import Tree, is_mark, tree_of
from profkit.attribution.usage import MarkCount, Usage, UsageRows
from profkit.attribution.wall import ThreadTime, thread_time
from profkit.capture.schema import RANGE_COUNTERS, Capture, Column
from profkit.errors import UsageError

_OF_THE_TREE_ONLY = (
    "alloc_calls",
    "alloc_bytes",
    "own_alloc_bytes",
    "live_bytes",
    "peak_bytes",
    "freed_elsewhere_bytes",
)


def usage_by(
    capture: Capture,
    by: str = "name",
    process: int | None = None,
    thread: str | None = None,
    subtract_overhead: bool = False,
) -> Usage:
    """Time and memory by `name`, `path`, `thread`, `category` or `domain`.

    `process` (a pid) and `thread` (a name or an operating system's thread id) leave the other threads out of
    everything, totals included. Rows come in order of their own time, the largest first; paths come as a tree.
    """
    if by not in GROUPINGS:
        raise UsageError(f"a table can be by {', '.join(GROUPINGS)}, not by {by!r}")
    is_thread_chosen = choose_threads(capture, process, thread)
    is_row_chosen = is_thread_chosen[capture.ranges.thread]
    marks = is_mark(capture)
    tree = tree_of(capture)
    groups = group_ranges(capture, tree, by, is_row_chosen & ~marks)
    is_outermost = tree.table.outermost(groups.of_row, len(groups))
    times = thread_time(capture, is_thread_chosen)

    columns: dict[str, list[Any]] = {
        name: column.tolist()
        for name, column in tree.table.group_times(tree.own_ns, groups.of_row, len(groups)).items()
    }
    totals = None
    if has_memory(capture):
        memory, totals = group_memory(capture, tree, groups, is_outermost, is_thread_chosen)
        columns |= memory
    columns |= _counters(capture, tree, groups, is_outermost)
    overhead = estimate_overhead(capture, tree, groups, is_outermost, is_row_chosen & ~marks)
    if overhead:
        columns["overhead_ns"] = overhead.inside_ns

    wall_ns = int(times.wall_ns[times.is_counted].sum())
    remainder_ns = wall_ns - sum(columns["exclusive_ns"])
    if overhead and subtract_overhead:
        remainder_ns = _subtract(columns, overhead, remainder_ns)
        wall_ns = sum(columns["exclusive_ns"]) + remainder_ns
    return Usage(
        by=by,
        wall_ns=wall_ns,
        remainder_ns=remainder_ns,
        elapsed_ns=capture.duration_ns,
        threads=int(times.is_counted.sum()),
        dropped=capture.losses.records,
        rows=_rows(groups, columns, times),
        marks=_count_marks(capture, marks & is_row_chosen),
        overhead_ns=overhead.total_ns if overhead else None,
        is_overhead_subtracted=bool(overhead and subtract_overhead),
        replaced_names=capture.losses.replaced_names,
        **_memory_totals(totals),
    )


def _subtract(columns: dict[str, list[Any]], overhead: Overhead, remainder_ns: int) -> int:
    """Take the estimated cost out of the columns, nothing below 0; gives the new remainder."""
    columns["inclusive_ns"] = _lowered(columns["inclusive_ns"], overhead.inside_ns)
    columns["exclusive_ns"] = _lowered(columns["exclusive_ns"], overhead.own_ns)
    return max(0, remainder_ns - overhead.outside_ns)


def _lowered(values: list[int], by: list[int]) -> list[int]:
    return [max(0, value - cost) for value, cost in zip(values, by)]


def _counters(capture: Capture, tree: Tree, groups: RangeGroups, is_outermost: Column) -> dict[str, list[int | None]]:
    """Faults and switches, over those outermost calls of a group for which they were recorded."""
    columns: dict[str, list[int | None]] = {}
    for name in filter(capture.ranges.has, RANGE_COUNTERS):
        values = capture.ranges[name]
        is_recorded = values >= 0
        if not is_recorded.any():
            continue
        chosen = is_outermost & is_recorded.view(np.uint8)
        sums = tree.table.sum_by_group(values, chosen, groups.of_row, len(groups))
        counts = tree.table.sum_by_group(np.ones(len(values), np.int64), chosen, groups.of_row, len(groups))
        columns[name] = [total if count else None for total, count in zip(sums.tolist(), counts.tolist())]
    return columns


def _rows(groups: RangeGroups, columns: dict[str, list[Any]], times: ThreadTime) -> UsageRows:
    columns["name"] = list(groups.names)
    if groups.threads is not None:
        columns["wall_ns"] = times.wall_ns[list(groups.threads)].tolist()
    if "alloc_calls" in columns:
        # Allocations belong to ranges of the tree, never to spans: for these nothing was recorded.
        known = zip(columns["span_calls"], columns["calls"], columns["alloc_calls"])
        is_span = [spans == calls and not allocations for spans, calls, allocations in known]
        for name in _OF_THE_TREE_ONLY if any(is_span) else ():
            columns[name] = [None if span else value for span, value in zip(is_span, columns[name])]
    if groups.paths is None:
        return UsageRows(columns).in_order(_by_own_time(columns))
    columns["path"] = list(groups.paths)
    return UsageRows(columns).in_order(_as_tree(groups.paths, columns["inclusive_ns"]))


def _by_own_time(columns: dict[str, list[Any]]) -> list[int]:
    """Largest own time first, then inclusive time, then by name: a stable sort by numbers of rows sorted by name."""
    names = columns["name"]
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    keys = [np.array(columns[name], np.int64)[by_name] for name in ("inclusive_ns", "exclusive_ns")]
    order: list[int] = by_name[np.lexsort([-key for key in keys])].tolist()
    return order


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


def _memory_totals(totals: MemoryTotals | None) -> dict[str, Any]:
    return {
        "total_alloc_bytes": totals.bytes if totals else None,
        "total_alloc_calls": totals.calls if totals else None,
        "unattributed_alloc_bytes": totals.unattributed_bytes if totals else None,
        "total_peak_bytes": totals.peak_bytes if totals else None,
        "small_alloc_calls": totals.small_calls if totals else None,
        "small_alloc_bytes": totals.small_bytes if totals else None,
    }
