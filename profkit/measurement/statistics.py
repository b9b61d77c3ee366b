"""Pure functions from samples to numbers: centre, long-run variance, intervals, verdict. No clock, no process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 2000
PROJECTIONS = 4
BLOCKS = 64
"""Projections and blocks of long_run_error; docs/measured/noise_replay.md says why four, and how sure that is."""
NORMAL = 1.96
"""Two-sided 95 % quantile of the normal distribution."""

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


@dataclass(frozen=True)
class Centre:
    """A centre on logarithms, and how far its 95 % interval reaches by the noise of its own runs."""

    log: float
    reach: float | None
    """None: one value has no interval."""

    def estimate(self, floor: float) -> Estimate:
        """The value with its interval; `floor`, the machine's own scatter between runs, adds in quadrature."""
        value = math.exp(self.log)
        if self.reach is None:
            return Estimate(value, None, None)
        reach = math.hypot(self.reach, NORMAL * floor)
        return Estimate(value, value * math.exp(-reach), value * math.exp(reach))


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


def block_centres(values: Floats, most: int = BLOCKS) -> Floats:
    """Centres of blocks of neighbours, so that single outliers do not count; few values are a block each."""
    count = min(most, max(len(values) // 4, min(len(values), 2 * PROJECTIONS)))
    return np.array([middle_mean(block) for block in np.array_split(values, count)])


def cosine_projections(values: Floats, count: int) -> Floats:
    """Projections on the slowest cosines of the run, each with the variance that white noise of one value has."""
    places = (np.arange(len(values)) + 0.5) / len(values)
    cosines = np.cos(math.pi * np.outer(np.arange(1, count + 1), places))
    result: Floats = math.sqrt(2.0 / len(values)) * cosines @ values
    return result


def long_run_error(values: Floats, projections: int = PROJECTIONS) -> tuple[float, int]:
    """Standard error of the centre of a series in order of time, with its degrees of freedom.

    The noise of a machine grows towards low frequencies, so neighbours say little of it: the variance is that of the
    slowest cosines (equal-weighted cosine estimator). Of few values they are all the cosines there are, and the error
    is the usual one.
    """
    centres = block_centres(values)
    degrees = min(projections, len(centres) - 1)
    variance = float(np.mean(np.square(cosine_projections(centres, degrees))))
    return math.sqrt(variance / len(centres)), degrees


def centre_of(runs: Sequence[Floats]) -> Centre | None:
    """Centre of logarithms, a series in order of time per run; several runs count as one value each."""
    runs = [run for run in runs if len(run)]
    if not runs:
        return None
    centres = np.array([middle_mean(run) for run in runs])
    if len(runs) > 1:
        error = float(np.std(centres, ddof=1)) / math.sqrt(len(runs))
        return Centre(float(centres.mean()), student_t(len(runs) - 1) * error)
    if len(runs[0]) < 2:
        return Centre(float(centres[0]), None)
    error, degrees = long_run_error(runs[0])
    return Centre(float(centres[0]), student_t(degrees) * error)


def log_interval(values: Floats, centre: Callable[[Floats], Floats]) -> Estimate:
    """Centre and interval of positive values that are independent of each other, worked out on their logarithms.

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
    """One time per round, in order of time: the median of the samples taken in it."""
    grouped: dict[int, list[float]] = {}
    for sample, index in zip(samples, rounds):
        grouped.setdefault(index, []).append(sample)
    return {index: float(np.median(group)) for index, group in sorted(grouped.items())}


def time_centre(times: Mapping[int, float], starts: Sequence[int] = (0,)) -> Centre | None:
    """Centre of the times of rounds; `starts` are the first rounds of the runs."""
    return centre_of(by_run({index: math.log(time) for index, time in times.items()}, starts))


def ratio_centre(
    baseline: Mapping[int, float], other: Mapping[int, float], starts: Sequence[int] = (0,)
) -> Centre | None:
    """Centre of baseline time / other time, paired by round so that what slowed a whole round cancels."""
    return centre_of(by_run(log_ratios(baseline, other), starts))


def log_ratios(baseline: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    """Of the rounds that both have."""
    return {index: math.log(baseline[index] / other[index]) for index in sorted(baseline.keys() & other.keys())}


def by_run(logs: Mapping[int, float], starts: Sequence[int]) -> list[Floats]:
    """Values of rounds as one series per run."""
    ends = [*starts[1:], math.inf]
    return [
        np.array([log for index, log in sorted(logs.items()) if begin <= index < end])
        for begin, end in zip(starts, ends)
    ]


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


def least_difference(ratio: Estimate, margin: float) -> float | None:
    """The smallest difference from the baseline that an interval of this width resolves; None without one."""
    if ratio.high is None:
        return None
    return (1.0 + margin) * ratio.high / ratio.value - 1.0


def times_longer(ratio: Centre, floor: float, margin: float) -> float | None:
    """How many times longer a run must be to resolve this ratio; None when none can, because the floor stays."""
    if ratio.reach is None:
        return None
    distance = abs(abs(ratio.log) - math.log1p(margin))
    left = distance**2 - (NORMAL * floor) ** 2
    # Intervals shrink with the root of the time at best; a fifth more, as the width itself is only estimated.
    return 1.2 * ratio.reach**2 / left if left > 0.0 else None
