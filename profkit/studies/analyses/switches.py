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


def switches(points: Sequence[Point], axis: str, adds_layers: bool = False) -> list[Switch]:
    """Only kinds that both neighbours have: a layer that appears is no switch.

    `adds_layers`: a second convolution has an operator for the gradient of its input, which the first does not need;
    along such an axis a type must go where another comes.
    """
    found = []
    for line in lines(points, axis):
        for one, other in zip(line.points, line.points[1:]):
            for kind in one.types:
                before, after = one.types[kind], other.types.get(kind)
                if not after or before == after or (adds_layers and (before <= after or after <= before)):
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
