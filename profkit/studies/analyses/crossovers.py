"""Where one overtakes another: points in, the places along an axis where the faster framework (or device) changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Line, Point, lines, ratio_of


@dataclass(frozen=True)
class Crossover:
    """Below `at_x` the first is faster, above it the second."""

    axis: str
    first: str
    second: str
    at: Mapping[str, Any]
    below: float
    above: float
    """The measured neighbours."""
    at_x: float
    """Between them, where the ratio passes 1 on a straight line of logarithms."""
    is_resolved: bool
    """Whether all repetitions of both neighbours agree on which is faster."""


def crossovers(points: Sequence[Point], axis: str) -> list[Crossover]:
    """Between any two frameworks."""
    return _between(lines(points, axis), lambda one, other: one.framework != other.framework and one.at == other.at)


def value_crossovers(points: Sequence[Point], axis: str, between: str) -> list[Crossover]:
    """Between any two values of another axis (`device`, `threads`) in the same framework."""

    def fits(one: Line, other: Line) -> bool:
        rest = [{name: value for name, value in line.at.items() if name != between} for line in (one, other)]
        return one.framework == other.framework and rest[0] == rest[1] and one.at.get(between) != other.at.get(between)

    return _between(lines(points, axis), fits, between)


def _between(found: Sequence[Line], fits: Any, between: str = "") -> list[Crossover]:
    crossings = []
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if fits(one, other):
                crossings += _crossings(one, other, between)
    return crossings


def _crossings(one: Line, other: Line, between: str) -> list[Crossover]:
    partners = {point.at[other.axis]: point for point in other.points}
    both = [(point, partners[point.at[one.axis]]) for point in one.points if point.at[one.axis] in partners]
    names = [f"{line.framework} {between} {line.at[between]}" if between else line.framework for line in (one, other)]
    found = []
    for (a, b), (c, d) in itertools.pairwise(both):
        before, after = math.log(a.step_ns / b.step_ns), math.log(c.step_ns / d.step_ns)
        if before * after >= 0:
            continue
        first, second = names if before < 0 else names[::-1]
        x = [float(point.at[one.axis]) for point in (a, c)]
        share = before / (before - after)
        has_logs = x[0] > 0
        at_x = x[0] * (x[1] / x[0]) ** share if has_logs else x[0] + share * (x[1] - x[0])
        rest = {name: value for name, value in one.at.items() if name != between}
        resolved = all(_is_clear(*pair) for pair in ((a, b), (c, d)))
        found.append(Crossover(one.axis, first, second, rest, x[0], x[1], at_x, resolved))
    return found


def _is_clear(one: Point, other: Point) -> bool:
    ratio = ratio_of(one, other)
    return ratio is not None and (ratio.low > 1 or ratio.high < 1)
