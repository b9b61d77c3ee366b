"""Folded stacks for flame graphs: a Capture goes in, lines `thread;outer;inner number` come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from profkit.attribution.grouping import thread_titles, titles
from profkit.attribution.tree import is_mark, tree_of
from profkit.capture.schema import HOST_MEMORY, NONE, Capture, Column, RangeKind
from profkit.rendering.atomic_write import atomic_write

# The format's separators must not stand inside a name.
_SEPARATORS = str.maketrans({";": ",", "\n": " ", "\r": " "})


def write_folded_time(capture: Capture, path: str | Path) -> None:
    """Own nanoseconds of every path of ranges; time outside all ranges is left out."""
    _write(path, _lines(capture, *_time(capture)))


def write_folded_bytes(capture: Capture, path: str | Path) -> None:
    """Bytes asked for in the ranges of every path themselves; what no range covers stands under its thread.

    Where no memory of the host was recorded, it is that of GPUs.
    """
    taken = capture.allocations
    thread, row, size = taken.thread, taken.range, taken.bytes.astype(np.int64)
    if not len(taken):
        events = capture.memory_events
        asked = np.flatnonzero((events.bytes > 0) & ~np.isin(events.kind, HOST_MEMORY))
        thread, row, size = events.thread[asked], events.range[asked], events.bytes[asked]
    _write(path, _lines(capture, thread, row, size))


def write_stacks(path: str | Path, stacks: Mapping[tuple[str, ...], int]) -> None:
    """Stacks from the outermost frame on, each with its number; those of nothing are left out."""
    frames = ((";".join(frame.translate(_SEPARATORS) for frame in stack), total) for stack, total in stacks.items())
    _write(path, (f"{frame} {total}\n" for frame, total in frames if total > 0))


def _time(capture: Capture) -> tuple[Column, Column, Column]:
    rows = np.flatnonzero(capture.ranges.kind == np.uint8(RangeKind.RANGE))
    return capture.ranges.thread[rows], rows, tree_of(capture).own_ns[rows]


def _lines(capture: Capture, thread: Column, row: Column, amount: Column) -> Iterator[str]:
    """Amounts summed over equal threads and paths; each belongs to a row of ranges, or to none (-1)."""
    title, names = titles(capture, ~is_mark(capture))
    path_of_row, ways = tree_of(capture).paths(title)
    # One more than the last path: no range.
    path = np.where(row == NONE, len(ways), np.append(path_of_row, NONE)[row])
    keys, place = np.unique(thread.astype(np.int64) * (len(ways) + 1) + path, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, place, amount)
    # The last one is that of NONE.
    threads = [name.translate(_SEPARATORS) for name in (*thread_titles(capture), "(thread not recorded)")]
    frames = [name.translate(_SEPARATORS) for name in names]
    for key, total in zip(keys.tolist(), sums.tolist()):
        owner, number = divmod(key, len(ways) + 1)
        way = [frames[title] for title in ways[number]] if number < len(ways) else []
        if total > 0:
            yield ";".join((threads[owner], *way)) + f" {total}\n"


def _write(path: str | Path, lines: Iterator[str]) -> None:
    with atomic_write(path, syncs=False) as stream:
        stream.writelines(line.encode("utf-8", "replace") for line in lines)
