"""The framework's own time inside each layer: instants of a step with a layer's code open and no operator running."""

from __future__ import annotations

import heapq
from itertools import pairwise

import numpy as np

from profkit.capture.recording import FORWARD, NONE, Column, Level, Recording

LayerPhase = tuple[str, str]
_OWNERS = (Level.LAYER, Level.RUNTIME)
_WORK = (Level.OPERATOR, Level.PRIMITIVE)


def layer_dispatch(recording: Recording) -> dict[LayerPhase, int] | None:
    """Nanoseconds over all steps by layer and phase; None when the source does not see layers' own code.

    An instant belongs to the code that was entered last, on whatever thread, and only if no thread runs an operator:
    with the operators' times these never sum to more than the steps.
    """
    spans = recording.spans
    layers, phases = recording.text("layer"), recording.text("phase")
    is_owner = np.isin(spans["level"], _OWNERS) & (spans["layer"] != NONE)
    if not is_owner.any():
        return None
    free_before = _free_time(recording)
    found: dict[LayerPhase, int] = {}
    for row, start, end in _own_stretches(recording, np.flatnonzero(is_owner)):
        key = (layers[row] or "", phases[row] or FORWARD)
        found[key] = found.get(key, 0) + int(free_before(end) - free_before(start))
    return found


def _own_stretches(recording: Recording, rows: Column) -> list[tuple[int, int, int]]:
    """Stretches of time, each with the row that was entered last of those then open; cut to the step of its row."""
    spans = recording.spans
    step_start, step_end = recording.steps["start_ns"], recording.steps["end_ns"]
    rows = rows[spans["step"][rows] != NONE]
    step = spans["step"][rows]
    starts = np.maximum(spans["start_ns"][rows], step_start[step]).tolist()
    ends = np.minimum(spans["end_ns"][rows], step_end[step]).tolist()
    inside = [(start, end, row) for start, end, row in zip(starts, ends, rows.tolist()) if start < end]
    moments = sorted({time for start, end, _ in inside for time in (start, end)})
    inside.sort()
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


class _free_time:  # noqa: N801 - used as a function
    """How much of the time up to a moment no operator ran."""

    def __init__(self, recording: Recording) -> None:
        spans = recording.spans
        step = spans["step"]
        rows = np.flatnonzero(np.isin(spans["level"], _WORK) & (step != NONE))
        start = np.maximum(spans["start_ns"][rows], recording.steps["start_ns"][step[rows]])
        end = np.minimum(spans["end_ns"][rows], recording.steps["end_ns"][step[rows]])
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        reach = np.maximum.accumulate(end) if len(end) else end
        first = np.ones(len(start), np.bool_)
        first[1:] = start[1:] > reach[:-1]
        self._start = start[first]
        last = np.flatnonzero(first)[1:] - 1
        self._end = np.append(reach[last], reach[-1:])
        self._busy_before = np.concatenate(([0], np.cumsum(self._end - self._start)))

    def __call__(self, moment: int) -> int:
        place = int(np.searchsorted(self._start, moment, side="right"))
        if not place:
            return moment
        over = max(0, int(self._end[place - 1]) - moment)
        return moment - int(self._busy_before[place]) + over
