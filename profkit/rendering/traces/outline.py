"""Steps, phases and layers of a capture as slices, made from its operators: the same for every framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from profkit.capture.schema import NONE, Capture, Level


@dataclass(frozen=True)
class Outline:
    """A slice above the operators; slices of one depth do not overlap, deeper ones are inside."""

    name: str
    depth: int  # 0 step, 1 phase, 2 layer
    start_ns: int
    end_ns: int


def outline(capture: Capture, process: int = 0) -> list[Outline]:
    """Steps of a process as they were timed; in them runs of operators of one phase, and in these of one layer.

    Where threads run operators at the same time, a run ends when the next one begins. Operators without a layer (or
    phase) belong to the run around them.
    """
    table = capture.steps
    times = zip(table.start_ns.tolist(), table.end_ns.tolist(), np.maximum(table.process, 0).tolist())
    steps = {number: (start, end) for number, (start, end, owner) in enumerate(times) if owner == process}
    slices = [Outline(f"step {number}", 0, start, end) for number, (start, end) in steps.items()]
    operators = [operator for operator in _outermost_operators(capture) if operator[2] in steps]
    phases = _runs((phase, "", step, start, end) for phase, _, step, start, end in operators)
    layers = _runs(operator for operator in operators if operator[1] is not None)
    bounds = [_within(start, end, steps[step]) for _, step, start, end in phases]
    slices += [Outline(name, 1, *times) for (name, *_), times in zip(phases, bounds)]
    starts = [start for start, _ in bounds]
    for name, _, start, end in layers:
        place = int(np.searchsorted(starts, start, side="right")) - 1
        slices.append(Outline(name, 2, *_within(start, end, bounds[place])))
    return slices


_OutlineOperator = tuple[str | None, str | None, int, int, int]  # phase, layer, step, start, end


def _outermost_operators(capture: Capture) -> Iterator[_OutlineOperator]:
    """Operators of steps that are not nested inside another operator, in order of their start."""
    ranges = capture.ranges
    is_operator = ranges.level == Level.OPERATOR
    parent_is_operator = (ranges.parent != NONE) & is_operator[ranges.parent]
    rows = np.flatnonzero(is_operator & ~parent_is_operator & (ranges.step != NONE))
    rows = rows[np.argsort(ranges.start_ns[rows], kind="stable")]
    phases, layers = capture.texts(ranges.phase[rows]), capture.texts(ranges.layer[rows])
    times = (ranges.start_ns[rows], np.maximum(ranges.start_ns[rows], ranges.end_ns[rows]))
    yield from zip(phases, layers, ranges.step[rows].tolist(), *(column.tolist() for column in times))


def _runs(operators: Iterable[_OutlineOperator]) -> list[tuple[str, int, int, int]]:
    """Operators with the same phase and layer, one after another, as one: name, step, start and end."""
    runs: list[tuple[str, int, int, int]] = []
    known = [operator for operator in operators if operator[0] is not None]
    for (phase, layer, step), members in groupby(known, lambda operator: operator[:3]):
        times = [(start, end) for *_, start, end in members]
        start = times[0][0]
        if runs:
            name, of_step, begin, end = runs[-1]
            runs[-1] = name, of_step, begin, min(end, start)
        runs.append((layer or phase or "", step, start, max(end for _, end in times)))
    return runs


def _within(start: int, end: int, bounds: tuple[int, int]) -> tuple[int, int]:
    start = min(max(start, bounds[0]), bounds[1])
    return start, min(max(end, start), bounds[1])
