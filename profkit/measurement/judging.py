"""Two sets of samples that were not taken in turns: their ratio, a verdict, and how many more it takes to tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from profkit.measurement.statistics import RESAMPLES, Estimate, Floats, middle_mean, student_t, verdict

NOT_RESOLVED = "not resolved"
ENOUGH = 6
"""From so many samples on either side the bootstrap is used, below it Welch's t (as in statistics.log_interval)."""
MOST_SAMPLES = 10_000
"""Beyond this, a quieter machine helps and more samples do not."""


@dataclass(frozen=True)
class Judgement:
    """Typical values of both sides, a / b with its interval, and what can be said of it."""

    a: float
    b: float
    ratio: Estimate
    verdict: str  # faster, slower (b than a), same, not resolved
    samples_needed: int | None = None
    """Of each side, when not resolved: about so many would tell; None when resolved, or when no number would."""


def judge(a: Sequence[float], b: Sequence[float], margin: float, drift: float = 0.0) -> Judgement:
    """Compare two sets of samples; `drift` is a further doubt, on logarithms, and adds to the interval as errors do.

    Zero counts as one: clocks tell nothing below a nanosecond.
    """
    logs_a, logs_b = _logs(a), _logs(b)
    # Outliers are usual in steps; two or three values have no middle half.
    centre_a, centre_b = (float(middle_mean(logs)) for logs in (logs_a, logs_b))
    reach = _reach(logs_a, logs_b)
    value = math.exp(centre_a - centre_b)
    ratio = Estimate(value, None, None)
    if reach is not None:
        ratio = Estimate(
            value, value * math.exp(-math.hypot(reach[0], drift)), value * math.exp(math.hypot(reach[1], drift))
        )
    word = verdict(ratio, margin)
    needed = samples_needed(ratio, min(len(a), len(b)), margin) if word == NOT_RESOLVED else None
    return Judgement(math.exp(centre_a), math.exp(centre_b), ratio, word, needed)


def judge_runs(a: Sequence[float], b: Sequence[float], margin: float) -> Judgement:
    """Compare samples of two runs, each in the order of time.

    Intervals assume independent samples, but a machine has phases that last longer than a step. Differences smaller
    than the variation within one run cannot be resolved, so the interval includes that variation.
    """
    return judge(a, b, margin, max(drift(a), drift(b)))


def drift(samples: Sequence[float]) -> float:
    """How far the first and the second half of a run lie apart, on logarithms; 0 when they have no two samples each."""
    logs = _logs(samples)
    half = len(logs) // 2
    return abs(float(middle_mean(logs[:half]) - middle_mean(logs[half:]))) if half >= 2 else 0.0


def samples_needed(ratio: Estimate, count: int, margin: float) -> int | None:
    """How many samples would make the interval narrow enough to lie on one side of the margin."""
    if ratio.low is None or ratio.high is None:
        return 2 * ENOUGH
    half = math.log(ratio.high / ratio.low) / 2.0
    # Where the centre lies is itself uncertain: at the margin by chance does not mean at the margin for ever.
    distance = max(abs(abs(math.log(ratio.value)) - math.log1p(margin)), math.log1p(margin) / 2.0)
    if distance == 0.0:
        return None
    # Intervals shrink with the root of the count; a fifth more, as the width itself is only estimated.
    needed = math.ceil(1.2 * count * (half / distance) ** 2)
    return needed if needed <= MOST_SAMPLES else None


def _logs(samples: Sequence[float]) -> Floats:
    return np.log(np.maximum(np.asarray(samples, np.float64), 1.0))


def _reach(a: Floats, b: Floats) -> tuple[float, float] | None:
    """How far the difference of the logarithms reaches below and above its centre, at 95 %."""
    least = min(len(a), len(b))
    if least < 2:
        return None
    if least < ENOUGH:
        half = _welch(a, b)
        return half, half
    generator = np.random.default_rng(len(a) + len(b))
    drawn = [middle_mean(side[generator.integers(0, len(side), (RESAMPLES, len(side)))]) for side in (a, b)]
    # Widened as a t interval is, because plain percentiles are too narrow for few values.
    tail = NormalDist().cdf(-math.sqrt(least / (least - 1)) * student_t(least - 1))
    low, high = np.quantile(drawn[0] - drawn[1], [tail, 1.0 - tail])
    centre = float(middle_mean(a) - middle_mean(b))
    return max(0.0, centre - float(low)), max(0.0, float(high) - centre)


def _welch(a: Floats, b: Floats) -> float:
    """Half-width of Welch's interval of the difference of two means."""
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (a, b)]
    if sum(parts) == 0.0:
        return 0.0
    degrees = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (a, b)))
    return student_t(max(1, math.floor(degrees))) * math.sqrt(sum(parts))
