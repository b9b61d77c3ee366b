"""Two captures compared, for people and programs: a Comparison in; a Table or JSON values out."""

from __future__ import annotations

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
from profkit.rendering.names import difference_lines
from profkit.rendering.quantities import percent_text, plural, ratio_interval_text, time_text
from profkit.rendering.tables.table import Line, Table, columns_of, with_order_out
from profkit.rendering.terminal import visible

SCHEMA = "profkit.comparison/1"
_HOPELESS = (
    "no number of steps would resolve the others: they are within the noise floor, or are too noisy; a quieter machine "
    "may resolve them"
)
_TIMES = {
    STEP: "times of a step; share: of b's recorded step",
    LAUNCH: "times of a kernel or copy on the GPU; share: of b's GPU time",
}
_VERDICTS = (SLOWER, FASTER, SAME, NOT_RESOLVED, ADDED, GONE)


@dataclass(frozen=True)
class ComparisonRequest:
    """The request to compare."""

    a: str
    b: str
    """Names of the files."""
    margin: float
    floor: tuple[float, str]
    """Of times that were not taken in turns, and where it is from."""
    limit: float | None = None
    """Of --fail-on."""
    top: int | None = None
    despite_trouble: bool = False
    """The limit holds for times of a busy machine, too."""


def comparison_table(comparison: Comparison, request: ComparisonRequest) -> Table:
    """Warnings first, then rows by the size of their change, the whole, and what follows from it."""
    names = ("row", "a", "b", "change", "share", "ratio", "verdict")
    columns = columns_of(names, ("row", "verdict"), row=comparison.by, change="b - a", ratio="ratio a / b")
    shown = comparison.rows if request.top is None else comparison.rows[: request.top]
    lines = [_line(row) for row in shown]
    more = len(comparison.rows) - len(shown)
    if more:
        lines.append(Line((f"… {more:,} more rows (--top all)", *[""] * 6)))
    lines += [_line(row) for row in comparison.totals]
    return Table(
        title=f"a: {visible(request.a)}, b: {visible(request.b)}",
        facts=(*_differences(comparison), *_trouble_lines(comparison), *_course(comparison, request)),
        columns=with_order_out(columns, ["share"]),
        lines=lines,
        notes=summary_lines(comparison, request),
        records=lambda: [asdict(row) for row in (*comparison.rows, *comparison.totals)],
    )


def _differences(comparison: Comparison) -> list[str]:
    """What else is different between the two, worst first."""
    others = [each for each in comparison.differences if each not in comparison.unfair]
    return difference_lines(comparison.unfair, is_unfair=True) + difference_lines(others, is_unfair=False)


def _trouble_lines(comparison: Comparison) -> list[str]:
    named = zip("ab", comparison.troubles)
    lines = [f"warning: {side}: {trouble}; differences may be due to the machine" for side, trouble in named if trouble]
    dropped = zip("ab", comparison.dropped)
    return lines + [
        f"{side}: {plural(len(each), 'process', 'processes')} dropped: {'; '.join(each)}"
        for side, each in dropped
        if each
    ]


def _course(comparison: Comparison, request: ComparisonRequest) -> list[str]:
    """What times are, which variance the intervals have, and how verdicts are corrected."""
    floor, source = request.floor
    where = "assumed; profkit doctor --noise measures it" if source == "assumed" else source
    what = _TIMES.get(comparison.per, "times of a call; share: own time in b's threads")
    lines = [f"{what}; a ratio above 1 means that b is faster"]
    several = [f"{side}: {count}" for side, count in zip("ab", comparison.processes) if count > 1]
    if len(several) == 2:
        spread = f"the variance between processes ({', '.join(several)})"
    elif several:
        spread = f"the variance between processes in {several[0][0]}, inside the one process in the other"
    else:
        spread = "the variance inside one process each"
    lines.append(f"intervals: 95%, {spread}, and the noise floor of times, {percent_text(100.0 * floor)} ({where})")
    if comparison.corrected_for > 1:
        half = ", half of these in the whole" if comparison.totals else ""
        count = f"the number of rows (Holm, {comparison.corrected_for})"
        lines.append(
            f"verdicts are corrected for {count}: 5% of tables in which nothing changed have a wrong one{half}"
        )
    return lines


