"""Quantiles of Student's t and of the normal distribution, for any doubt: how far an interval reaches."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

DOUBT = 0.05
"""Of an interval that holds the truth in 95 % of runs."""
MOST_DEGREES = 1000
"""From here on the distribution is normal to three digits."""


def normal_reach(doubt: float = DOUBT) -> float:
    """Two-sided quantile of the normal distribution: what lies beyond has a share of `doubt`."""
    return -NormalDist().inv_cdf(doubt / 2.0)


@lru_cache(maxsize=4096)
def student_t(degrees: int, doubt: float = DOUBT) -> float:
    """Two-sided quantile of Student's t with 1 or more degrees of freedom."""
    if degrees > MOST_DEGREES:
        return normal_reach(doubt)
    low, high = 0.0, 1.0
    while share_within(high, degrees) < 1.0 - doubt:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if share_within(middle, degrees) < 1.0 - doubt else (low, middle)
    return high


def share_within(t: float, degrees: int) -> float:
    """Probability that Student's t lies between -t and t: for whole degrees a finite sum of powers of a cosine."""
    angle = math.atan2(t, math.sqrt(degrees))
    is_odd = degrees % 2
    term = math.cos(angle) if is_odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(2 + is_odd, degrees - 1, 2):
        term *= math.cos(angle) ** 2 * (power - 1) / power
        total += term
    return (2.0 / math.pi) * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total
