"""Pure functions from samples to numbers: centre, long-run variance, intervals, verdict. No clock, no process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from profkit.measurement.statistics.student import DOUBT, normal_reach, student_t

Floats = NDArray[np.float64]
RESAMPLES = 2000
PROJECTIONS = 4
BLOCKS = 64
"""Projections and blocks of long_run_error; docs/measured/noise_replay.md says why four, and how sure that is."""
NORMAL = 1.96
"""Two-sided 95 % quantile of the normal distribution."""
LARGEST_LOG = 700.0
NOT_RESOLVED = "not resolved"


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % interval; the interval is None when too little was measured to give one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Centre:
    """A centre on logarithms, and how sure the noise of its own runs lets it be."""

    log: float
    error: float | None
    """Standard error; None: one value has none."""
    degrees: int = 1
    """Of freedom of that error."""

    @property
    def reach(self) -> float | None:
        """How far the 95 % interval reaches by its own noise."""
        return self.reach_at(0.0)

    def reach_at(self, floor: float, doubt: float = DOUBT) -> float | None:
        """How far an interval reaches; `floor`, the machine's own scatter between runs, adds in quadrature."""
        if self.error is None:
            return None
        return math.hypot(student_t(self.degrees, doubt) * self.error, normal_reach(doubt) * floor)

    def estimate(self, floor: float) -> Estimate:
        """The value with its 95 % interval."""
        reach = self.reach_at(floor)
        if reach is None:
            return Estimate(_exp(self.log), None, None)
        return Estimate(*(_exp(log) for log in (self.log, self.log - reach, self.log + reach)))

    def over(self, other: Centre) -> Centre:
        """Their ratio, measured independently of each other: Welch's degrees of freedom, rounded down."""
        log = self.log - other.log
        if self.error is None or other.error is None:
            return Centre(log, None)
        parts = ((self.error**2, self.degrees), (other.error**2, other.degrees))
        variance = sum(part for part, _ in parts)
        if variance == 0.0:
            return Centre(log, 0.0, self.degrees + other.degrees)
        degrees = variance**2 / sum(part**2 / freedom for part, freedom in parts)
        return Centre(log, math.sqrt(variance), max(1, math.floor(degrees)))


def _exp(log: float) -> float:
    """Finite: damaged files have times that no clock shows."""
    return math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, log)))


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
        return Centre(float(centres.mean()), error, len(runs) - 1)
    if len(runs[0]) < 2:
        return Centre(float(centres[0]), None)
    return Centre(float(centres[0]), *long_run_error(runs[0]))


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
        return NOT_RESOLVED
    if ratio.low > 1.0 + margin:
        return "faster"
    if ratio.high < 1.0 / (1.0 + margin):
        return "slower"
    if ratio.low >= 1.0 / (1.0 + margin) and ratio.high <= 1.0 + margin:
        return "same"
    return NOT_RESOLVED


def verdicts(
    ratios: Sequence[Centre], floors: float | Sequence[float], margin: float, doubt: float = DOUBT
) -> list[str]:
    """Verdicts of the rows of a table, corrected by Holm for their number.

    When nothing differs by more than the margin, some row is called faster or slower in a share of `doubt` of all
    tables, however many rows they have. `same` is not a discovery: it needs the row's own 95 % interval only.
    """
    floors = [floors] * len(ratios) if isinstance(floors, float) else floors
    found = [verdict(ratio.estimate(floor), margin) for ratio, floor in zip(ratios, floors)]
    words = ["same" if word == "same" else NOT_RESOLVED for word in found]
    open_rows = [place for place, ratio in enumerate(ratios) if ratio.error is not None]
    while open_rows:
        resolved = []
        for place in open_rows:
            ratio = ratios[place]
            reach = ratio.reach_at(floors[place], doubt / len(open_rows))
            if reach is not None and abs(ratio.log) - reach > math.log1p(margin):
                resolved.append(place)
                words[place] = "faster" if ratio.log > 0.0 else "slower"
        if not resolved:
            break
        open_rows = [place for place in open_rows if place not in resolved]
    return words


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
