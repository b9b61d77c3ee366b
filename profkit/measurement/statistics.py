"""Pure functions from samples to numbers: centre, bootstrap intervals, verdict. No clock, no process."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000

# Two-sided 95 % quantiles of Student's t for 1..30 degrees of freedom.
STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the interval is None when too little was measured to give one."""

    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Relative half-width of the interval; infinite when there is none."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / (2.0 * self.value)


def middle_mean(values: Floats) -> Floats:
    """Mean of the middle half along the last axis: as robust as needed, smoother than the median."""
    ordered = np.sort(values, axis=-1)
    cut = values.shape[-1] // 4
    result: Floats = ordered[..., cut : values.shape[-1] - cut].mean(axis=-1)
    return result


def median_of(values: Floats) -> Floats:
    """Median along the last axis."""
    result: Floats = np.median(values, axis=-1)
    return result


def student_t(degrees: int) -> float:
    """Two-sided 95 % quantile of Student's t."""
    return STUDENT_T[degrees - 1] if degrees <= len(STUDENT_T) else 1.96 + 2.5 / degrees


def log_interval(values: Floats, centre: Callable[[Floats], Floats]) -> Estimate:
    """Centre and interval of positive values, worked out on their logarithms.

    From six values on: bootstrap, its percentiles widened as a t interval is, because plain percentiles are
    too narrow for few values. Below six the bootstrap knows nothing and Student's t is used.
    """
    logs = np.log(values)
    count = len(logs)
    value = float(np.exp(centre(logs)))
    if count < 2:
        return Estimate(value, None, None)
    if count < 6:
        reach = student_t(count - 1) * float(np.std(logs, ddof=1)) / math.sqrt(count)
        return Estimate(value, value * math.exp(-reach), value * math.exp(reach))
    generator = np.random.default_rng(count)
    drawn = centre(logs[generator.integers(0, count, (RESAMPLES, count))])
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * student_t(count - 1))
    low, high = np.exp(np.quantile(drawn, [tail, 1.0 - tail]))
    return Estimate(value, min(float(low), value), max(float(high), value))


def round_medians(samples: Sequence[float], rounds: Sequence[int]) -> dict[int, float]:
    """One time per round: the median of the samples taken in it."""
    grouped: dict[int, list[float]] = {}
    for sample, index in zip(samples, rounds):
        grouped.setdefault(index, []).append(sample)
    return {index: float(np.median(group)) for index, group in grouped.items()}


def time_estimate(samples: Sequence[float], rounds: Sequence[int]) -> Estimate:
    """Median of all samples, with an interval over rounds: samples of one round share its noise."""
    per_round = np.array(list(round_medians(samples, rounds).values()))
    interval = log_interval(per_round, median_of)
    value = float(np.median(samples))
    if interval.low is None or interval.high is None:
        return Estimate(value, None, None)
    return Estimate(value, min(interval.low, value), max(interval.high, value))


def ratio_estimate(baseline: dict[int, float], other: dict[int, float]) -> Estimate | None:
    """Baseline time / other time, paired by round so that what slowed a whole round cancels."""
    shared = sorted(baseline.keys() & other.keys())
    if not shared:
        return None
    return log_interval(np.array([baseline[i] / other[i] for i in shared]), middle_mean)


def verdict(ratio: Estimate, margin: float) -> str:
    """Faster or slower when the whole interval lies outside the margin, same when all of it lies inside."""
    if ratio.low is None or ratio.high is None:
        return "not resolved"
    if ratio.low > 1.0 + margin:
        return "faster"
    if ratio.high < 1.0 / (1.0 + margin):
        return "slower"
    if ratio.low >= 1.0 / (1.0 + margin) and ratio.high <= 1.0 + margin:
        return "same"
    return "not resolved"
