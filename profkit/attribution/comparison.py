"""Two profiles side by side: rows added, gone, faster, slower, same or not resolved; and which of them fail a check.

How samples are judged is given by the caller (measurement/statistics/judging.py): this stage knows no statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from profkit.attribution.profiles import ComparableProfile, ProfileRow

ADDED, GONE = "added", "gone"
FASTER, SLOWER, SAME, NOT_RESOLVED = "faster", "slower", "same", "not resolved"
SMALL = 0.01
"""A row below this share of both sides is not worth a separate alarm; the total still has it."""
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
    """What is said of two rows."""

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
    @property
    def runs_needed(self) -> int | None: ...


SampleGroups = Sequence[Sequence[float]]
Judge = Callable[[Sequence[tuple[SampleGroups, SampleGroups]], bool, float], Sequence[SampleJudgement]]
"""Rows of both sides, whether the first is the whole, and the margin in; verdicts corrected for their number out."""


@dataclass(frozen=True)
class ComparedRow:
    """One row of both sides; None if a side does not have it. ratio = a / b: above 1, b is faster."""

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
    processes_a: int = 0
    processes_b: int = 0
    samples_needed: int | None = None
    runs_needed: int | None = None

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
    failed: tuple[ComparedRow, ...] = ()
    """The whole, and rows that matter, that became slower than a limit allows."""
    troubles: tuple[str, str] = ("", "")
    """What makes the times of a, and of b, doubtful: without verdicts, unless that was forced."""
    dropped: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Processes of a, and of b, that do not count."""
    processes: tuple[int, int] = (1, 1)

    @property
    def unfair(self) -> tuple[tuple[str, str, str], ...]:
        """Differences that forbid a check against a limit."""
        return tuple(each for each in self.differences if each[0] in FAIRNESS)

    @property
    def corrected_for(self) -> int:
        """Rows that share the doubt: those that both sides have, and further totals; the whole has its own."""
        return sum(row.verdict not in (ADDED, GONE) for row in self.rows) + len(self.totals[1:])

    def count(self, verdict: str) -> int:
        """How many rows have this verdict."""
        return sum(row.verdict == verdict for row in self.rows)

    def samples_needed_for_total(self) -> int | None:
        """How many samples would resolve the whole; None when it is resolved, or when no number would do."""
        return self.totals[0].samples_needed if self.totals else None

    def samples_needed_for_rows(self) -> int | None:
        """How many would resolve all rows that matter and can be resolved; None when there is no such row."""
        return max((row.samples_needed for row in self.rows if row.samples_needed and row.share >= SMALL), default=None)

    def runs_needed(self) -> int | None:
        """How many processes would resolve the whole and such rows."""
        wanted = [*self.totals[:1], *(row for row in self.rows if row.share >= SMALL)]
        return max((row.runs_needed for row in wanted if row.runs_needed), default=None)


def compare(
    a: ComparableProfile,
    b: ComparableProfile,
    judge: Judge,
    margin: float,
    limit: float | None = None,
    despite_trouble: bool = False,
) -> Comparison:
    """Rows by their names; with a limit also those that became slower by more than it.

    Times that others disturbed are shown and not judged: intervals cannot know what was not there in the other run.
    """
    pairs = {
        name: (ProfileRow(samples, 1, 1.0), ProfileRow(b.totals[name], 1, 1.0))
        for name, samples in a.totals.items()
        if b.totals.get(name)
    }
    wholes = len(pairs)
    pairs |= {name: (row, b.rows[name]) for name, row in a.rows.items() if name in b.rows}
    found = judge([(one.samples_ns, other.samples_ns) for one, other in pairs.values()], wholes > 0, margin)
    both = [_row(name, *sides, judged) for (name, sides), judged in zip(pairs.items(), found)]
    is_judged = despite_trouble or not (a.trouble or b.trouble)
    if not is_judged:
        both = [replace(row, verdict=NOT_RESOLVED, samples_needed=None, runs_needed=None) for row in both]
    rows = both[wholes:]
    rows += [_only(name, row, GONE) for name, row in a.rows.items() if name not in b.rows]
    rows += [_only(name, row, ADDED) for name, row in b.rows.items() if name not in a.rows]
    rows.sort(key=lambda row: (-abs(row.change_ns), row.name))
    # A fact that only one side has (the version of its framework) is not a difference.
    differences = [
        (name, value, b.about[name]) for name, value in a.about.items() if name in b.about and value != b.about[name]
    ]
    comparison = Comparison(
        a.per,
        a.by,
        tuple(rows),
        tuple(both[:wholes]),
        tuple(differences),
        troubles=(a.trouble, b.trouble),
        dropped=(tuple(a.dropped), tuple(b.dropped)),
        processes=(a.processes, b.processes),
    )
    if limit is None or not is_judged:
        return comparison
    wanted = {row.name for row in both[:1] if wholes} | {row.name for row in both[wholes:] if row.share >= SMALL}
    weighed = {name: sides for name, sides in pairs.items() if name in wanted}
    judged = judge([(one.samples_ns, other.samples_ns) for one, other in weighed.values()], wholes > 0, limit)
    slower = {name for name, each in zip(weighed, judged) if each.verdict == SLOWER}
    failed = [row for row in (*both[:1], *rows) if row.name in slower]
    return replace(comparison, failed=tuple(dict.fromkeys(failed)))


def _only(name: str, row: ProfileRow, verdict: str) -> ComparedRow:
    samples = sorted(sample for process in row.samples_ns for sample in process)
    side = "a" if verdict == GONE else "b"
    times: dict[str, Any] = {"a_ns": None, "b_ns": None, f"{side}_ns": samples[len(samples) // 2]}
    return ComparedRow(name, verdict, **times, **_counts(row, side))


def _row(name: str, a: ProfileRow, b: ProfileRow, found: SampleJudgement) -> ComparedRow:
    return ComparedRow(
        name,
        found.verdict,
        found.a,
        found.b,
        found.ratio.value,
        found.ratio.low,
        found.ratio.high,
        samples_needed=found.samples_needed,
        runs_needed=found.runs_needed,
        **_counts(a, "a"),
        **_counts(b, "b"),
    )


def _counts(row: ProfileRow, side: str) -> dict[str, Any]:
    samples, processes = sum(map(len, row.samples_ns)), len(row.samples_ns)
    known = {"share": row.share, "calls": row.calls, "samples": samples, "processes": processes}
    return {f"{what}_{side}": value for what, value in known.items()}
