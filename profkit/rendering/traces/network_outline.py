"""Steps, phases and layers of a recorded network as slices, made from its operators: the same for every framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from profkit.capture.recording import Recording
from profkit.capture.schema import NONE, Level


@dataclass(frozen=True)
class Outline:
    """A slice above the operators; slices of one depth do not overlap, deeper ones lie within."""

    name: str
    depth: int  # 0 step, 1 phase, 2 layer
    start_ns: int
    end_ns: int


@dataclass
class _OperatorRun:
    """Operators in a row that have one name."""

    name: str
    step: int
    start_ns: int
    end_ns: int


def outline(recording: Recording) -> list[Outline]:
    """Steps as they were timed; in them runs of operators of one phase, and in these of one layer.

    Where threads run operators at the same time, a run ends when the next one begins. Operators without a layer (or
    phase) belong to the run around them.
    """
    steps = list(zip(recording.steps["start_ns"].tolist(), recording.steps["end_ns"].tolist()))
    slices = [Outline(f"step {number}", 0, start, end) for number, (start, end) in enumerate(steps)]
    operators = list(_outermost_operators(recording))
    phases = _runs((phase, "", step, start, end) for phase, _, step, start, end in operators)
    layers = _runs(operator for operator in operators if operator[1] is not None)
    for phase in phases:
        slices.append(Outline(phase.name, 1, *_within(phase, steps[phase.step])))
    bounds = [(made.start_ns, made.end_ns) for made in slices if made.depth == 1]
    starts = [start for start, _ in bounds]
    for layer in layers:
        place = int(np.searchsorted(starts, layer.start_ns, side="right")) - 1
        slices.append(Outline(layer.name, 2, *_within(layer, bounds[place])))
    return slices


_OutlineOperator = tuple[str | None, str | None, int, int, int]  # phase, layer, step, start, end


def _outermost_operators(recording: Recording) -> Iterator[_OutlineOperator]:
    """Operators of steps that are not nested inside another operator, in order of their start."""
    spans = recording.spans
    is_operator = spans["level"] == Level.OPERATOR
    parent_is_operator = (spans["parent"] != NONE) & is_operator[spans["parent"]]
    rows = np.flatnonzero(is_operator & ~parent_is_operator & (spans["step"] != NONE))
    rows = rows[np.argsort(spans["start_ns"][rows], kind="stable")]
    phases, layers = recording.text("phase"), recording.text("layer")
    for row in rows.tolist():
        start, end = int(spans["start_ns"][row]), int(spans["end_ns"][row])
        yield phases[row], layers[row], int(spans["step"][row]), start, max(start, end)


def _runs(operators: Iterable[_OutlineOperator]) -> list[_OperatorRun]:
    """Operators with the same phase and layer, one after another, as one."""
    runs: list[_OperatorRun] = []
    last: tuple[str | None, str | None, int] | None = None
    for phase, layer, step, start, end in operators:
        if phase is None:
            continue
        if (phase, layer, step) != last:
            if runs:
                runs[-1].end_ns = min(runs[-1].end_ns, start)
            runs.append(_OperatorRun(layer or phase, step, start, end))
            last = (phase, layer, step)
        runs[-1].end_ns = max(runs[-1].end_ns, end)
    return runs


def _within(run: _OperatorRun, bounds: tuple[int, int]) -> tuple[int, int]:
    start = min(max(run.start_ns, bounds[0]), bounds[1])
    return start, min(max(run.end_ns, start), bounds[1])
