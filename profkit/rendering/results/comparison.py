"""Two results side by side: Results in; tables or JSON values with both values of every row and its verdict out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from profkit.errors import UsageError, listed
from profkit.measurement.result import Cell, Result, Row
from profkit.measurement.statistics.estimates import Estimate
from profkit.measurement.statistics.result_changes import (
    BASELINE,
    RATIO,
    TOO_BUSY,
    CellChange,
    Changes,
    Pair,
    RowChange,
    changes_of,
)
from profkit.rendering.names import (
    cell_words,
    conditions_text,
    difference_lines,
    preset_name,
    short_keys,
    spec_text,
    swept_axes,
)
from profkit.rendering.quantities import ABSENT, percent_text, ratio_interval_text, ratio_text, time_text
from profkit.rendering.results.columns import IMPLEMENTATION
from profkit.rendering.results.content import NAMED_AT_MOST
from profkit.rendering.tables.document import Document
from profkit.rendering.tables.table import Line, Table, columns_of

SCHEMA = "profkit.result_comparison/1"
_MACHINE = ("machine", "processor count", "SIMD", "GPU")
_OF_A_ROW = (
    "status", "reason", "median_ns", "low_ns", "high_ns", "ratio", "ratio_low", "ratio_high", "verdict",
)  # fmt: skip
Difference = tuple[str, str, str]
FASTER, SLOWER = "faster", "slower"


@dataclass(frozen=True)
class ResultComparison:
    """Cells of two results that belong together, and other differences of the results."""

    pairs: tuple[tuple[Cell, Cell], ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]
    differences: tuple[Difference, ...]
    """Of machine and versions: name, a's, b's."""
    interrupted: tuple[bool, bool]
    changes: Changes
    margin: float
    limit: float | None = None
    """Of --fail-on."""

    @property
    def unfair(self) -> list[str]:
        """What makes a check against a limit one of something else, as lines."""
        machine = [each for each in self.differences if each[0] in _MACHINE]
        cells = [each for pair in self.pairs for each in _cell_differences(pair) if each[0] != BASELINE]
        return difference_lines(list(dict.fromkeys([*machine, *cells])), is_unfair=True)


def compare_results(
    a: Result,
    b: Result,
    by: str = RATIO,
    margin: float = 0.02,
    limit: float | None = None,
    despite_trouble: bool = False,
) -> ResultComparison:
    """Equal cells together; where none are, and each has its counterpart by number, these. UsageError without any."""
    left, pairs = list(b.cells), []
    for cell in a.cells:
        partner = next((other for other in left if cell_words(other) == cell_words(cell)), None)
        if partner is not None:
            left.remove(partner)
            pairs.append((cell, partner))
    paired = [id(cell) for cell, _ in pairs]
    only_a = [cell for cell in a.cells if id(cell) not in paired]
    if not pairs and [cell.spec.op for cell in a.cells] == [cell.spec.op for cell in b.cells]:
        pairs, only_a, left = list(zip(a.cells, b.cells)), [], []
    if not pairs:
        raise UsageError(
            f"the results have nothing in common: a has {_cells_text(a.cells)}; b has {_cells_text(b.cells)}; "
            "measure both with the same flags"
        )
    interrupted = (a.interrupted, b.interrupted)
    changes = changes_of(pairs, by, margin, limit, despite_trouble)
    differences = _differing(_facts(a.environment), _facts(b.environment))
    return ResultComparison(tuple(pairs), tuple(only_a), tuple(left), differences, interrupted, changes, margin, limit)


def result_comparison_document(comparison: ResultComparison, a: str, b: str, top: int | None = None) -> Document:
    """One table per pair of cells; warnings above the first, what was compared and what failed below the last."""
    always = swept_axes([cell for pair in comparison.pairs for cell in pair])
    tables = [_table(comparison, number, always, top) for number in range(len(comparison.pairs))]
    facts = (*_warnings(comparison, always), tables[0].title, *tables[0].facts)
    tables[0] = replace(tables[0], title=f"a: {a}, b: {b}", facts=facts)
    tables[-1] = replace(tables[-1], notes=(*tables[-1].notes, *_course(comparison), *_outcome(comparison, always)))
    return Document(*tables)


def result_comparison_to_json(comparison: ResultComparison, a: str, b: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "a": a,
        "b": b,
        "by": comparison.changes.by,
        "margin": comparison.margin,
        "fail_on": comparison.limit,
        "corrected_for": comparison.changes.judged,
        "failed": [{"cell": number, "key": key} for number, key in comparison.changes.failed],
        "differences": _named(comparison.differences),
        "only_a": [_about(cell) for cell in comparison.only_a],
        "only_b": [_about(cell) for cell in comparison.only_b],
        "cells": [
            {
                "a": _about(pair[0]),
                "b": _about(pair[1]),
                "differences": _named(_cell_differences(pair)),
                "baseline": change.baseline,
                "of_baseline": None if change.of_baseline is None else _change_values(change.of_baseline),
                "rows": _records(pair, change),
            }
            for pair, change in zip(comparison.pairs, comparison.changes.cells)
        ],
    }


def _rows(pair: tuple[Cell, Cell]) -> dict[str, tuple[Row | None, Row | None]]:
    """By key, those with a time first, the fastest of a first."""
    found = [{row.key: row for row in cell.rows} for cell in pair]
    rows = {key: (found[0].get(key), found[1].get(key)) for key in {**found[0], **found[1]}}

    def rank(key: str) -> tuple[float, float]:
        times = [row.median_ns if row is not None and row.median_ns is not None else float("inf") for row in rows[key]]
        return min(times) == float("inf"), times[0] if times[0] != float("inf") else times[1]

    return {key: rows[key] for key in sorted(rows, key=rank)}


def _records(pair: Pair, change: CellChange) -> list[dict[str, Any]]:
    def values(row: Row | None) -> dict[str, Any] | None:
        return None if row is None else {name: getattr(row, name) for name in _OF_A_ROW}

    return [
        {"key": key, "a": values(row_a), "b": values(row_b), "change": _change_values(change.rows.get(key))}
        for key, (row_a, row_b) in _rows(pair).items()
    ]


def _change_values(change: RowChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    ratio = change.ratio or Estimate(math.nan, None, None)
    values = {"ratio": None if change.ratio is None else ratio.value, "low": ratio.low, "high": ratio.high}
    return {**values, "verdict": change.verdict or None, "reason": change.reason}


def _table(comparison: ResultComparison, number: int, always: Sequence[str], top: int | None) -> Table:
    pair, change = comparison.pairs[number], comparison.changes.cells[number]
    rows = _rows(pair)
    names = short_keys(rows)
    timed = [key for key, both in rows.items() if any(row is not None and row.status == "ok" for row in both)]
    shown = timed if top is None else timed[:top]
    headings = (IMPLEMENTATION, "time a", "time b", "ratio a", "ratio b", "change", "verdict")
    columns = columns_of(headings, (IMPLEMENTATION, "verdict"), change="a / b")
    lines = [_line(names[key], rows[key], change.rows.get(key)) for key in shown]
    if len(shown) < len(timed):
        lines.append(Line((f"… {len(timed) - len(shown):,} more rows (--top all)", *[""] * 6)))
    notes = [_ratio_meaning(pair)] if timed else []
    notes += _baseline_lines(change)
    reasons: dict[str, list[str]] = {}
    for key, each in change.rows.items():
        if each.reason and key in timed:
            reasons.setdefault(each.reason, []).append(names[key])
    for reason, which in reasons.items():
        is_of_all = reason.startswith(TOO_BUSY)
        notes.append(reason if is_of_all else f"not judged, {reason}: {listed(which, NAMED_AT_MOST)}")
    for side in (0, 1):
        alone = [names[key] for key in timed if rows[key][1 - side] is None]
        notes += [f"only in {'ab'[side]}: {listed(alone, NAMED_AT_MOST)}"] if alone else []
    untimed = [names[key] for key in rows if key not in timed]
    notes += [f"without a time in either: {listed(untimed, NAMED_AT_MOST)}"] if untimed else []
    return Table(
        title=_cell_text(pair[0], always),
        facts=difference_lines(_cell_differences(pair), is_unfair=True),
        columns=columns,
        lines=lines,
        notes=notes,
        records=partial(_records, pair, change),
    )


def _line(name: str, both: tuple[Row | None, Row | None], change: RowChange | None) -> Line:
    times = [ABSENT if row is None else row.status if row.status != "ok" else time_text(row.median_ns) for row in both]
    ratios = [ABSENT if row is None or row.status != "ok" else ratio_text(row.ratio) for row in both]
    ratio = change.ratio if change else None
    text = ABSENT if ratio is None else ratio_interval_text(ratio.value, ratio.low, ratio.high)
    word = change.verdict if change else ""
    return Line((name, *times, *ratios, text, word or ABSENT), word)


def _baseline_lines(change: CellChange) -> list[str]:
    """That the baseline's own time changed: ratios cannot show it, and all of them move with it."""
    own = change.of_baseline
    if own is None or own.ratio is None or change.baseline is None:
        return []
    name = next(iter(short_keys([change.baseline]).values()))
    text = ratio_interval_text(own.ratio.value, own.ratio.low, own.ratio.high)
    if own.verdict not in (FASTER, SLOWER):
        return [f"{name} itself: its times, a / b {text}, {own.verdict}"]
    became = f"{name} itself became {own.verdict} (its times, a / b {text}), or the machine did"
    return [f"warning: {became}; verdicts are of times relative to it; --by time compares times"]


