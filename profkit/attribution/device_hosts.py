"""What the host's threads did at every moment: ranges and calls of a DeviceTrace in, a time line per thread out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit.capture.device_trace import NONE, Column, DeviceTrace

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
    """The threads of a trace."""

    def __init__(self, trace: DeviceTrace) -> None:
        self._trace = trace
        self._lines: dict[int, TimeLine] = {}

    def line(self, thread: int) -> TimeLine:
        """The time line of a thread, made when it is first asked for."""
        if thread not in self._lines:
            self._lines[thread] = self._line(thread)
        return self._lines[thread]

    @cached_property
    def own_ns(self) -> Column:
        """Time of every range without the ranges inside it."""
        own = np.zeros(len(self._trace.ranges["name"]), np.int64)
        for thread in np.unique(self._trace.ranges["thread"]).tolist():
            begins, ends, rows = self._pieces("ranges", thread)
            np.add.at(own, rows, ends - begins)
        return own

    def spans(self) -> list[tuple[int, int, int]]:
        """Thread, first and last moment of every thread that has ranges."""
        table = self._trace.ranges
        found = []
        for thread in np.unique(table["thread"]).tolist():
            mine = table["thread"] == thread
            found.append((thread, int(table["start_ns"][mine].min()), int(table["end_ns"][mine].max())))
        return found

    @cached_property
    def _call_states(self) -> Column:
        """State of a thread inside each call."""
        waits = np.array([bool(_WAITING.search(name)) for name in self._trace.strings], bool)
        names = self._trace.calls["name"]
        return np.where(waits[names], WAIT, CALL) if len(names) else np.zeros(0, np.int64)

    def _line(self, thread: int) -> TimeLine:
        ranges, calls = self._pieces("ranges", thread), self._pieces("calls", thread)
        begins = np.unique(np.concatenate([*ranges[:2], *calls[:2]]))
        call = _covering(calls, begins)
        states = np.full(len(begins), CODE)
        inside = call != NONE
        states[inside] = self._call_states[call[inside]]
        return TimeLine(begins.tolist(), _covering(ranges, begins).tolist(), states.tolist())

    def _pieces(self, name: str, thread: int) -> tuple[Column, Column, Column]:
        """Begins, ends and rows of the pieces in which each row of a table is the innermost one."""
        table = getattr(self._trace, name)
        rows = np.flatnonzero(table["thread"] == thread)
        return innermost_pieces(rows, table["start_ns"][rows], table["end_ns"][rows])


def innermost_pieces(rows: Column, start_ns: Column, end_ns: Column) -> tuple[Column, Column, Column]:
    """Intervals of one thread, in order, cut so that every moment belongs to the one that began last."""
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


def _covering(pieces: tuple[Column, Column, Column], moments: Column) -> Column:
    """The row whose piece holds each moment."""
    begins, ends, rows = pieces
    if not len(begins):
        return np.full(len(moments), NONE, np.int64)
    place = np.searchsorted(begins, moments, "right") - 1
    inside = (place >= 0) & (moments < ends[np.maximum(place, 0)])
    return np.where(inside, rows[np.maximum(place, 0)], NONE)
