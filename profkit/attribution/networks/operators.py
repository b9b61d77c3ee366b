"""The operators of a network's steps: a run in, each operator's share of the wall clock, its kind and place out.

Per step, to the nanosecond: shares of its operators + dispatch + framework + idle = the step's wall clock. Operators
and primitives own time; docs/runs.md has the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from profkit import _core
from profkit.attribution.kinds import KINDS, OTHER, kinds_of
from profkit.capture.nesting import climbed
from profkit.capture.run import Run
from profkit.capture.schema import LAYER_KINDS, NONE, Capture, Column, Level, Ranges, Steps
from profkit.errors import CaptureError

DISPATCH, FRAMEWORK, IDLE = "dispatch", "framework", "idle"
REMAINDERS = (DISPATCH, FRAMEWORK, IDLE)
"""No operator ran: Python and binding code; the framework's own code; nothing at all, where a source shows it."""
OBSERVES_IDLE = "observes_idle"
"""A fact of recordings in which an instant without any span means that nothing ran, not that Python did."""
OBSERVES_DISPATCH = "observes_dispatch"
"""A fact that is false where Python's code cannot be distinguished from the framework's: both are framework then."""
NO_LAYER = ""
LayerPhase = tuple[str, str]
"""Layer and phase."""


@dataclass(frozen=True)
class Operators:
    """The spans of a recording with what attribution found; columns have one entry per span, in the same order."""

    capture: Capture
    rows: Column  # int64: numbers of the spans that are operators or primitives in a step
    step: Column  # int32: the step each span counts in; NONE: none
    start_ns: Column  # int64, cut to the step
    end_ns: Column
    wall_ns: Column  # int64: share of the step's wall clock; 0 for spans that are not operators
    above: Column  # int32: the enclosing operator or primitive of the same thread, or whose part it is; NONE: none
    kind: Column  # int8: place in KINDS; that of `other` for spans that are not operators
    layer: Column  # int32: string of the capture; NONE: not known
    phase: Column  # int32: likewise
    type: Column  # int32: likewise; a primitive has that of the operator that calls it
    kinds: Mapping[int, tuple[str, ...]]  # by row: everything that the operator does, where that is more than one
    remainders: Mapping[str, Column]  # REMAINDERS, int64, one entry per step
    cut_rows: int  # operators that stick out of their step
    cut_ns: int  # and by how much
    outside_rows: int  # operators in no step: in no table

    @property
    def steps(self) -> int:
        return len(self.capture.steps["start_ns"])

    @property
    def observed_remainders(self) -> tuple[str, ...]:
        """Those that this source can distinguish; the others are part of dispatch, or of framework without dispatch."""
        facts, has_runtime = self.capture.facts, bool((self.capture.ranges["level"] == Level.RUNTIME).any())
        sees_dispatch = bool(facts.get(OBSERVES_DISPATCH, True))
        observed = {
            DISPATCH: sees_dispatch,
            FRAMEWORK: has_runtime or not sees_dispatch,
            IDLE: bool(facts.get(OBSERVES_IDLE)),
        }
        return tuple(name for name in REMAINDERS if observed[name])

    @property
    def step_ns(self) -> Column:
        """Wall clock of each step."""
        duration: Column = self.capture.steps["end_ns"] - self.capture.steps["start_ns"]
        return duration

    @cached_property
    def unknown_types(self) -> dict[str, int]:
        """Types of which no table says what they do, and how many spans have them; most first."""
        unknown = self.rows[self.kind[self.rows] == KINDS.index(OTHER)]
        return dict(Counter(self.text("type", int(row)) for row in unknown).most_common())

    def text(self, column: str, row: int) -> str:
        """Kind, layer, phase or type of a span; empty where it is not known."""
        if column == "kind":
            return KINDS[int(self.kind[row])]
        number = int(getattr(self, column)[row])
        return "" if number == NONE else self.capture.strings[number]

    def wall_by(self, *columns: str) -> dict[tuple[str, ...], Column]:
        """Nanoseconds of every step by kind, layer, phase and type, whichever are named."""
        keys = [getattr(self, column)[self.rows].astype(np.int64) for column in columns]
        groups, first, of_row = np.unique(np.stack(keys), axis=1, return_index=True, return_inverse=True)
        sums = np.zeros((groups.shape[1], self.steps), np.int64)
        np.add.at(sums, (of_row.reshape(-1), self.step[self.rows]), self.wall_ns[self.rows])
        names = [tuple(self.text(column, int(self.rows[place])) for column in columns) for place in first]
        # Unequal strings of a recording may be equal texts.
        found: dict[tuple[str, ...], Column] = {}
        for name, values in zip(names, sums):
            found[name] = found[name] + values if name in found else values
        return found


def operators_of(run: Run, measure: str = "time") -> Operators:
    return operators_in(run.recorded(measure))


