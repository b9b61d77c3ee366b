"""What recording itself cost, estimated: the number of ranges inside times an empty range. Ranges in, ns out.

The estimate puts the whole cost of a range into what encloses it: part of it lies between the range's own two
readings of the clock, but how much is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.account import ThreadShares
from profkit.capture.schema import Column


@dataclass(frozen=True)
class Overhead:
    """Nanoseconds, per group or in total."""

    inside_ns: Column  # of the ranges and spans at any depth inside: part of the inclusive time
    own_ns: Column  # of those directly inside: part of the own time
    outside_ns: int  # of those in no range: part of the remainder
    total_ns: int


def estimate_overhead(shares: ThreadShares, of_range: Column, count: int, is_outermost: Column) -> Overhead | None:
    """The cost of recording the shown ranges; None when no process measured an empty range."""
    capture, tree, is_shown = shares.capture, shares.tree, shares.is_shown
    if not any(process.empty_range_ns > 0 for process in capture.processes):
        return None
    direct, at_any_depth = tree.counts
    every = np.ones(len(capture.ranges), np.uint8)
    is_top = is_shown & (capture.ranges.parent < 0)
    owner = capture.threads.process[capture.ranges.thread]
    inside, own = np.zeros(count), np.zeros(count)
    outside = total = 0.0
    for index, process in enumerate(capture.processes):
        rows = owner == index if len(capture.processes) > 1 else every.view(np.bool_)
        cost = process.empty_range_ns
        chosen = is_outermost & rows.view(np.uint8)
        inside += cost * tree.table.sum_by_group(at_any_depth, chosen, of_range, count)
        own += cost * tree.table.sum_by_group(direct, rows, of_range, count)
        outside += cost * int((is_top & rows).sum())
        total += cost * int((is_shown & rows).sum())
    return Overhead(_rounded(inside), _rounded(own), round(outside), round(total))


def _rounded(values: Column) -> Column:
    return np.rint(values).astype(np.int64)
