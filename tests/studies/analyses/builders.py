"""Points of sweeps in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profkit.studies.analyses.points import Point


def point(framework: str, *steps_ns: float, peak: float | None = None, flops: float = 0.0, **at: Any) -> Point:
    """A step time per repetition, and where it is."""
    return Point(framework, at, dict(enumerate(steps_ns, start=1)), peak, flops)


def line(framework: str, axis: str, values: Sequence[float], times: Sequence[float], **at: Any) -> list[Point]:
    """Points along one axis, their work growing with it."""
    return [
        point(framework, time, 1.01 * time, flops=float(value), **{axis: value, **at})
        for value, time in zip(values, times)
    ]
