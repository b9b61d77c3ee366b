"""Two captures compared, for people and programs: a Comparison in; a Table or JSON values out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from profkit.attribution.comparison import (
    ADDED,
    FASTER,
    GONE,
    NOT_RESOLVED,
    SAME,
    SLOWER,
    ComparedRow,
    Comparison,
)
from profkit.attribution.profiles import LAUNCH, STEP
from profkit.rendering.quantities import ABSENT, number_text, percent_text, ratio_interval_text, time_text
from profkit.rendering.tables.table import Column, Line, Table
from profkit.rendering.terminal import visible

SCHEMA = "profkit.comparison/1"
_HOPELESS = "rows that are not resolved are too small or too noisy for any number of steps; a quieter machine may tell"
_VERDICTS = (SLOWER, FASTER, SAME, NOT_RESOLVED, ADDED, GONE)


@dataclass(frozen=True)
class ComparisonRequest:
    """What the user asked to compare."""

    a: str
    b: str
    """Names of the files."""
    margin: float
    limit: float | None = None
    """Of --fail-on."""
    top: int | None = None
    despite_trouble: bool = False
    """The limit holds for times of a busy machine, too."""


def comparison_table(comparison: Comparison, asked: ComparisonRequest, failed: Sequence[ComparedRow] = ()) -> Table:
    """Warnings first, then rows by the size of their change, the whole, and what follows from it."""
    columns = (
        Column("row", comparison.by, is_text=True),
        Column("a", "a"),
        Column("b", "b"),
        Column("change", "b - a"),
        Column("share", "share", dispensable=1),
        Column("ratio", "ratio a / b"),
        Column("verdict", "verdict", is_text=True),
    )
    shown = comparison.rows if asked.top is None else comparison.rows[: asked.top]
    lines = [_line(row) for row in shown]
    more = len(comparison.rows) - len(shown)
    if more:
        lines.append(Line((f"… {more:,} more rows (--top all)", *[""] * 6)))
    lines += [_line(row) for row in comparison.totals]
    return Table(
        title=f"a: {visible(asked.a)}, b: {visible(asked.b)}",
        facts=(*difference_lines(comparison), *_trouble_lines(comparison), _what_times_are(comparison)),
        columns=columns,
        lines=lines,
        notes=summary_lines(comparison, asked, failed),
        records=lambda: [asdict(row) for row in (*comparison.rows, *comparison.totals)],
    )


def difference_lines(comparison: Comparison) -> list[str]:
    """What else is different between the two, worst first."""
    unfair = set(comparison.unfair)
    ordered = sorted(comparison.differences, key=lambda each: each not in unfair)
    return [
        f"{'warning: ' if each in unfair else ''}{each[0]} differs: a {visible(each[1]) or ABSENT}, "
        f"b {visible(each[2]) or ABSENT}"
        for each in ordered
    ]


def _trouble_lines(comparison: Comparison) -> list[str]:
    named = zip("ab", comparison.troubles)
    return [f"warning: {side}: {trouble}; differences may be of the machine" for side, trouble in named if trouble]


def summary_lines(comparison: Comparison, asked: ComparisonRequest, failed: Sequence[ComparedRow]) -> list[str]:
    """The whole in a sentence, how many rows of each kind, what chance does, what to do next, what failed."""
    lines = [_headline(row, asked.margin) for row in comparison.totals[:1]]
    counts = [f"{comparison.count(verdict)} {verdict}" for verdict in _VERDICTS if comparison.count(verdict)]
    if counts:
        lines.append(f"rows: {', '.join(counts)}")
    if comparison.count(FASTER) + comparison.count(SLOWER):
        chance = number_text(comparison.expected_by_chance, 2)
        lines.append(
            f"chance alone calls up to {chance} of {comparison.judged} rows faster or slower (95%); intervals cover "
            "variation within a run, not between runs: record the same program twice to see the latter"
        )
    lines += _next_step(comparison)
    if asked.limit is not None:
        lines.append(_outcome(comparison, failed, asked.limit, asked.despite_trouble))
    return lines


def comparison_to_json(
    comparison: Comparison, asked: ComparisonRequest, failed: Sequence[ComparedRow]
) -> dict[str, Any]:
    """Everything, all rows. ratio is a / b: above 1, b is faster."""
    return {
        "schema": SCHEMA,
        "a": asked.a,
        "b": asked.b,
        "by": comparison.by,
        "per": comparison.per,
        "margin": asked.margin,
        "fail_on": asked.limit,
        "failed": [row.name for row in failed],
        "differences": [dict(zip(("name", "a", "b"), each)) for each in comparison.differences],
        "troubles": dict(zip("ab", comparison.troubles)),
        "expected_by_chance": comparison.expected_by_chance,
        "samples_needed_for_total": comparison.samples_needed_for_total(),
        "samples_needed_for_rows": comparison.samples_needed_for_rows(),
        "totals": [asdict(row) for row in comparison.totals],
        "rows": [asdict(row) for row in comparison.rows],
    }


def _line(row: ComparedRow) -> Line:
    change = "" if row.a_ns is None or row.b_ns is None else _signed(row.change_ns)
    share = row.share_b if row.share_b is not None else row.share_a
    texts = (
        visible(row.name),
        time_text(row.a_ns),
        time_text(row.b_ns),
        change,
        percent_text(None if share is None else 100.0 * share),
        "" if row.ratio is None else ratio_interval_text(row.ratio, row.low, row.high),
        row.verdict,
    )
    return Line(texts, row.verdict)


def _headline(row: ComparedRow, margin: float) -> str:
    ratio = ratio_interval_text(row.ratio, row.low, row.high)
    change = f"{time_text(row.a_ns)} in a, {time_text(row.b_ns)} in b, ratio {ratio}"
    words = {
        FASTER: "b is faster",
        SLOWER: "b is slower",
        SAME: f"no difference of {percent_text(100 * margin)} or more",
        NOT_RESOLVED: "not resolved",
    }
    return f"{row.name}: {words[row.verdict]} ({change})"


def _next_step(comparison: Comparison) -> list[str]:
    """What would resolve the whole and the rows, if something is left open."""
    if not any(row.verdict == NOT_RESOLVED for row in (*comparison.totals[:1], *comparison.rows)):
        return []
    total, rows = comparison.samples_needed_for_total(), comparison.samples_needed_for_rows()
    if comparison.per != STEP:
        return [f"to resolve more, record programs that call these ranges about {rows} times"] if rows else [_HOPELESS]
    wanted = [
        f"--steps {total} for the step" if total else "",
        f"--steps {rows} for every row from 1% on" if rows else "",
    ]
    asked = ", ".join(filter(None, wanted))
    return [f"to resolve more, record both again with profkit network and about {asked}" if asked else _HOPELESS]


def _outcome(comparison: Comparison, failed: Sequence[ComparedRow], limit: float, despite_trouble: bool) -> str:
    text = percent_text(100.0 * limit)
    if any(comparison.troubles) and not despite_trouble:
        return (
            f"not resolved: whether something is slower by more than {text} cannot be told from times of a busy "
            "machine, nothing fails; record both again while it is quiet (top shows who runs), or add --force"
        )
    if not failed:
        return f"passed: nothing that matters is slower by more than {text} with its whole interval"
    named = "; ".join(
        f"{visible(row.name)} by {percent_text(100.0 * (1.0 / (row.ratio or 1.0) - 1.0))}" for row in failed
    )
    return f"FAILED: slower by more than {text}, whole interval: {named}"


def _what_times_are(comparison: Comparison) -> str:
    if comparison.per == STEP:
        return "times of a step; share: of b's recorded step; a ratio above 1 means that b is faster"
    if comparison.per == LAUNCH:
        return "times of a kernel or copy on the GPU; share: of b's GPU time; a ratio above 1 means that b is faster"
    return "times of a call; share: own time in b's threads; a ratio above 1 means that b is faster"


def _signed(ns: float) -> str:
    return ("+" if ns > 0 else "-" if ns < 0 else "") + time_text(abs(ns))
