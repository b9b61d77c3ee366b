"""Which batch is worth it: points of a sweep over `batch` in, the best batch and where more gives little out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, lines

BATCH = "batch"
SATURATED = 0.9
"""A batch with this share of the best throughput is enough."""


@dataclass(frozen=True)
class Saturation:
    framework: str
    at: Mapping[str, Any]
    best_batch: int
    best_images_per_s: float
    enough_batch: int
    """The smallest with SATURATED of the best throughput."""
    is_at_end: bool
    """The best is the largest that was measured: a larger one may be better still."""


def saturations(points: Sequence[Point]) -> list[Saturation]:
    """Per framework and place."""
    found = []
    for line in lines(points, BATCH):
        rates = {int(point.at[BATCH]): 1e9 * int(point.at[BATCH]) / point.step_ns for point in line.points}
        best = max(rates, key=lambda batch: rates[batch])
        enough = min(batch for batch, rate in rates.items() if rate >= SATURATED * rates[best])
        found.append(Saturation(line.framework, line.at, best, rates[best], enough, best == max(rates)))
    return found
