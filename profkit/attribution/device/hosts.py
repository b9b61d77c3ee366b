"""What the host's threads did at every moment: ranges and calls of a Capture in, a time line per thread out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit.attribution.tree import innermost_pieces, own_times
from profkit.capture.nesting import interval_at, rows_by_thread
from profkit.capture.schema import NONE, Calls, Capture, Column, Ranges, taken

CODE, CALL, WAIT = 0, 1, 2
"""A thread runs its own code, is inside a CUDA call, or inside one that waits for the device."""
# Copies between GPUs return at once whatever their name says.
_WAITING = re.compile(r"Synchronize|^cu(?:da)?Memcpy(?!\w*(?:Async|Peer))")


@dataclass(frozen=True)
class TimeLine:
    """Consecutive pieces of one thread's time: from each begin to the next, the innermost range and what it did."""

    begins: list[int]
    ranges: list[int]  # rows of ranges; NONE: in none
    states: list[int]

    def pieces(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, int, int, int]]:
        """Start, end, range and state of everything between two moments, without a hole."""
        place = bisect_right(self.begins, start_ns) - 1
        while start_ns < end_ns:
            last = self.begins[place + 1] if place + 1 < len(self.begins) else end_ns
            stop = min(last, end_ns)
            known = place >= 0
            yield start_ns, stop, self.ranges[place] if known else NONE, self.states[place] if known else CODE
            start_ns, place = stop, place + 1


class Hosts:
    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._lines: dict[int, TimeLine] = {}

    def line(self, thread: int) -> TimeLine:
        """The time line of a thread, built on first use."""
        if thread not in self._lines:
            self._lines[thread] = self._line(thread)
        return self._lines[thread]

    @cached_property
    def own_ns(self) -> Column:
        return own_times(self._capture)

    def spans(self) -> list[tuple[int, int, int]]:
        """Thread, first and last moment of every thread that has ranges."""
        table = self._capture.ranges
        found = []
        for thread, rows in self._rows_of_threads.items():
            found.append((thread, int(table.start_ns[rows].min()), int(table.end_ns[rows].max())))
        return found

    @cached_property
    def _rows_of_threads(self) -> dict[int, Column]:
        return rows_by_thread(self._capture.ranges)

    @cached_property
    def _calls_of_threads(self) -> dict[int, Column]:
        order = np.argsort(self._capture.calls.thread, kind="stable")
        threads, begins = np.unique(self._capture.calls.thread[order], return_index=True)
        return dict(zip(threads.tolist(), np.split(order, begins[1:])))

    @cached_property
    def _call_states(self) -> Column:
        waits = np.array([bool(_WAITING.search(name)) for name in self._capture.strings], bool)
        names = self._capture.calls.name
        return np.where(waits[names], WAIT, CALL) if len(names) else np.zeros(0, np.int64)

    def _line(self, thread: int) -> TimeLine:
        ranges, calls = self._capture.ranges, self._capture.calls
        of_ranges = _pieces(ranges, self._rows_of_threads.get(thread, np.zeros(0, np.int64)))
        of_calls = _pieces(calls, self._calls_of_threads.get(thread, np.zeros(0, np.int64)))
        begins = np.unique(np.concatenate([*of_ranges[:2], *of_calls[:2]]))
        call = _covering(of_calls, begins)
        states = np.full(len(begins), CODE)
        inside = call != NONE
        states[inside] = self._call_states[call[inside]]
        return TimeLine(begins.tolist(), _covering(of_ranges, begins).tolist(), states.tolist())


def _pieces(table: Ranges | Calls, rows: Column) -> tuple[Column, Column, Column]:
    return innermost_pieces(rows, table.start_ns[rows], table.end_ns[rows])


def _covering(pieces: tuple[Column, Column, Column], moments: Column) -> Column:
    """The row whose piece holds each moment."""
    begins, ends, rows = pieces
    return taken(rows, interval_at(begins, ends, moments))
