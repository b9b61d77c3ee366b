"""The ranges of a capture as trees, one per thread: own time, what was recorded inside, paths, outermost calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit import _core
from profkit.capture.tables import Capture, Column, RangeKind


@dataclass(frozen=True)
class Tree:
    """The checked ranges, for native passes over them, and each row's own time."""

    table: _core.RangeTable
    own_ns: Column  # int64; 0 for spans and marks

    @property
    def counts(self) -> tuple[Column, Column]:
        """How many ranges and spans were recorded directly in each range, and at any depth."""
        return self.table.counts_inside()

    def paths(self, title: Column) -> tuple[Column, list[tuple[int, ...]]]:
        """Path per row, and each path as the numbers of its titles from the outermost on; title -1 has path -1."""
        of_row, parent, last = self.table.paths(title)
        ways: list[tuple[int, ...]] = []
        # A path's parent was found before it, so one look back is enough.
        for above, number in zip(parent.tolist(), last.tolist()):
            ways.append((*(ways[above] if above >= 0 else ()), number))
        return of_row, ways


def tree_of(capture: Capture) -> Tree:
    """Check the ranges once for all passes."""
    ranges = capture.ranges
    table = _core.RangeTable(
        kind=ranges.kind,
        is_open=ranges.is_open,
        thread=ranges.thread,
        parent=ranges.parent,
        start_ns=ranges.start_ns,
        end_ns=ranges.end_ns,
        threads=len(capture.threads),
    )
    return Tree(table, table.own_times())


def is_mark(capture: Capture) -> Column:
    """Rows that are instants: they have no time and stand in no table."""
    marks: Column = capture.ranges.kind == np.uint8(RangeKind.MARK)
    return marks