def _course(comparison: ResultComparison) -> list[str]:
    """What a / b is, and how verdicts are corrected."""
    changes = comparison.changes
    if not changes.judged:
        return ["no row is judged"]
    what = "times relative to the baseline's" if changes.by == RATIO else "times, which a clock that moved changes too"
    lines = [f"a / b: of {what}; above 1: b is faster"]
    if changes.judged > 1:
        lines.append(f"verdicts are corrected for the number of rows (Holm, {changes.judged}); intervals (95%) are not")
    return lines


def _outcome(comparison: ResultComparison, always: Sequence[str]) -> list[str]:
    """What --fail-on decided."""
    if comparison.limit is None:
        return []
    text = percent_text(100.0 * comparison.limit)
    if not comparison.changes.judged:
        return [f"not resolved: whether a row is slower by more than {text} cannot be decided; nothing fails"]
    failed = comparison.changes.failed
    if not failed:
        return [f"passed: no row is slower by more than {text}, as far as resolved"]
    named = []
    for number, key in failed:
        change = comparison.changes.cells[number].rows[key]
        name = short_keys(comparison.changes.cells[number].rows)[key]
        where = f" ({spec_text(comparison.pairs[number][0].spec, always)})" if len(comparison.pairs) > 1 else ""
        slower = 1.0 / change.ratio.value - 1.0 if change.ratio else 0.0
        named.append(f"{name}{where} by {percent_text(100.0 * slower)}")
    return [f"FAILED: slower by more than {text}, resolved: {'; '.join(named)}"]


