"""The contents of a report, before it is drawn: a Usage and a choice of columns and rows in, a Table out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from profkit.attribution.metrics import METRICS, SUM
from profkit.attribution.usage import NAME, Usage, Value
from profkit.capture.schema import Capture, RangeKind
from profkit.errors import listed
from profkit.rendering.quantities import bytes_text, number_text, percent_text, plural, time_text
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.rendering.terminal import visible
from profkit.rendering.usage.columns import UsageColumn, choose_usage_columns, row_order, top_rows
from profkit.rendering.usage.files import usage_records

DEFAULT_TOP = 30
WARNINGS_SHOWN = 10
TOTAL = "total"
UNNAMED = "(unnamed)"


@dataclass(frozen=True)
class View:
    """The shown part of a table, and its order."""

    columns: Sequence[str] | None = None
    sort: str | None = None
    top: int | None = DEFAULT_TOP
    """None shows all rows."""


def build_table(usage: Usage, view: View, around: Table | None = None) -> Table:
    """Chosen rows in order, then hidden rows, remainders and the total; `around` has the text around them."""
    columns = choose_usage_columns(view.columns, usage)
    order = row_order(usage, view.sort)
    shown = top_rows(usage, order, view.sort, view.top)
    lines = _row_lines(usage, shown, columns)
    if len(shown) < len(order):
        name = f"… {len(order) - len(shown):,} more rows (--top {len(order)})"
        lines.append(_special(name, _hidden_values(usage, shown), usage, columns, "more"))
    below = [_special(each.name, each.values, usage, columns, "remainder") for each in usage.remainders]
    if usage.devices is not None:
        below = [line for line in below if any(line.texts[1:])]
    below.append(_special(TOTAL, _total_values(usage), usage, columns, "total"))
    lines += [replace(below[0], has_rule=True), *below[1:]]
    return replace(
        around or Table(),
        columns=[TableColumn(NAME, usage.by, is_text=True), *columns],
        lines=lines if usage.rows else (),
        is_dense=False,
        records=partial(usage_records, usage),
    )


def _row_lines(usage: Usage, shown: Sequence[int], columns: Sequence[UsageColumn]) -> list[Line]:
    texts = [[column.text(value) for value in column.metric.values(usage, shown)] for column in columns]
    names, shorts, paths = (usage.rows.column(name) for name in (NAME, "short", "path"))
    lines = []
    for place, row in enumerate(shown):
        path = paths[row] or ()
        name = visible(path[-1] if path else shorts[row] or names[row]) or UNNAMED
        lines.append(Line((name, *(each[place] for each in texts)), "row", max(0, len(path) - 1)))
    return lines


def surroundings(capture: Capture, usage: Usage) -> Table:
    title, *facts = headlines(capture, usage)
    return Table(
        title,
        facts,
        notes=footnotes(usage),
        losses=loss_lines(capture),
        warnings=warning_lines(capture),
        instead=no_range_lines(capture, usage),
    )


def step_surroundings(capture: Capture, usage: Usage) -> Table:
    around = surroundings(capture, usage)
    instead = [] if usage.rows else ["no operator was recorded"]
    return replace(around, facts=[*around.facts, steps_line(usage)], notes=usage.notes, instead=instead)


def steps_line(usage: Usage) -> str:
    steps = "the one recorded step" if usage.steps == 1 else f"mean of {usage.steps} recorded steps"
    return f"table: {steps}; own times and the rows below add up to the step's wall clock"


def loss_lines(capture: Capture) -> list[str]:
    """Losses; empty without any."""
    losses = capture.losses
    lines = []
    if losses.records:
        reasons = [
            (losses.disk_full, "the disk was full or could not be written"),
            (losses.too_slow, "the disk did not keep up"),
            (losses.too_deep, "ranges were nested too deep"),
        ]
        known = [f"{count:,} because {reason}" for count, reason in reasons if count]
        verb = "record was" if losses.records == 1 else "records were"
        lines.append(f"{losses.records:,} {verb} dropped{': ' if known else ''}{', '.join(known)}")
    if losses.stalled_ns:
        lines.append(f"threads waited {time_text(losses.stalled_ns)} in total for the capture to be written")
    return lines


def warning_lines(capture: Capture) -> list[str]:
    """Damage, killed processes and the like; limited, so that the table stays visible."""
    lines = [f"warning: {visible(warning)}" for warning in capture.warnings[:WARNINGS_SHOWN]]
    more = len(capture.warnings) - len(lines)
    return [*lines, f"warning: {more:,} more warnings like these"] if more > 0 else lines


def headlines(capture: Capture, usage: Usage) -> list[str]:
    """What was recorded, on which clock, and what recording costs."""
    words = capture.processes[0].command if capture.processes else ()
    command = visible(" ".join([os.path.basename(words[0]), *words[1:]])) if words else ""
    processes, threads = len(capture.processes), len(capture.threads)
    counted = "" if usage.threads == threads else f", {usage.threads} of them in this table"
    first = (
        f"{command or capture.path}: {plural(processes, 'process', 'processes')}, "
        f"{plural(threads, 'thread')}{counted}, {time_text(usage.elapsed_ns)} elapsed"
    )
    clocks = sorted({process.clock for process in capture.processes if process.clock})
    second = [f"clock {', '.join(clocks)}"] if clocks else []
    costs = [process.empty_range_ns for process in capture.processes if process.empty_range_ns > 0]
    if costs:
        low, high = number_text(min(costs)), number_text(max(costs))
        second.append(f"recording a range costs {low if low == high else f'{low} to {high}'} ns")
    return [first, *(["; ".join(second)] if second else [])]


def no_range_lines(capture: Capture, usage: Usage) -> list[str]:
    """Shown instead of a table without rows: the reason, and the totals; empty if there are rows."""
    if usage.rows:
        return []
    has_ranges = (capture.ranges.kind != np.uint8(RangeKind.MARK)).any()
    why = " in the chosen threads" if has_ranges else ": they come from nvtx, torch, oneDNN or profkit.scope"
    totals = f"thread time {time_text(usage.wall_ns)}"
    if usage.totals.get("alloc_bytes") is not None:
        calls, size, peak = (usage.totals[name] for name in ("alloc_calls", "alloc_bytes", "peak_bytes"))
        totals += f"; {plural(calls, 'allocation')} of {bytes_text(size)}, at most {bytes_text(peak)} at once"
    return [f"no ranges were recorded{why}", totals]


def footnotes(usage: Usage) -> list[str]:
    """The notes below the table."""
    notes = []
    if usage.threads > 1:
        notes.append(f"total is the time of {usage.threads} threads together")
    spans, opened = usage.rows.sum("span_calls"), usage.rows.sum("open_calls")
    if spans:
        notes.append(f"{plural(spans, 'span')} (started and ended by id): no own time")
    if opened:
        notes.append(f"{plural(opened, 'range')} had no end: counted up to the last known moment")
    if usage.marks:
        named = listed([f"{visible(name)} {count:,}" for name, count in usage.marks.items()])
        notes.append(f"{plural(sum(usage.marks.values()), 'mark')}: {named}")
    small = usage.facts.get("small_alloc_calls")
    if small:
        size = bytes_text(usage.facts["small_alloc_bytes"])
        notes.append(f"{plural(small, 'smaller allocation')} were only counted ({size}), in no row")
    return notes + _overhead_notes(usage)


def _overhead_notes(usage: Usage) -> list[str]:
    cost = usage.totals.get("overhead_ns")
    if cost is None:
        return []
    if usage.facts["is_overhead_subtracted"]:
        return [f"{time_text(cost)}, the estimated cost of recording, is already subtracted"]
    share = 100.0 * cost / usage.wall_ns if usage.wall_ns else 0.0
    if share < 1.0:
        return []
    taken = f"{time_text(cost)} of this ({percent_text(share)})"
    return [f"recording itself took about {taken}; --subtract-overhead takes it out"]


def _special(name: str, values: Mapping[str, Value], usage: Usage, columns: Sequence[UsageColumn], tone: str) -> Line:
    """A line that is not a row; columns without a value are blank."""
    found = [(column, *column.metric.value(usage, values)) for column in columns]
    return Line((name, *(column.text(value) if has else "" for column, has, value in found)), tone)


def _hidden_values(usage: Usage, shown: Sequence[int]) -> dict[str, Value]:
    """The sums of the rows that are not shown."""
    columns = usage.rows.columns
    return {name: total - sum(columns[name][row] or 0 for row in shown) for name, total in _sums(usage).items()}


def _total_values(usage: Usage) -> dict[str, Value]:
    """The totals: as recorded, or rows plus remainders."""
    return {**{name: value + (usage.left(name) or 0) for name, value in _sums(usage).items()}, **usage.totals}


def _sums(usage: Usage) -> dict[str, int]:
    """Of all rows, by the metrics that add up and are known."""
    names = [metric.name for metric in METRICS if metric.adds == SUM and metric.name in usage.rows.columns]
    return {name: value for name in names if (value := usage.rows.sum(name)) is not None}
