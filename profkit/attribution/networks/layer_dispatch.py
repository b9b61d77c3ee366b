"""The framework's own time inside each layer: instants of a step with a layer's code open and no operator running."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from profkit.attribution.networks.operators import LayerPhase, Operators
from profkit.capture.schema import FORWARD, NONE, Column, Level

_OWNERS = (Level.LAYER, Level.RUNTIME)


def layer_dispatch(operators: Operators) -> dict[LayerPhase, int] | None:
    """Nanoseconds over all steps by layer and phase; None when the source does not see layers' own code.

    An instant belongs to the code that was entered last, on whatever thread, and only if no thread runs an operator:
    all of them are part of the steps' remainders.
    """
    spans = operators.capture.ranges
    is_owner = np.isin(spans["level"], _OWNERS) & (operators.layer != NONE)
    if not is_owner.any():
        return None
    idle = _IdleClock(operators)
    found: dict[LayerPhase, int] = {}
    for row, start, end in _own_stretches(operators, np.flatnonzero(is_owner)):
        key = (operators.text("layer", row), operators.text("phase", row) or FORWARD)
        found[key] = found.get(key, 0) + idle.at(end) - idle.at(start)
    return found


def _own_stretches(operators: Operators, rows: Column) -> list[tuple[int, int, int]]:
    """Stretches of time, each with the row that was entered last of those then open; cut to the step of its row."""
    rows = rows[operators.step[rows] != NONE]
    begins, ends = operators.start_ns[rows].tolist(), operators.end_ns[rows].tolist()
    inside = sorted((start, end, row) for start, end, row in zip(begins, ends, rows.tolist()) if start < end)
    moments = sorted({time for start, end, _ in inside for time in (start, end)})
    stretches: list[tuple[int, int, int]] = []
    open_rows: list[tuple[int, int, int]] = []  # latest begin first; of equal begins the one that lies inside
    place = 0
    for moment, following in pairwise(moments):
        while place < len(inside) and inside[place][0] <= moment:
            start, end, row = inside[place]
            heapq.heappush(open_rows, (-start, end, row))
            place += 1
        while open_rows and open_rows[0][1] <= moment:
            heapq.heappop(open_rows)
        if open_rows:
            stretches.append((open_rows[0][2], moment, following))
    return stretches


class _IdleClock:
    """Runs only while no thread runs an operator."""

    def __init__(self, operators: Operators) -> None:
        start, end = operators.start_ns[operators.rows], operators.end_ns[operators.rows]
        order = np.argsort(start, kind="stable")
        start, reach = start[order], np.maximum.accumulate(end[order])
        is_first = np.ones(len(start), np.bool_)
        is_first[1:] = start[1:] > reach[:-1]
        self._start = start[is_first]
        self._end = np.append(reach[:-1][is_first[1:]], reach[-1:])
        self._busy_before = np.concatenate(([0], np.cumsum(self._end - self._start)))

    def at(self, moment: int) -> int:
        """What it shows at this moment."""
        place = int(np.searchsorted(self._start, moment, side="right"))
        if not place:
            return moment
        unfinished = max(0, int(self._end[place - 1]) - moment)
        return moment - int(self._busy_before[place]) + unfinished
