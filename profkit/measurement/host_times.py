"""The host's time of a GPU row, besides the device's time: launching, and a whole call with waiting, by round."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from profkit.measurement.result import Row

HOST_BOUND = 1.1
"""Where launching takes this multiple of the device's time, a loop of such calls waits for the host."""


@dataclass
class HostTimes:
    """Of one row, as its turns bring them."""

    walls: dict[int, float] = field(default_factory=dict)
    """By round: one call with waiting, by the wall clock; only of short calls."""
    dispatches: list[float] = field(default_factory=list)

    def take(self, index: int, wall_ns: float | None, dispatch_ns: float | None) -> None:
        """Add the times of the turn of round `index`."""
        if wall_ns is not None:
            self.walls[index] = wall_ns
        if dispatch_ns is not None:
            self.dispatches.append(dispatch_ns)

    @property
    def wall_ns(self) -> float | None:
        """Median over rounds."""
        return float(np.median(list(self.walls.values()))) if self.walls else None

    @property
    def dispatch_ns(self) -> float | None:
        """Median over turns."""
        return float(np.median(self.dispatches)) if self.dispatches else None


def is_host_bound(row: Row) -> bool:
    """Whether a loop of such calls runs as fast as the host launches them, not as the device works."""
    return None not in (row.dispatch_ns, row.median_ns) and (row.dispatch_ns or 0) > HOST_BOUND * (row.median_ns or 0)
