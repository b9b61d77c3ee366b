"""Whose bytes: allocations of a capture in, bytes per group of ranges and totals out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profkit.attribution.account import ThreadShares
from profkit.capture.schema import NONE, Capture, Column

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
    small_calls: int
    small_bytes: int


def has_memory(capture: Capture) -> bool:
    """Whether allocations were recorded at all: without the door, a 0 would be a guess."""
    return (
        len(capture.allocations) > 0
        or bool(capture.threads.small_allocations.any())
        or any(ALLOCATIONS_DOOR in process.doors for process in capture.processes)
    )


def range_memory(shares: ThreadShares, of_range: Column, count: int, is_outermost: Column) -> RangeMemory:
    """Bytes of groups of ranges.

    Bytes with nesting are summed over the outermost ranges of a group only, so that recursion counts once; a peak is
    the largest of any call.
    """
    capture, table, is_thread_chosen = shares.capture, shares.tree.table, shares.is_thread_chosen
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
    memory = table.memory(*columns)

    def summed(name: str, chosen: Column) -> Column:
        return table.sum_by_group(memory[name], chosen, of_range, count)

    ranges, sizes, is_part = columns[0], columns[2], columns[5]
    threads = capture.threads
    return RangeMemory(
        columns={
            "alloc_calls": summed("calls", is_outermost),
            "alloc_bytes": summed("bytes", is_outermost),
            "own_alloc_bytes": summed("own_bytes", np.ones(len(capture.ranges), np.uint8)),
            "live_bytes": summed("live_bytes", is_outermost),
            "freed_elsewhere_bytes": summed("freed_elsewhere_bytes", is_outermost),
            "peak_bytes": table.max_by_group(memory["peak_bytes"], of_range, count),
        },
        total_calls=int(np.count_nonzero(~is_part)),
        total_bytes=int(sizes.sum()),
        unattributed_bytes=int(sizes[ranges < 0].sum()),
        peak_bytes=memory["total_peak_bytes"],
        small_calls=int(threads.small_allocations[is_thread_chosen].sum()),
        small_bytes=int(threads.small_allocated_bytes[is_thread_chosen].sum()),
    )