def operators_in(capture: Capture) -> Operators:
    spans, steps = capture.ranges, capture.steps
    is_operator = (spans["level"] == Level.OPERATOR) | (spans["level"] == Level.PRIMITIVE)
    step = _steps_of(spans, steps, is_operator)
    try:
        shares = _core.share_steps(
            level=spans["level"],
            step=step,
            thread=spans["thread"],
            start_ns=spans["start_ns"],
            end_ns=spans["end_ns"],
            threads=len(capture.threads),
            step_start_ns=steps["start_ns"],
            step_end_ns=steps["end_ns"],
        )
    except ValueError as error:
        raise CaptureError(f"the recording of {capture.framework} is damaged: {error}") from None
    start, end = _cut(spans, steps, step)
    is_counted = is_operator & (step != NONE)
    lost = (spans["end_ns"] - spans["start_ns"]) - (end - start)
    above = _with_parts(_enclosing(spans["parent"], is_operator), spans)
    layer, phase = (_inherited(spans[name], spans["parent"]) for name in ("layer", "phase"))
    type_ = np.where(spans["type"] == NONE, spans["name"], spans["type"])
    kind, kinds = _kinds(capture, is_operator, above, type_, layer, phase)
    is_called = (spans["level"] == Level.PRIMITIVE) & (above != NONE)
    return Operators(
        capture=capture,
        rows=np.flatnonzero(is_counted),
        step=step,
        start_ns=start,
        end_ns=end,
        wall_ns=shares["wall_ns"],
        above=above,
        kind=kind,
        layer=layer,
        phase=phase,
        type=_from_operator(type_, above, is_called),
        kinds=kinds,
        remainders=_remainders(shares, capture.facts),
        cut_rows=int((lost[is_counted] > 0).sum()),
        cut_ns=int(lost[is_counted].sum()),
        outside_rows=int((is_operator & (step == NONE)).sum()),
    )


def _steps_of(spans: Ranges, steps: Steps, is_operator: Column) -> Column:
    """The step of each span; an operator that began before a step, but reaches into it, counts there."""
    step: Column = spans["step"].astype(np.int32)
    if not len(steps["start_ns"]):
        return np.full(len(step), NONE, np.int32)
    found = np.searchsorted(steps["end_ns"], spans["start_ns"], side="right")
    reachable = np.minimum(found, len(steps["start_ns"]) - 1)
    reaches = (found < len(steps["start_ns"])) & (steps["start_ns"][reachable] < spans["end_ns"])
    return np.where((step == NONE) & is_operator & reaches, reachable, step).astype(np.int32)


def _cut(spans: Ranges, steps: Steps, step: Column) -> tuple[Column, Column]:
    """Begin and end of each span inside its step; unchanged where it has none."""
    start, end = spans["start_ns"].copy(), np.maximum(spans["end_ns"], spans["start_ns"])
    inside = step != NONE
    first, last = steps["start_ns"][step[inside]], steps["end_ns"][step[inside]]
    start[inside] = np.clip(start[inside], first, last)
    end[inside] = np.clip(end[inside], first, last)
    return start, end


def _remainders(shares: Mapping[str, Column], facts: Mapping[str, object]) -> dict[str, Column]:
    nothing = np.zeros_like(shares["empty_ns"])
    idle = shares["empty_ns"] if facts.get(OBSERVES_IDLE) else nothing
    python = shares["layer_ns"] + shares["empty_ns"] - idle
    if not facts.get(OBSERVES_DISPATCH, True):
        return {DISPATCH: nothing, FRAMEWORK: shares["runtime_ns"] + python, IDLE: idle}
    return {DISPATCH: python, FRAMEWORK: shares["runtime_ns"], IDLE: idle}


def _enclosing(parent: Column, is_wanted: Column) -> Column:
    """The nearest span above each one that is wanted."""
    return climbed(parent.astype(np.int32), parent, lambda row: ~is_wanted[row])


def _with_parts(above: Column, spans: Ranges) -> Column:
    """A primitive on another thread that has an owner is a part of this operator: not a separate call."""
    owner = spans["owner"]
    known = (owner >= 0) & (owner < len(owner))
    known &= spans["level"][np.where(known, owner, 0)] == Level.OPERATOR
    is_part = known & (above == NONE) & (spans["level"] == Level.PRIMITIVE)
    return np.where(is_part, owner, above).astype(np.int32)


def _inherited(values: Column, parent: Column) -> Column:
    """Each span's own value, or that of the nearest span above that has one."""
    source = _enclosing(parent, values != NONE)
    return np.where((values == NONE) & (source != NONE), values[source], values).astype(np.int32)


def _from_operator(values: Column, above: Column, is_called: Column) -> Column:
    """Values of the operator in place of those of the primitives that it calls, at any depth."""
    taken: Column = values[climbed(np.arange(len(values), dtype=np.int32), above, lambda row: is_called[row])]
    return taken


def _kinds(
    capture: Capture,
    is_operator: Column,
    above: Column,
    type_: Column,
    layer: Column,
    phase: Column,
) -> tuple[Column, dict[int, tuple[str, ...]]]:
    """The kind of each span, and all kinds of those operators that do several things at once."""
    layer_kinds = capture.facts.get(LAYER_KINDS, {})
    strings = capture.strings
    rows = np.flatnonzero(is_operator)
    codes = np.stack([column[rows] for column in (type_, layer, phase, capture.ranges["fused"])])
    distinct, of_row = np.unique(codes, axis=1, return_inverse=True)
    found = []
    for numbers in distinct.T.tolist():
        name, place, when, fused = (None if number == NONE else strings[number] for number in numbers)
        found.append(kinds_of(capture.framework, name, layer_kinds.get(place or ""), when, fused))
    kind = np.full(len(type_), KINDS.index(OTHER), np.int8)
    of_row = of_row.reshape(-1)
    if found:
        kind[rows] = np.array([KINDS.index(each[0]) for each in found], np.int8)[of_row]
    # A primitive of a name that says nothing is what its operator is.
    is_primitive = is_operator & (capture.ranges["level"] == Level.PRIMITIVE)
    is_nameless = is_primitive & (kind == KINDS.index(OTHER)) & (above != NONE)
    kind = _from_operator(kind, above, is_nameless).astype(np.int8)
    several = {int(row): found[number] for row, number in zip(rows.tolist(), of_row.tolist()) if len(found[number]) > 1}
    return kind, several
