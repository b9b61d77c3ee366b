"""Whether a kernel lives on repeated inputs: times of calls on new contents beside those on the same contents.

Input: pairs of times of a row and of the baseline. Output: an AuditFinding. It starts no process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

Floats = list[float]

FRESH_FACTOR = 1.2
"""A kernel is accused only of being slower on new contents by more than this beyond what the baseline shows."""
ALONE_FACTOR = 2.0
"""And the same for being slower when it is called alone than in the loop, with any contents."""
LEAST_ALONE_NS = 50_000.0
"""Of shorter calls, caches and branch predictors that other code has used explain more."""
FEWEST = 5
"""Pairs: of fewer nothing is said."""
FEWEST_SHOWN = 8
"""Samples on changing contents beside the time of the row: without partners, five may be slow by chance."""
CONFIDENCE = 0.98
REPEATED_INPUTS, REPEATED_CALLS = "lives on repeated inputs", "lives on repeated calls"


@dataclass(frozen=True)
class CallTimes:
    """Nanoseconds of a call alone, and of one of those in a row that led to it."""

    wall: float
    processor: float
    """Of all threads of the process: what other processes take does not show in it."""
    lead_wall: float
    lead_processor: float


@dataclass
class AuditLog:
    """Pair by pair."""

    fresh: list[CallTimes] = field(default_factory=list)
    """After the activations got new contents in the same memory."""
    steady: list[CallTimes] = field(default_factory=list)
    """After the same contents were written again."""
    poked: list[CallTimes] = field(default_factory=list)
    """Of samples in the loop, each call of which finds some values changed and has its result read; `lead` is the
    sample after it, on the same contents."""
    sample_ns: float = 0.0
    """What the samples take that count for the row; 0 where that is not known."""

    def take(self, fresh: CallTimes, steady: CallTimes) -> None:
        """One more pair."""
        self.fresh.append(fresh)
        self.steady.append(steady)

    def __len__(self) -> int:
        return len(self.fresh)

    @property
    def ratios(self) -> tuple[Floats, Floats]:
        """Logarithms of new / same, by the wall and by processors."""
        pairs = list(zip(self.fresh, self.steady))
        return (
            [log_ratio(fresh.wall, steady.wall) for fresh, steady in pairs],
            [log_ratio(fresh.processor, steady.processor) for fresh, steady in pairs],
        )

    @property
    def alone(self) -> tuple[Floats, Floats]:
        """Logarithms of alone / in a row on the same contents, by the wall and by processors."""
        return against_lead(self.steady)

    @property
    def changing(self) -> tuple[Floats, Floats]:
        """Logarithms of calls in a row on changing contents / on the same ones, by the wall and by processors."""
        return against_lead(self.poked)

    @property
    def shown(self) -> Floats:
        """Logarithms of samples on changing contents / those that count for the row, by the clock that says less."""
        if not self.sample_ns or len(self.poked) < FEWEST_SHOWN:
            return []
        return [log_ratio(min(times.wall, times.processor), self.sample_ns) for times in self.poked]

    @property
    def alone_ns(self) -> float:
        """Of a call alone on the same contents, by the clock that says less."""
        return middle([min(times.wall, times.processor) for times in self.steady])

    @property
    def is_noisy(self) -> bool:
        """Whether it could hide what is looked for."""
        return any(high - low > math.log(FRESH_FACTOR) for low, high in map(ends, self.ratios))


@dataclass(frozen=True)
class AuditFinding:
    """Medians of ratios, their lower ends, and what the baseline explains."""

    pairs: int
    fresh_ratio: float
    """New contents / same contents."""
    fresh_low: float
    fresh_allowed: float
    alone_ratio: float
    """A call alone on the same contents / one in a row."""
    alone_low: float
    alone_allowed: float
    poked_pairs: int = 0
    poked_ratio: float = 0.0
    """Calls in a row on changing contents / on the same ones."""
    poked_low: float = 0.0
    poked_allowed: float = 0.0
    shown_ratio: float = 0.0
    """Calls in a row on changing contents / the time that the row shows. A kernel that works for a while after it has
    met new contents, or in some turns only, is as slow in the sample beside them."""
    shown_low: float = 0.0
    shown_allowed: float = 0.0

    @property
    def verdict(self) -> str:
        """Words in the place of `faster`; nothing for an honest kernel."""
        numbers = (
            (self.fresh_low, self.fresh_allowed),
            (self.poked_low, self.poked_allowed),
            (self.shown_low, self.shown_allowed),
        )
        if any(low > allowed for low, allowed in numbers):
            return REPEATED_INPUTS
        return REPEATED_CALLS if self.alone_low > self.alone_allowed else ""

    @property
    def words(self) -> str:
        """The numbers behind the verdict."""
        if not self.verdict:
            return ""
        if self.poked_low > self.poked_allowed:
            what = "calls whose inputs change a little take {} times those on repeated ones"
            numbers = self.poked_ratio, self.poked_low, self.poked_allowed
        elif self.shown_low > self.shown_allowed:
            what = "calls whose inputs change a little take {} times the time of its other samples"
            numbers = self.shown_ratio, self.shown_low, self.shown_allowed
        elif self.verdict == REPEATED_INPUTS:
            what = "calls on new contents take {} times those on repeated ones"
            numbers = self.fresh_ratio, self.fresh_low, self.fresh_allowed
        else:
            what = "a call alone takes {} times one in a row"
            numbers = self.alone_ratio, self.alone_low, self.alone_allowed
        ratio, low, allowed = (f"{number:.3g}" for number in numbers)
        return f"{what.format(ratio)} (at least {low}; up to {allowed} is allowed)"


def audit_finding(log: AuditLog, baseline: AuditLog | None = None) -> AuditFinding | None:
    """None when there are too few pairs.

    New contents are timed by the clock that shows more for the row: processors do not count what other processes do
    for it, the wall counts what they do to it, in both calls of a pair alike. A call alone has waited longer for a
    processor than one in a row on a busy machine, and a sample may be disturbed: there both clocks must say it.
    """
    if max(len(log), len(log.poked)) < FEWEST:
        return None
    baseline = AuditLog() if baseline is None else baseline
    fresh, allowed = max(zip(log.ratios, [FRESH_FACTOR * above(logs) for logs in enough(baseline.ratios)]), key=excess)
    alone, alone_allowed = min(
        zip(log.alone, [ALONE_FACTOR * max(1.0, math.exp(middle(logs))) for logs in enough(baseline.alone)]), key=excess
    )
    poked, poked_allowed = min(
        zip(log.changing, [FRESH_FACTOR * above(logs) for logs in enough(baseline.changing)]), key=excess
    )
    return AuditFinding(
        pairs=len(log),
        fresh_ratio=math.exp(middle(fresh)),
        fresh_low=least(fresh),
        fresh_allowed=allowed,
        alone_ratio=math.exp(middle(alone)),
        alone_low=least(alone) if log.alone_ns >= LEAST_ALONE_NS else 0.0,
        alone_allowed=alone_allowed,
        poked_pairs=len(log.poked),
        poked_ratio=math.exp(middle(poked)),
        poked_low=least(poked),
        poked_allowed=poked_allowed,
        shown_ratio=math.exp(middle(log.shown)) if log.shown else 0.0,
        shown_low=least(log.shown),
        shown_allowed=FRESH_FACTOR * above(baseline.shown),
    )


def enough(by_clock: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Nothing where there are too few to say anything."""
    return by_clock if len(by_clock[0]) >= FEWEST else ([], [])