def summary_lines(comparison: Comparison, request: ComparisonRequest) -> list[str]:
    """The total in a sentence, the number of rows of each kind, what is not covered, the next step, failures."""
    lines = [_headline(row, request.margin) for row in comparison.totals[:1]]
    counts = [f"{comparison.count(verdict)} {verdict}" for verdict in _VERDICTS if comparison.count(verdict)]
    if counts:
        lines.append(f"rows: {', '.join(counts)}")
    if min(comparison.processes) == 1 and comparison.per == STEP:
        seen = "one process each was seen" if max(comparison.processes) == 1 else "one process was seen on one side"
        lines.append(f"only {seen}, and two processes differ by themselves: profkit network --runs 3 covers that")
    lines += _next_step(comparison)
    if request.limit is not None:
        lines.append(_outcome(comparison, request.limit, request.despite_trouble))
    return lines


def comparison_to_json(comparison: Comparison, request: ComparisonRequest) -> dict[str, Any]:
    """Everything, all rows. ratio is a / b: above 1, b is faster."""
    return {
        "schema": SCHEMA,
        "a": request.a,
        "b": request.b,
        "by": comparison.by,
        "per": comparison.per,
        "margin": request.margin,
        "fail_on": request.limit,
        "failed": [row.name for row in comparison.failed],
        "differences": [dict(zip(("name", "a", "b"), each)) for each in comparison.differences],
        "troubles": dict(zip("ab", comparison.troubles)),
        "dropped": {side: list(dropped) for side, dropped in zip("ab", comparison.dropped)},
        "processes": dict(zip("ab", comparison.processes)),
        "floor": request.floor[0],
        "corrected_for": comparison.corrected_for,
        "samples_needed_for_total": comparison.samples_needed_for_total(),
        "samples_needed_for_rows": comparison.samples_needed_for_rows(),
        "runs_needed": comparison.runs_needed(),
        "totals": [asdict(row) for row in comparison.totals],
        "rows": [asdict(row) for row in comparison.rows],
    }


def _line(row: ComparedRow) -> Line:
    sign = "+" if row.change_ns > 0 else "-" if row.change_ns < 0 else ""
    change = "" if row.a_ns is None or row.b_ns is None else sign + time_text(abs(row.change_ns))
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
    if any(comparison.troubles) and not any(row.samples_needed or row.runs_needed for row in comparison.rows):
        return ["too busy to judge: record both again while the machine is quiet (top shows who runs)"]
    runs = comparison.runs_needed()
    if runs:
        return [f"to resolve more, record both again with profkit network --runs {runs}"]
    total, rows = comparison.samples_needed_for_total(), comparison.samples_needed_for_rows()
    if comparison.per != STEP:
        return [f"to resolve more, record programs that call these ranges about {rows} times"] if rows else [_HOPELESS]
    wanted = [f"--steps {total} for the step"] if total else []
    wanted += [f"--steps {rows} for every row from 1% on"] if rows else []
    needed = ", ".join(wanted)
    return [f"to resolve more, record both again with profkit network and about {needed}" if needed else _HOPELESS]


def _outcome(comparison: Comparison, limit: float, despite_trouble: bool) -> str:
    text = percent_text(100.0 * limit)
    if any(comparison.troubles) and not despite_trouble:
        return (
            f"not resolved: whether something is slower by more than {text} cannot be decided from times of a busy "
            "machine, nothing fails; record both again while it is quiet (top shows who runs), or add --force"
        )
    if not comparison.failed:
        return f"passed: nothing that matters is slower by more than {text}, as far as resolved"
    named = "; ".join(
        f"{visible(row.name)} by {percent_text(100.0 * (1.0 / (row.ratio or 1.0) - 1.0))}" for row in comparison.failed
    )
    return f"FAILED: slower by more than {text}, resolved: {named}"
