"""Frameworks against each other: points in, how many times faster each is than each, and how much memory it takes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, geometric_mean, groups_of, ratio_of

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
    """Every ordered pair of different frameworks; times are compared within a repetition."""
    ratio = _time_ratio if quantity == TIME else _memory_ratio
    names = list(dict.fromkeys(point.framework for point in points))
    places = [{point.framework: point for point in group} for group in groups_of(points, lambda point: point.at)]
    found = []
    for first, second in itertools.permutations(names, 2):
        ratios = [
            (value, place[first].at)
            for place in places
            if first in place and second in place and (value := ratio(place[second], place[first])) is not None
        ]
        if ratios:
            values = [value for value, _ in ratios]
            highest, at = max(ratios, key=lambda pair: pair[0])
            found.append(Pair(first, second, quantity, min(values), geometric_mean(values), highest, len(values), at))
    return found


def _time_ratio(above: Point, below: Point) -> float | None:
    ratio = ratio_of(above, below)
    return ratio.median if ratio is not None else None


def _memory_ratio(above: Point, below: Point) -> float | None:
    return above.peak_bytes / below.peak_bytes if above.peak_bytes and below.peak_bytes else None
