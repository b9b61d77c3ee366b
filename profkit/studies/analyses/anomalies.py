"""What does not fit: lines of points in, places where more work takes less time, and points beside their line out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Line, Point, lines, ratio_of

NOT_MONOTONIC, OUTLIER = "not monotonic", "outlier"
LEAST_FALL = 1.05
LEAST_FACTOR = 1.5


@dataclass(frozen=True)
class Anomaly:
    kind: str
    framework: str
    axis: str
    at: Mapping[str, Any]
    x: float
    factor: float
    """Not monotonic: by how much the step is shorter than that of the value before. Outlier: its time over the one
    that its neighbours say."""


def anomalies(points: Sequence[Point], axis: str) -> list[Anomaly]:
    """Along an axis whose larger values are more work."""
    return [each for line in lines(points, axis) for each in (*_falls(line), *_outliers(line))]


def _falls(line: Line) -> list[Anomaly]:
    found = []
    for before, after in zip(line.points, line.points[1:]):
        ratio = ratio_of(before, after)
        if ratio is not None and after.flops > before.flops and ratio.low >= LEAST_FALL:
            found.append(_anomaly(NOT_MONOTONIC, line, after, ratio.median))
    return found


def _outliers(line: Line) -> list[Anomaly]:
    """An inner point whose every repetition is far from the straight line of logarithms between its neighbours."""
    found = []
    x = line.x
    for place in range(1, len(x) - 1):
        left, point, right = line.points[place - 1 : place + 2]
        if x[place - 1] <= 0:
            continue
        share = math.log(x[place] / x[place - 1]) / math.log(x[place + 1] / x[place - 1])
        expected = left.step_ns ** (1 - share) * right.step_ns**share
        if point.low_ns > LEAST_FACTOR * expected or point.high_ns < expected / LEAST_FACTOR:
            found.append(_anomaly(OUTLIER, line, point, point.step_ns / expected))
    return found


def _anomaly(kind: str, line: Line, point: Point, factor: float) -> Anomaly:
    return Anomaly(kind, line.framework, line.axis, line.at, float(point.at[line.axis]), factor)
