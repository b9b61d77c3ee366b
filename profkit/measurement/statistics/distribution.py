"""How a row's times are distributed and how they move: percentiles, two modes, drift. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from profkit.measurement.statistics.estimates import Floats, block_centres, cosine_projections

TRIMMED = 0.1
LEAST_ROUNDS = 16
"""Of fewer rounds neither modes nor drift can be detected."""
LEAST_MODE = 0.15
"""Of the rounds lie around the rarer mode."""
APART, LEAST_GAP = 5.0, 0.03
"""Modes are at least this many of their standard deviations apart (halves of a normal one: 2.7), and by this ratio."""
EMPTY = 2.5
"""Of these deviations lie empty between them: a long tail has no gap."""
DRIFT_PROJECTIONS = 8
DRIFT_QUANTILE = 4.03
"""Two-sided 99.5 % quantile of Student's t with DRIFT_PROJECTIONS - 1 degrees: a table has many rows."""
LEAST_DRIFT = 0.01


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """As the fields of a Row are called."""
    ordered = np.sort(np.asarray(samples, np.float64))
    cut = int(TRIMMED * len(ordered))
    named = {f"p{share}_ns": float(np.percentile(ordered, share)) for share in (5, 95, 99)}
    return {**named, "trimmed_mean_ns": float(ordered[cut : len(ordered) - cut].mean())}


def two_modes(times: Mapping[int, float]) -> tuple[float, float, float] | None:
    """Two times around which the times of rounds lie, and the share of the higher one; None when there is one."""
    logs = np.sort(np.log(list(times.values())))
    count = len(logs)
    least = max(2, math.ceil(LEAST_MODE * count))
    if count < LEAST_ROUNDS:
        return None

    def spread(split: int) -> float:
        return float(np.var(logs[:split]) * split + np.var(logs[split:]) * (count - split))

    split = min(range(least, count - least + 1), key=spread)
    low, high = float(logs[:split].mean()), float(logs[split:].mean())
    within = math.sqrt(spread(split) / (count - 2))
    is_empty_between = logs[split] - logs[split - 1] >= EMPTY * within
    if high - low < max(LEAST_GAP, APART * within) or not is_empty_between:
        return None
    return math.exp(low), math.exp(high), (count - split) / count


def drift(logs: Floats) -> float | None:
    """Relative change from the begin of a run to its end; None when faster changes explain it as well."""
    if len(logs) < LEAST_ROUNDS:
        return None
    centres = block_centres(logs)
    slowest, *others = cosine_projections(centres, DRIFT_PROJECTIONS)
    # The slowest cosine falls from 1 to -1 during the run.
    change = -2.0 * slowest * math.sqrt(2.0 / len(centres))
    usual = math.sqrt(float(np.mean(np.square(others))))
    is_drift = abs(slowest) > DRIFT_QUANTILE * usual and abs(change) >= LEAST_DRIFT
    return math.expm1(change) if is_drift else None
