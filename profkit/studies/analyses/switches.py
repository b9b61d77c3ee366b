"""Where a framework changes its algorithm: neighbouring points whose operators have other implementations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, lines


@dataclass(frozen=True)
class Switch:
    framework: str
    axis: str
    at: Mapping[str, Any]
    kind: str
    """Of operator."""
    below: float
    above: float
    """The neighbouring values of the axis."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    """Types of operators that only one of the two has."""


def switches(points: Sequence[Point], axis: str) -> list[Switch]:
    """Only kinds that both neighbours have: a layer that appears is no switch."""
    found = []
    for line in lines(points, axis):
        for one, other in zip(line.points, line.points[1:]):
            for kind in one.types:
                before, after = one.types[kind], other.types.get(kind)
                if not after or before == after:
                    continue
                found.append(
                    Switch(
                        line.framework,
                        axis,
                        line.at,
                        kind,
                        float(one.at[axis]),
                        float(other.at[axis]),
                        tuple(sorted(before - after)),
                        tuple(sorted(after - before)),
                    )
                )
    return found
