"""Whether a worker reports as much time as passes: its values for each turn against the parent's own clock.

Input: turns of all rows. Output: the reason against a row that reports less, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_NS = 2e6
"""Waking a worker and passing two lines take about a tenth of a millisecond on a quiet machine."""
TIMES_USUAL = 5.0
"""Unexplained time of other workers."""
TOLD_SHARE = 0.5
FEWEST_TURNS = 3


@dataclass(frozen=True)
class TurnTime:
    """Of one turn."""

    told_ns: float
    """Sum of its samples."""
    unexplained_ns: float
    """Time between request and reply, by the parent's clock, less what the worker says it spent."""


def unexplained_ns(turns: Sequence[TurnTime]) -> float:
    """Of a usual turn."""
    return float(np.median([turn.unexplained_ns for turn in turns]))


def usual_unexplained_ns(rows: Sequence[Sequence[TurnTime]]) -> float:
    """Of a usual row; 0 without any."""
    return float(np.median([unexplained_ns(turns) for turns in rows if turns] or [0.0]))


def clock_trouble(turns: Sequence[TurnTime], usual_ns: float) -> str:
    """Why its times cannot be believed, or nothing.

    A worker that wakes late on a busy machine does so in some turns; a changed clock reports too little in all.
    """
    if len(turns) < FEWEST_TURNS:
        return ""
    limit_ns = max(LEAST_NS, TIMES_USUAL * usual_ns)
    if all(turn.unexplained_ns > limit_ns + TOLD_SHARE * turn.told_ns for turn in turns):
        told_ns = float(np.median([turn.told_ns for turn in turns]))
        return (
            f"its clock reports less time than passes: {told_ns * 1e-6:.3g} ms of samples in a turn, and "
            f"{unexplained_ns(turns) * 1e-6:.3g} ms more that it does not report (other rows: {usual_ns * 1e-6:.2g} ms)"
        )
    if all(turn.unexplained_ns < -LEAST_NS for turn in turns):
        return f"its clock reports more time than passes: {-unexplained_ns(turns) * 1e-6:.3g} ms in a turn"
    return ""
