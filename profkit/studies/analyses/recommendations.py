"""What to take: points in, the fastest framework of every place and those that tie with it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, groups_of, ratio_of

TIE = 1.1
"""Within this factor of the fastest a framework is as good."""


@dataclass(frozen=True)
class Recommendation:
    at: Mapping[str, Any]
    fastest: str
    step_ns: float
    ties: tuple[str, ...]
    """Others that are within TIE of it in the median, nearest first."""
    next_ratio: float | None
    """Time of the first that does not tie over that of the fastest, in the same repetition."""
    is_resolved: bool | None
    """Whether the fastest is faster than every one that does not tie in all repetitions; None: all tie."""


def recommendations(points: Sequence[Point]) -> list[Recommendation]:
    """Of every place with two frameworks at least."""
    found = []
    for group in groups_of(points, lambda point: point.at):
        if len(group) < 2:
            continue
        first, *others = sorted(group, key=lambda point: point.step_ns)
        ties = [point for point in others if point.step_ns <= TIE * first.step_ns]
        behind = [point for point in others if point not in ties]
        ratios = [ratio_of(point, first) for point in behind]
        found.append(
            Recommendation(
                first.at,
                first.framework,
                first.step_ns,
                tuple(point.framework for point in ties),
                ratios[0].median if ratios and ratios[0] is not None else None,
                all(ratio is not None and ratio.low > 1 for ratio in ratios) if ratios else None,
            )
        )
    return found
