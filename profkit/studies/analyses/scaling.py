"""How time grows along an axis: a line of points in, its law and the interval of its exponent out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.measurement.statistics.student import student_t
from profkit.studies.analyses.points import Point, lines

CONSTANT, STEP, SUB_LINEAR, LINEAR, SUPER_LINEAR = "constant", "step", "sub-linear", "linear", "super-linear"
FALLING, NOT_RESOLVED = "falling", "not resolved"
SAME = 1.1
"""Values within this factor of each other are called constant."""
STEP_RATIO = 1.25
STEP_SHARE = 0.1
"""A step explains the line when it leaves this share of what the power law leaves unexplained, or less."""
FEWEST = 3


@dataclass(frozen=True)
class Law:
    framework: str
    axis: str
    at: Mapping[str, Any]
    name: str
    exponent: float | None
    low: float | None
    high: float | None
    """95 % interval of the exponent in time = a x^exponent; None with two points."""
    step_at: float | None = None
    """First value of the axis behind the step."""


def laws(points: Sequence[Point], axis: str) -> list[Law]:
    """Per framework and place, of the step's time."""
    return [
        _with_place(line.framework, axis, line.at, fitted(line.x, [point.step_ns for point in line.points]))
        for line in lines(points, axis)
    ]


@dataclass(frozen=True)
class Fit:
    name: str
    exponent: float | None = None
    low: float | None = None
    high: float | None = None
    step_at: float | None = None


def fitted(x: Sequence[float], y: Sequence[float]) -> Fit:
    """The law of positive numbers over positive numbers, x in order."""
    if len(x) < FEWEST or min(*x, *y) <= 0 or len(set(x)) < FEWEST:
        return Fit(NOT_RESOLVED)
    logs = [math.log(value) for value in x], [math.log(value) for value in y]
    exponent, half, rest = _line(*logs)
    low, high = exponent - half, exponent + half
    if max(y) / min(y) <= SAME:
        return Fit(CONSTANT, exponent, low, high)
    if (place := _step(logs[1], rest)) is not None:
        return Fit(STEP, exponent, low, high, x[place])
    return Fit(_name(low, high), exponent, low, high)


def _name(low: float, high: float) -> str:
    if high < 0:
        return FALLING
    if low <= 0:
        return NOT_RESOLVED
    if low > 1:
        return SUPER_LINEAR
    return SUB_LINEAR if high < 1 else LINEAR


def _line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Slope, half of its 95 % interval, and the squares that are left."""
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    spread = sum((value - mean_x) ** 2 for value in x)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / spread
    rest = sum((b - mean_y - slope * (a - mean_x)) ** 2 for a, b in zip(x, y))
    free = len(x) - 2
    return slope, student_t(free) * math.sqrt(rest / free / spread), rest


def _step(y: Sequence[float], rest: float) -> int | None:
    """Where two constants explain the line far better than a power law: the place of the first of the second."""
    best: tuple[float, int] | None = None
    for place in range(2, len(y) - 1):  # two values on either side
        parts = y[:place], y[place:]
        left = sum((value - statistics.fmean(part)) ** 2 for part in parts for value in part)
        if best is None or left < best[0]:
            best = left, place
    if best is None or best[0] > STEP_SHARE * rest:
        return None
    jump = abs(statistics.fmean(y[best[1] :]) - statistics.fmean(y[: best[1]]))
    return best[1] if jump >= math.log(STEP_RATIO) else None


def _with_place(framework: str, axis: str, at: Mapping[str, Any], fit: Fit) -> Law:
    return Law(framework, axis, at, fit.name, fit.exponent, fit.low, fit.high, fit.step_at)
