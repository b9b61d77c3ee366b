"""Width against depth: points in, pairs out of which the one with less arithmetic takes longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, groups_of, number_of, ratio_of

LEAST_FLOPS = 1.25
"""Less by this factor at least."""


@dataclass(frozen=True)
class Inversion:
    """The deeper, narrower network has `flops_ratio` of the arithmetic of the wider one and takes `time_ratio`."""

    framework: str
    deeper: Mapping[str, Any]
    wider: Mapping[str, Any]
    flops_ratio: float
    time_ratio: float


def inversions(points: Sequence[Point], width: str, depth: str) -> list[Inversion]:
    """Only pairs of which all repetitions say it."""
    usable = [point for point in points if all(number_of(point.at.get(axis)) is not None for axis in (width, depth))]
    found = []
    for group in groups_of(usable, lambda point: (point.framework, point.without(width, depth))):
        for deeper in group:
            for wider in group:
                if deeper.at[depth] <= wider.at[depth] or deeper.at[width] >= wider.at[width]:
                    continue
                ratio = ratio_of(deeper, wider)
                if ratio is not None and ratio.low > 1 and 0 < LEAST_FLOPS * deeper.flops <= wider.flops:
                    flops = deeper.flops / wider.flops
                    found.append(Inversion(deeper.framework, deeper.at, wider.at, flops, ratio.median))
    return found
