"""What recording itself cost, estimated: the number of ranges inside times an empty range. Ranges in, ns out.

The estimate puts the whole cost of a range into what encloses it: part of it lies between the range's own two
readings of the clock, but how much is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.grouping import RangeGroups
from profkit.attribution.tree import Tree
from profkit.capture.schema import Capture, Column


@dataclass(frozen=True)
class Overhead:
    """Nanoseconds, per group or in total."""

    inside_ns: list[int]  # of the ranges and spans at any depth inside: part of the inclusive time
    own_ns: list[int]  # of those directly inside: part of the own time
    outside_ns: int  # of those in no range: part of the remainder
    total_ns: int


def estimate_overhead(
    capture: Capture, tree: Tree, groups: RangeGroups, is_outermost: Column, is_shown: Column
) -> Overhead | None:
    """The cost of recording the shown rows; None when no process measured an empty range."""
    if not any(process.empty_range_ns > 0 for process in capture.processes):
        return None
    direct, at_any_depth = tree.counts
    every = np.ones(len(capture.ranges), np.uint8)
    is_top = is_shown & (capture.ranges.parent < 0)
    owner = capture.threads.process[capture.ranges.thread]
    inside, own = np.zeros(len(groups)), np.zeros(len(groups))
    outside = total = 0.0
    for index, process in enumerate(capture.processes):
        rows = owner == index if len(capture.processes) > 1 else every.view(np.bool_)
        cost = process.empty_range_ns
        chosen = is_outermost & rows.view(np.uint8)
        inside += cost * tree.table.sum_by_group(at_any_depth, chosen, groups.of_row, len(groups))
        own += cost * tree.table.sum_by_group(direct, rows, groups.of_row, len(groups))
        outside += cost * int((is_top & rows).sum())
        total += cost * int((is_shown & rows).sum())
    return Overhead(_rounded(inside), _rounded(own), round(outside), round(total))


def _rounded(values: Column) -> list[int]:
    numbers: list[int] = np.rint(values).astype(np.int64).tolist()
    return numbers
