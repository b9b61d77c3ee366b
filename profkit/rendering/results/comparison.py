"""Two results side by side: Results in; tables or JSON values with both values of every row out, and no verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from profkit.errors import UsageError
from profkit.measurement.result import Cell, Result, Row
from profkit.rendering.names import cell_words, conditions_text, preset_name, short_keys, spec_text, swept_axes
from profkit.rendering.quantities import ABSENT, ratio_text, spread_text, time_text
from profkit.rendering.results.columns import IMPLEMENTATION
from profkit.rendering.results.content import NAMED_AT_MOST
from profkit.rendering.tables.document import Document
from profkit.rendering.tables.table import Column, Line, Table

SCHEMA = "profkit.result_comparison/1"
NO_VERDICT = (
    "the difference between a and b is not judged: they were measured at different times; measured together, in one "
    "command, implementations get a verdict"
)
_MACHINE = ("machine", "processor count", "SIMD", "GPU")
_OF_A_ROW = (
    "status", "reason", "median_ns", "low_ns", "high_ns", "ratio", "ratio_low", "ratio_high", "verdict",
)  # fmt: skip
Difference = tuple[str, str, str]


@dataclass(frozen=True)
class ResultComparison:
    """Cells of two results that belong together, and what else tells the results apart."""

    pairs: tuple[tuple[Cell, Cell], ...]
    only_a: tuple[Cell, ...]
    only_b: tuple[Cell, ...]
    differences: tuple[Difference, ...]
    """Of machine and versions: name, a's, b's."""
    interrupted: tuple[bool, bool]


def compare_results(a: Result, b: Result) -> ResultComparison:
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
            f"the results have nothing in common: a has {_listed(a.cells)}; b has {_listed(b.cells)}; "
            "measure both with the same flags"
        )
    interrupted = (a.interrupted, b.interrupted)
    facts_a, facts_b = _facts(a.environment), _facts(b.environment)
    return ResultComparison(tuple(pairs), tuple(only_a), tuple(left), _differing(facts_a, facts_b), interrupted)


def result_comparison_document(comparison: ResultComparison, a: str, b: str, top: int | None = None) -> Document:
    """One table per pair of cells; warnings above the first, the note that nothing is judged below the last."""
    always = swept_axes([cell for pair in comparison.pairs for cell in pair])
    tables = [_table(pair, always, top) for pair in comparison.pairs]
    facts = (*_warnings(comparison, always), tables[0].title, *tables[0].facts)
    tables[0] = replace(tables[0], title=f"a: {a}, b: {b}", facts=facts)
    tables[-1] = replace(tables[-1], notes=(*tables[-1].notes, NO_VERDICT))
    return Document(*tables)


def result_comparison_to_json(comparison: ResultComparison, a: str, b: str) -> dict[str, Any]:
    """Everything, all rows."""
    return {
        "schema": SCHEMA,
        "a": a,
        "b": b,
        "differences": _named(comparison.differences),
        "only_a": [_about(cell) for cell in comparison.only_a],
        "only_b": [_about(cell) for cell in comparison.only_b],
        "cells": [
            {
                "a": _about(pair[0]),
                "b": _about(pair[1]),
                "differences": _named(_cell_differences(pair)),
                "rows": _records(pair),
            }
            for pair in comparison.pairs
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


def _records(pair: tuple[Cell, Cell]) -> list[dict[str, Any]]:
    return [{"key": key, "a": _values(row_a), "b": _values(row_b)} for key, (row_a, row_b) in _rows(pair).items()]


def _table(pair: tuple[Cell, Cell], always: Sequence[str], top: int | None) -> Table:
    rows = _rows(pair)
    names = short_keys(rows)
    timed = [key for key, both in rows.items() if any(row is not None and row.status == "ok" for row in both)]
    shown = timed if top is None else timed[:top]
    columns = [Column(IMPLEMENTATION, IMPLEMENTATION, is_text=True)]
    columns += [Column(f"{name} {side}", f"{name} {side}") for name in ("time", "ratio") for side in "ab"]
    columns += [Column(f"verdict {side}", f"verdict {side}", is_text=True) for side in "ab"]
    lines = [Line((names[key], *_texts(rows[key]))) for key in shown]
    if len(shown) < len(timed):
        lines.append(Line((f"… {len(timed) - len(shown):,} more rows (--top all)", *[""] * 6)))
    notes = [_ratio_meaning(pair)] if timed else []
    for side in (0, 1):
        alone = [names[key] for key in timed if rows[key][1 - side] is None]
        notes += [f"only in {'ab'[side]}: {_shortened(alone)}"] if alone else []
    untimed = [names[key] for key in rows if key not in timed]
    notes += [f"without a time in either: {_shortened(untimed)}"] if untimed else []
    return Table(
        title=_cell_text(pair[0], always),
        facts=_difference_lines(_cell_differences(pair), is_unfair=True),
        columns=columns,
        lines=lines,
        notes=notes,
        records=partial(_records, pair),
    )


def _texts(both: tuple[Row | None, Row | None]) -> list[str]:
    times = [
        ABSENT
        if row is None
        else row.status
        if row.status != "ok"
        else f"{time_text(row.median_ns)} {spread_text(row.median_ns, row.low_ns, row.high_ns)}".rstrip()
        for row in both
    ]
    measured = [row if row is not None and row.status == "ok" else None for row in both]
    ratios = [ABSENT if row is None else ratio_text(row.ratio) for row in measured]
    return [*times, *ratios, *(ABSENT if row is None else row.verdict for row in measured)]


def _ratio_meaning(pair: tuple[Cell, Cell]) -> str:
    bases = [next(iter(short_keys([cell.baseline]).values())) if cell.baseline else "no row" for cell in pair]
    base = bases[0] if bases[0] == bases[1] else f"the baseline (a: {bases[0]}, b: {bases[1]})"
    return f"ratio = time of {base} / this time, in the same file: above 1 is faster"


def _warnings(comparison: ResultComparison, always: Sequence[str]) -> list[str]:
    lines = _difference_lines([each for each in comparison.differences if each[0] in _MACHINE], is_unfair=True)
    for side, cells in (("a", comparison.only_a), ("b", comparison.only_b)):
        lines += [f"warning: only in {side}: {_cell_text(cell, always)}" for cell in cells[:NAMED_AT_MOST]]
        more = len(cells) - NAMED_AT_MOST
        lines += [f"warning: only in {side}: {more} more tables"] if more > 0 else []
    stopped = [side for side, is_partial in zip("ab", comparison.interrupted) if is_partial]
    lines += [f"warning: the measurement of {side} was interrupted" for side in stopped]
    others = [each for each in comparison.differences if each[0] not in _MACHINE]
    return lines + _difference_lines(others, is_unfair=False)


def _difference_lines(differences: Sequence[Difference], is_unfair: bool) -> list[str]:
    return [
        f"{'warning: ' if is_unfair else ''}{name} differs: a {a or ABSENT}, b {b or ABSENT}"
        for name, a, b in differences
    ]


def _cell_differences(pair: tuple[Cell, Cell]) -> tuple[Difference, ...]:
    words_a, words_b = ({**cell_words(cell), "baseline": cell.baseline or ""} for cell in pair)
    found = _differing(words_a, words_b)
    return tuple((name.replace("_", "-"), a, b) for name, a, b in found)


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    """What of the machine and of the versions changes times; a file may tell less, or what no fingerprint has."""

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


def _values(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {name: getattr(row, name) for name in _OF_A_ROW}


def _cell_text(cell: Cell, always: Sequence[str]) -> str:
    preset = preset_name(cell.spec)
    name = f"{cell.spec.op} {preset}".rstrip()
    return f"{name}: {spec_text(cell.spec, always)}; {conditions_text(cell)}"


def _listed(cells: Sequence[Cell]) -> str:
    return _shortened([f"{cell.spec.op} ({spec_text(cell.spec)}, {conditions_text(cell)})" for cell in cells]) or "none"


def _shortened(texts: Sequence[str]) -> str:
    more = len(texts) - NAMED_AT_MOST
    return ", ".join(texts[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