def _ratio_meaning(pair: tuple[Cell, Cell]) -> str:
    bases = [next(iter(short_keys([cell.baseline]).values())) if cell.baseline else "no row" for cell in pair]
    base = bases[0] if bases[0] == bases[1] else f"the baseline (a: {bases[0]}, b: {bases[1]})"
    return f"ratio = time of {base} / this time, in the same file: above 1 is faster"


def _warnings(comparison: ResultComparison, always: Sequence[str]) -> list[str]:
    lines = difference_lines([each for each in comparison.differences if each[0] in _MACHINE], is_unfair=True)
    for side, cells in (("a", comparison.only_a), ("b", comparison.only_b)):
        lines += [f"warning: only in {side}: {_cell_text(cell, always)}" for cell in cells[:NAMED_AT_MOST]]
        more = len(cells) - NAMED_AT_MOST
        lines += [f"warning: only in {side}: {more} more tables"] if more > 0 else []
    stopped = [side for side, is_partial in zip("ab", comparison.interrupted) if is_partial]
    lines += [f"warning: the measurement of {side} was interrupted" for side in stopped]
    others = [each for each in comparison.differences if each[0] not in _MACHINE]
    return lines + difference_lines(others, is_unfair=False)


def _cell_differences(pair: tuple[Cell, Cell]) -> tuple[Difference, ...]:
    words = ({**cell_words(cell), "baseline": cell.baseline or ""} for cell in pair)
    return tuple((name.replace("_", "-"), a, b) for name, a, b in _differing(*words))


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    """What of the machine and of the versions changes times; a file may have less, or what no fingerprint has."""

    def inside(name: str) -> Mapping[str, Any]:
        found = environment.get(name)
        return found if isinstance(found, dict) else {}

    cpus, gpus = environment.get("cpus_usable"), inside("gpus").get("devices")
    named = [str(gpu.get("name", "")) for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    return {
        "machine": str(environment.get("cpu", "")),
        "processor count": str(len(cpus)) if isinstance(cpus, list) else "",
        "SIMD": str(inside("simd").get("simd_active", "")),
        "GPU": ", ".join(named),
        "profkit": str(environment.get("profkit", "")),
        "python": str(environment.get("python", "")),
        **{str(name): str(version) for name, version in inside("packages").items()},
    }


def _differing(a: Mapping[str, str], b: Mapping[str, str]) -> tuple[Difference, ...]:
    return tuple((name, a.get(name, ""), b.get(name, "")) for name in {**a, **b} if a.get(name, "") != b.get(name, ""))


def _named(differences: Sequence[Difference]) -> list[dict[str, str]]:
    return [dict(zip(("name", "a", "b"), each)) for each in differences]


def _about(cell: Cell) -> dict[str, Any]:
    names = ("threads", "cache", "output", "baseline")
    return {"spec": cell.spec.to_dict(), **{name: getattr(cell, name) for name in names}}


def _cell_text(cell: Cell, always: Sequence[str]) -> str:
    name = f"{cell.spec.op} {preset_name(cell.spec)}".rstrip()
    return f"{name}: {spec_text(cell.spec, always)}; {conditions_text(cell)}"


def _cells_text(cells: Sequence[Cell]) -> str:
    texts = [f"{cell.spec.op} ({spec_text(cell.spec)}, {conditions_text(cell)})" for cell in cells]
    return listed(texts, NAMED_AT_MOST) or "none"
