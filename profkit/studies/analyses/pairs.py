"""Frameworks against each other: points in, how many times faster each is than each, and how much memory it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, geometric_mean, groups_of

TIME, MEMORY = "time", "memory"


@dataclass(frozen=True)
class Pair:
    """Over all places where both were measured."""

    first: str
    second: str
    quantity: str
    low: float
    mean: float
    """Geometric."""
    high: float
    """Of the second's value over the first's: above 1 the first is faster, or takes less memory."""
    places: int
    highest_at: Mapping[str, Any]


def pairs(points: Sequence[Point], quantity: str) -> list[Pair]:
    """Every ordered pair of different frameworks."""
    value: Callable[[Point], float | None] = (
        (lambda point: point.step_ns) if quantity == TIME else (lambda point: point.peak_bytes)
    )
    names = list(dict.fromkeys(point.framework for point in points))
    places = groups_of(points, lambda point: point.at)
    found = []
    for first in names:
        for second in names:
            ratios = [
                (other / own, group[0].at)
                for group in places
                if first != second
                and (own := _of(group, first, value))
                and (other := _of(group, second, value)) is not None
                and other > 0
            ]
            if ratios:
                values = [ratio for ratio, _ in ratios]
                highest, place = max(ratios, key=lambda pair: pair[0])
                mean = geometric_mean(values)
                found.append(Pair(first, second, quantity, min(values), mean, highest, len(values), place))
    return found


def _of(group: Sequence[Point], framework: str, value: Callable[[Point], float | None]) -> float | None:
    return next((value(point) for point in group if point.framework == framework), None)
