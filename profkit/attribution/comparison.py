"""Two profiles side by side: rows added, gone, faster, slower, same or not resolved; and which of them fail a check.

How samples are judged is given by the caller (measurement/judging.py): this stage knows rows, not statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from profkit.attribution.profiles import ComparableProfile, ProfileRow

ADDED, GONE = "added", "gone"
FASTER, SLOWER, SAME, NOT_RESOLVED = "faster", "slower", "same", "not resolved"
SMALL = 0.01
"""A row below this share of both sides is not worth an alarm of its own; the total still has it."""
CHANCE = 0.05
"""So many verdicts of 95 % intervals are wrong when nothing changed."""
FAIRNESS = ("network", "framework", "mode", "threads", "step", "machine", "program")
"""A check against a limit means something only if these are equal."""


class RatioInterval(Protocol):
    """A ratio; without ends when too little was measured."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


class SampleJudgement(Protocol):
    """What is said of two sets of samples."""

    @property
    def a(self) -> float: ...
    @property
    def b(self) -> float: ...
    @property
    def ratio(self) -> RatioInterval: ...
    @property
    def verdict(self) -> str: ...
    @property
    def samples_needed(self) -> int | None: ...


Judge = Callable[[Sequence[float], Sequence[float]], SampleJudgement]


@dataclass(frozen=True)
class ComparedRow:
    """One row of both sides; a None stands where a side does not have it. ratio = a / b: above 1, b is faster."""

    name: str
    verdict: str
    a_ns: float | None
    b_ns: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    share_a: float | None = None
    share_b: float | None = None
    calls_a: float | None = None
    calls_b: float | None = None
    samples_a: int = 0
    samples_b: int = 0
    samples_needed: int | None = None

    @property
    def change_ns(self) -> float:
        """By how much b takes longer."""
        return (self.b_ns or 0.0) - (self.a_ns or 0.0)

    @property
    def share(self) -> float:
        """The larger part that it is of either side."""
        return max(self.share_a or 0.0, self.share_b or 0.0)


@dataclass(frozen=True)
class Comparison:
    """All rows, the largest change first; the whole; and what else is different."""

    per: str
    by: str
    rows: tuple[ComparedRow, ...]
    totals: tuple[ComparedRow, ...]
    differences: tuple[tuple[str, str, str], ...]
    """What of the captures differs: name, a's, b's."""
    troubles: tuple[str, str] = ("", "")
    """What makes the times of a, and of b, doubtful."""

    @property
    def unfair(self) -> tuple[tuple[str, str, str], ...]:
        """Differences that forbid a check against a limit."""
        return tuple(each for each in self.differences if each[0] in FAIRNESS)

    @property
    def judged(self) -> int:
        """Rows that both sides have."""
        return sum(row.verdict not in (ADDED, GONE) for row in self.rows)

    @property
    def expected_by_chance(self) -> float:
        """So many rows at most would be called faster or slower if nothing had changed."""
        return CHANCE * self.judged

    def count(self, verdict: str) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def samples_needed_for_total(self) -> int | None:
        """How many samples would resolve the whole; None when it is resolved, or when no number would do."""
        return self.totals[0].samples_needed if self.totals else None

    def samples_needed_for_rows(self) -> int | None:
        """How many would resolve all rows that matter and can be resolved; None when there is no such row."""
        return max((row.samples_needed for row in self.rows if row.samples_needed and row.share >= SMALL), default=None)


def compare(a: ComparableProfile, b: ComparableProfile, judge: Judge) -> Comparison:
    """Rows by their names."""
    names = dict.fromkeys([*a.rows, *b.rows])
    rows = [_row(name, a.rows.get(name), b.rows.get(name), judge) for name in names]
    totals = [
        _row(name, ProfileRow(samples, 1, 1.0), ProfileRow(b.totals[name], 1, 1.0), judge)
        for name, samples in a.totals.items()
        if len(samples) and len(b.totals.get(name, ()))
    ]
    # What only one side tells (the version of its framework) is no difference by itself.
    differences = [
        (name, value, b.about[name]) for name, value in a.about.items() if name in b.about and value != b.about[name]
    ]
    rows.sort(key=lambda row: (-abs(row.change_ns), row.name))
    return Comparison(a.per, a.by, tuple(rows), tuple(totals), tuple(differences), (a.trouble, b.trouble))


def failures(comparison: Comparison, limit: float, despite_trouble: bool = False) -> tuple[ComparedRow, ...]:
    """The whole, and rows that matter, that became slower by more than `limit` with their whole interval.

    Nothing fails by times that others disturbed: intervals cannot know what was not there in the other run.
    """
    if any(comparison.troubles) and not despite_trouble:
        return ()
    rows = [*comparison.totals[:1], *(row for row in comparison.rows if row.share >= SMALL)]
    return tuple(row for row in rows if row.high is not None and row.high < 1.0 / (1.0 + limit))


def _row(name: str, a: ProfileRow | None, b: ProfileRow | None, judge: Judge) -> ComparedRow:
    if a is None or b is None:
        only = a or b
        assert only is not None
        middle = sorted(only.samples_ns)[len(only.samples_ns) // 2]
        if b is None:
            return ComparedRow(
                name, GONE, middle, None, share_a=only.share, calls_a=only.calls, samples_a=len(only.samples_ns)
            )
        return ComparedRow(
            name, ADDED, None, middle, share_b=only.share, calls_b=only.calls, samples_b=len(only.samples_ns)
        )
    found = judge(a.samples_ns, b.samples_ns)
    return ComparedRow(
        name,
        found.verdict,
        found.a,
        found.b,
        found.ratio.value,
        found.ratio.low,
        found.ratio.high,
        a.share,
        b.share,
        a.calls,
        b.calls,
        len(a.samples_ns),
        len(b.samples_ns),
        found.samples_needed,
    )