def excess(found: tuple[Floats, float]) -> float:
    """How far the lower end is above what is allowed, as a logarithm."""
    logs, allowed = found
    return ends(logs)[0] - math.log(allowed)


def least(logs: Floats) -> float:
    """The lower end of a ratio; 0 when too few pairs have it."""
    return math.exp(ends(logs)[0]) if len(logs) >= FEWEST else 0.0


def middle(logs: Sequence[float]) -> float:
    return float(np.median(logs)) if logs else 0.0


def against_lead(calls: Sequence[CallTimes]) -> tuple[Floats, Floats]:
    """Logarithms by the wall and by processors."""
    return (
        [log_ratio(times.wall, times.lead_wall) for times in calls],
        [log_ratio(times.processor, times.lead_processor) for times in calls],
    )


def above(logs: Sequence[float]) -> float:
    """The ratio up to which the median may be; at least 1."""
    return math.exp(max(0.0, ends(logs)[1]))


def log_ratio(upper_ns: float, lower_ns: float) -> float:
    """Clocks do not resolve less than a nanosecond."""
    return math.log(max(1.0, upper_ns) / max(1.0, lower_ns))


def ends(logs: Sequence[float]) -> tuple[float, float]:
    """Bounds of the median with at least 98 %: of eleven the second and the tenth; of fewer than eight all."""
    ordered, left_out, tail = sorted(logs), 0, 0.0
    while 2 * left_out < len(ordered) - 1:
        tail += math.comb(len(ordered), left_out) * 0.5 ** len(ordered)
        if 2.0 * tail > 1.0 - CONFIDENCE:
            break
        left_out += 1
    left_out = max(0, left_out - 1)
    return (ordered[left_out], ordered[-1 - left_out]) if ordered else (0.0, 0.0)
