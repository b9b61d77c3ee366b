"""The ranges of a capture as trees, one per thread: own time, what was recorded inside, paths, outermost calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profkit import _core
from profkit.capture.nesting import rows_by_thread
from profkit.capture.schema import Capture, Column, RangeKind
from profkit.errors import CaptureError

LONGEST_PATHS, LONGEST_PATH = 16 << 20, 10_000
"""Limit of the characters of all paths together: a constant, and one for each range."""
_BESIDE_NAME = 3


@dataclass(frozen=True)
class Tree:
    """The checked ranges, for native passes over them, and each row's own time."""

    table: _core.RangeTable
    own_ns: Column  # int64; 0 for spans and marks

    def paths(self, title: Column, names: Sequence[str]) -> tuple[Column, list[tuple[int, ...]]]:
        """Path per row, and each path as the numbers of its titles from the outermost on; title -1 has path -1.

        CaptureError when the paths, written out, were much longer than the capture: each names all that is above it.
        """
        of_row, parent, last = self.table.paths(title)
        lengths: list[int] = []
        for above, number in zip(parent.tolist(), last.tolist()):
            lengths.append((lengths[above] if above >= 0 else 0) + _BESIDE_NAME + len(names[number]))
        total, most = sum(lengths), LONGEST_PATHS + LONGEST_PATH * len(title)
        if total > most:
            raise CaptureError(
                f"its paths of ranges in ranges would take {total:,} characters, more than {most:,}: "
                "they are too deep, or their names too long"
            )
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
    # The tracer's ranges nest; those of others may overlap: there each moment belongs to the range that began last.
    return Tree(table, table.own_times() if ranges.has("source") else own_times(capture))


def own_times(capture: Capture) -> Column:
    """Time of every range without the ranges inside it, or that began in it; 0 for spans and marks."""
    ranges = capture.ranges
    own = np.zeros(len(ranges), np.int64)
    for mine in rows_by_thread(ranges).values():
        starts, ends, owners = innermost_pieces(mine, ranges.start_ns[mine], ranges.end_ns[mine])
        np.add.at(own, owners, ends - starts)
    return own


def innermost_pieces(rows: Column, start_ns: Column, end_ns: Column) -> tuple[Column, Column, Column]:
    """Begins, ends and rows of intervals of one thread, cut so that every moment belongs to the one that began last."""
    pieces: list[tuple[int, int, int]] = []
    stack: list[tuple[int, int]] = []  # end and row
    now = 0

    def close_until(moment: int | None) -> None:
        nonlocal now
        while stack and (moment is None or stack[-1][0] <= moment):
            end, row = stack.pop()
            if end > now:
                pieces.append((now, end, row))
                now = end

    for row, start, end in zip(rows.tolist(), start_ns.tolist(), end_ns.tolist()):
        close_until(start)
        if stack and start > now:
            pieces.append((now, start, stack[-1][1]))
        now = max(now, start) if stack else start
        stack.append((end, row))
    close_until(None)
    columns = np.array(pieces, np.int64).reshape(len(pieces), 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def is_in_tree(capture: Capture) -> Column:
    """Rows that are ranges: neither spans nor marks."""
    ranges: Column = capture.ranges.kind == np.uint8(RangeKind.RANGE)
    return ranges


def is_mark(capture: Capture) -> Column:
    """Rows that are instants: they have no time and are in no table."""
    marks: Column = capture.ranges.kind == np.uint8(RangeKind.MARK)
    return marks
