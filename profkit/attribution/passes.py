"""The passes of a run joined: the one place where rows of several captures meet, by their names.

Time comes from the pass that records time; other metrics (Metric.passes) come from their pass, as a sum over as many
steps. Rows that only the pass for bytes has come without time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.attribution.account import STEPS, Shares, StepShares, account
from profkit.attribution.aggregation import usage
from profkit.attribution.grouping import choose_grouping
from profkit.attribution.metrics import MAX, MEMORY_PASS, METRICS, PRIMITIVES_PASS, TEXT, TIME_PASS, Metric
from profkit.attribution.networks.work import operator_work
from profkit.attribution.usage import NAME, Usage, UsageRows, largest_first
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.errors import listed

_WITHOUT_TIME = {"calls": 0, "inclusive_ns": 0, "exclusive_ns": 0}


def main_capture(opened: Capture | Run) -> Capture:
    """A capture itself; of a run the pass for time."""
    return opened.recorded() if isinstance(opened, Run) else opened


def usage_of(
    opened: Capture | Run,
    by: str | None = None,
    clock: str | None = None,
    process: int | None = None,
    thread: str | None = None,
    subtract_overhead: bool = False,
) -> Usage:
    """The table of a capture, or of a run with what all its passes know; `process` and `thread` as account has them."""
    capture = main_capture(opened)
    chosen, divided = choose_grouping(capture, by, clock)
    if divided == STEPS and isinstance(opened, Run):
        return run_usage(opened, chosen)
    return usage(account(capture, divided, process, thread), chosen, subtract_overhead)


def run_usage(run: Run, by: str | None = None) -> Usage:
    time = run.recorded()
    tables: dict[str, Usage] = {}
    for measure in (TIME_PASS, MEMORY_PASS, PRIMITIVES_PASS):
        capture = run.capture(measure)
        if capture is time and measure != TIME_PASS:
            tables[measure] = tables[TIME_PASS]
        elif capture is not None:
            tables[measure] = usage(_shares(run, capture), by)
    memory = tables.get(MEMORY_PASS)
    if memory and memory.totals.get("requested_bytes") is None and memory.totals["peak_bytes"] is None:
        del tables[MEMORY_PASS]
    joined, only_in_memory = _joined(tables)
    notes = (*_pass_notes(run, tables, only_in_memory), *joined.notes)
    return replace(joined, subject=_subject(run), notes=notes)


def _shares(run: Run, capture: Capture) -> Shares:
    shares = account(capture, STEPS)
    assert isinstance(shares, StepShares)
    return replace(shares, work=operator_work(run, shares.operators)) if TIME_PASS in capture.measures else shares


def _joined(tables: Mapping[str, Usage]) -> tuple[Usage, list[str]]:
    """The table for time with the metrics of the other passes, and the rows that only the pass for bytes has."""
    time, memory = tables[TIME_PASS], tables.get(MEMORY_PASS)
    extra = _only_with_bytes(memory, time) if memory and _is_joined(memory, time) else []
    rows, totals, values = dict(time.rows.columns), dict(time.totals), dict(time.remainders[0].values)
    columns = {name: [*column, *[_WITHOUT_TIME.get(name)] * len(extra)] for name, column in rows.items()}
    for metric in METRICS:
        if metric.unit == TEXT and memory and metric.name in columns:
            texts = dict(zip(memory.rows.column(NAME), memory.rows.column(metric.name)))
            columns[metric.name][len(time.rows) :] = [texts[name] for name in extra]
        if metric.passes == (TIME_PASS,):
            continue
        source = _source(metric, tables)
        for part in (columns, totals, values):
            part.pop(metric.name, None)
        if source is None:
            continue
        if metric.name in source.rows.columns and _is_joined(source, time):
            known = dict(zip(source.rows.column(NAME), source.rows.columns[metric.name]))
            columns[metric.name] = [_scaled(metric, known.get(name), source, time) for name in columns[NAME]]
        for part, given in ((totals, source.totals), (values, source.remainders[0].values)):
            if metric.name in given:
                part[metric.name] = _scaled(metric, given[metric.name], source, time)
    first = replace(time.remainders[0], values=values)
    ordered = UsageRows(columns).in_order(largest_first(columns, "exclusive_ns"))
    return replace(time, rows=ordered, totals=totals, remainders=(first, *time.remainders[1:])), extra


def _source(metric: Metric, tables: Mapping[str, Usage]) -> Usage | None:
    """The first of its passes that has the metric."""
    known = [tables[measure] for measure in metric.passes if measure in tables]
    return next((table for table in known if metric.name in table.rows.columns), known[0] if known else None)


def _is_joined(table: Usage, time: Usage) -> bool:
    """The threads of two passes are unrelated."""
    return table is time or table.by != "thread"


def _only_with_bytes(memory: Usage, time: Usage) -> list[str]:
    named = zip(memory.rows.column(NAME), memory.rows.column("requested_bytes"))
    known = set(time.rows.column(NAME))
    return [name for name, size in named if size is not None and name not in known]


def _scaled(metric: Metric, value: Any, source: Usage, time: Usage) -> Any:
    """A sum over the steps of one pass as one over those of another; a peak is not a sum."""
    if value is None or metric.adds == MAX or source.steps == time.steps or not source.steps:
        return value
    return round(value * (time.steps or 0) / source.steps)


def _pass_notes(run: Run, tables: Mapping[str, Usage], only_in_memory: Sequence[str]) -> list[str]:
    """Which pass provided what: the steps of another pass, and its helper threads, may have been slower."""
    notes = []
    time, primitives = tables[TIME_PASS], tables.get(PRIMITIVES_PASS)
    is_of_other = primitives is not None and _is_joined(primitives, time) and "pool_cpu_ns" in primitives.rows.columns
    if is_of_other and "pool_cpu_ns" not in time.rows.columns:
        there, here = (f"{_median_ms(run.recorded(measure)):.3g} ms" for measure in (PRIMITIVES_PASS, TIME_PASS))
        notes.append(
            f"pool CPU is from another pass, whose steps took {there} (median); those of the pass for time took {here}"
        )
    if MEMORY_PASS not in tables:
        notes.append("bytes were not recorded")
    elif tables[MEMORY_PASS] is not time:
        sources = run.recorded().recorder, run.recorded(MEMORY_PASS).recorder
        notes.append(f"two passes over the steps: time by {sources[0]}, bytes by {sources[1]}, joined by row")
    if only_in_memory:
        notes.append(f"only in the pass for bytes, without time: {listed(only_in_memory)}")
    return notes


def _median_ms(capture: Capture) -> float:
    return float(np.median(capture.steps.end_ns - capture.steps.start_ns)) / 1e6


def _subject(run: Run) -> dict[str, Any]:
    return {
        "network": dict(run.network),
        "framework": run.framework,
        "mode": run.mode,
        "threads": run.threads,
        "is_training": run.is_training,
        "data": run.data,
    }
