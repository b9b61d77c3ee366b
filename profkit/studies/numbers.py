"""The numbers of one finished cell, per step: a capture in, time and bytes by kind and type of operator out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Operator:
    """One row of a cell's table of operators, mean of the recorded steps. None: not observable."""

    name: str
    calls: float
    own_ns: float
    requested_bytes: float | None = None
    temporary_bytes: float | None = None
    flops: float | None = None


@dataclass(frozen=True)
class CellNumbers:
    """What the report needs of a cell that was measured."""

    variant: str
    framework: str
    repetition: int
    step_ns: float
    """Median of the steps with nothing recorded."""
    recorded_ns: float
    """Median of the steps of the pass for time."""
    wall_ns: float
    """Mean of these; kinds + remainders sum to it."""
    kinds: Sequence[Operator]
    types: Sequence[Operator]
    remainders: Mapping[str, float]
    """Dispatch, framework, idle: time in which no operator ran."""
    peak_bytes: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    data: str = ""

    @property
    def operators_ns(self) -> float:
        """All operators together, which shares refer to."""
        return sum(row.own_ns for row in self.kinds)

    def kind(self, name: str) -> Operator | None:
        """The row of this kind of operator."""
        return next((row for row in self.kinds if row.name == name), None)
