"""What threads give: points of a sweep over `threads` in, speed-up and efficiency against one thread out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, Ratio, groups_of, ratio_of

THREADS = "threads"
FASTER, SLOWER, NOT_RESOLVED = "faster", "slower", "not resolved"


@dataclass(frozen=True)
class SpeedUp:
    framework: str
    at: Mapping[str, Any]
    """The other axes."""
    threads: int
    ratio: Ratio
    """Time on one thread over time on these."""

    @property
    def efficiency(self) -> float:
        """Share of the speed-up that so many threads could give."""
        return self.ratio.median / self.threads

    @property
    def verdict(self) -> str:
        """What all repetitions say: faster, slower, or neither."""
        if self.ratio.low > 1:
            return FASTER
        return SLOWER if self.ratio.high < 1 else NOT_RESOLVED


def speed_ups(points: Sequence[Point]) -> list[SpeedUp]:
    """Per framework and place, for every number of threads above one; nothing where one thread was not measured."""
    found = []
    for group in groups_of(points, lambda point: (point.framework, point.without(THREADS))):
        one = next((point for point in group if point.at.get(THREADS) == 1), None)
        for point in sorted(group, key=lambda point: int(point.at.get(THREADS, 0))):
            threads = point.at.get(THREADS, 0)
            ratio = ratio_of(one, point) if one is not None and threads > 1 else None
            if ratio is not None:
                found.append(SpeedUp(point.framework, point.without(THREADS), threads, ratio))
    return found
