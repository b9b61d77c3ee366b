"""Whose bytes: allocations of a capture in, bytes per group of ranges and totals out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.grouping import RangeGroups
from profkit.attribution.tree import Tree
from profkit.capture.schema import NONE, Capture, Column

ALLOCATIONS_DOOR = "allocations"
MOST_BYTES = 1 << 47
"""More than a process can address: a size above it is damage, and must not make sums overflow."""


@dataclass(frozen=True)
class MemoryTotals:
    """Over the chosen threads."""

    calls: int
    bytes: int
    unattributed_bytes: int
    peak_bytes: int
    small_calls: int
    small_bytes: int


def has_memory(capture: Capture) -> bool:
    """Whether allocations were recorded at all: without the door, a 0 would be a guess."""
    return (
        len(capture.allocations) > 0
        or bool(capture.threads.small_allocations.any())
        or any(ALLOCATIONS_DOOR in process.doors for process in capture.processes)
    )


def group_memory(
    capture: Capture, tree: Tree, groups: RangeGroups, is_outermost: Column, is_thread_chosen: Column
) -> tuple[dict[str, list[int]], MemoryTotals]:
    """Columns of UsageRow per group, and totals.

    Bytes with nesting are summed over the outermost ranges of a group only, so that recursion counts once; a peak is
    the largest of any call.
    """
    allocations = capture.allocations
    columns = [
        allocations.range,
        allocations.time_ns,
        np.minimum(allocations.bytes, np.uint64(MOST_BYTES)),
        allocations.free_time_ns,
        # Who freed it may not be known: that must not count as "elsewhere".
        np.where(allocations.free_thread == NONE, allocations.range, allocations.free_range),
        allocations.is_part,
    ]
    is_chosen = is_thread_chosen[allocations.thread]
    if not is_chosen.all():
        columns = [column[is_chosen] for column in columns]
    memory = tree.table.memory(*columns)

    def summed(name: str, chosen: Column) -> list[int]:
        sums: list[int] = tree.table.sum_by_group(memory[name], chosen, groups.of_row, len(groups)).tolist()
        return sums

    every = np.ones(len(capture.ranges), np.uint8)
    rows = {
        "alloc_calls": summed("calls", is_outermost),
        "alloc_bytes": summed("bytes", is_outermost),
        "own_alloc_bytes": summed("own_bytes", every),
        "live_bytes": summed("live_bytes", is_outermost),
        "freed_elsewhere_bytes": summed("freed_elsewhere_bytes", is_outermost),
        "peak_bytes": tree.table.max_by_group(memory["peak_bytes"], groups.of_row, len(groups)).tolist(),
    }
    ranges, sizes, is_part = columns[0], columns[2], columns[5]
    threads = capture.threads
    totals = MemoryTotals(
        calls=int(np.count_nonzero(~is_part)),
        bytes=int(sizes.sum()),
        unattributed_bytes=int(sizes[ranges < 0].sum()),
        peak_bytes=memory["total_peak_bytes"],
        small_calls=int(threads.small_allocations[is_thread_chosen].sum()),
        small_bytes=int(threads.small_allocated_bytes[is_thread_chosen].sum()),
    )
    return rows, totals
