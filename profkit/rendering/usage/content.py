"""What a report says, before it is drawn: a Usage and a choice of columns and rows in, a Table out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from profkit.attribution.metrics import METRICS, SUM
from profkit.attribution.usage import NAME, Usage, Value
from profkit.capture.schema import Capture, RangeKind
from profkit.rendering.quantities import bytes_text, number_text, percent_text, time_text
from profkit.rendering.tables.table import Column, Line, Table
from profkit.rendering.terminal import visible
from profkit.rendering.usage.columns import UsageColumn, choose_usage_columns, count_text
from profkit.rendering.usage.files import usage_records
from profkit.rendering.usage.rows import row_order, top_rows

DEFAULT_TOP = 30
MARKS_NAMED = 5
WARNINGS_SHOWN = 10
TOTAL = "total"
UNNAMED = "(unnamed)"


@dataclass(frozen=True)
class View:
    """What of a table is shown, and how it is ordered."""

    columns: Sequence[str] | None = None
    sort: str | None = None
    top: int | None = DEFAULT_TOP
    """None shows all rows."""


def build_table(usage: Usage, view: View, around: Table | None = None) -> Table:
    """Chosen rows in order, then what is not shown, what no row explains, and the total; `around` has the rest."""
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
        columns=[Column(NAME, usage.by, is_text=True), *columns],
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
    """What stands around the table of a traced program."""
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
    """What stands around the table of steps that a capture has."""
    around = surroundings(capture, usage)
    instead = [] if usage.rows else ["no operator was recorded"]
    return replace(around, facts=[*around.facts, steps_line(usage)], notes=usage.notes, instead=instead)


def steps_line(usage: Usage) -> str:
    """Of which steps the table is."""
    steps = "the one recorded step" if usage.steps == 1 else f"mean of {usage.steps} recorded steps"
    return f"table: {steps}; own times and the rows below add up to the step's wall clock"


def loss_lines(capture: Capture) -> list[str]:
    """What was lost, first of all; nothing when nothing was."""
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
    """Damage, killed processes and the like; a file in pieces does not push its table off the screen."""
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
    """What stands in place of a table without rows: why there are none, and the totals; nothing when there are rows."""
    if usage.rows:
        return []
    is_range = capture.ranges.kind != np.uint8(RangeKind.MARK)
    if is_range.any():
        lines = ["no ranges were recorded in the chosen threads"]
    else:
        lines = ["no ranges were recorded: they come from nvtx, torch, oneDNN or profkit.scope"]
    totals = f"thread time {time_text(usage.wall_ns)}"
    if usage.totals.get("alloc_bytes") is not None:
        calls, size, peak = (usage.totals[name] for name in ("alloc_calls", "alloc_bytes", "peak_bytes"))
        totals += f"; {plural(calls, 'allocation')} of {bytes_text(size)}, at most {bytes_text(peak)} at once"
    return [*lines, totals]


def footnotes(usage: Usage) -> list[str]:
    """What a reader of the table must know besides its numbers."""
    notes = []
    if usage.threads > 1:
        notes.append(f"total is the time of {usage.threads} threads together")
    spans, opened = usage.rows.sum("span_calls"), usage.rows.sum("open_calls")
    if spans:
        notes.append(f"{plural(spans, 'span')} (started and ended by id): no own time")
    if opened:
        notes.append(f"{plural(opened, 'range')} had no end: counted up to the last known moment")
    if usage.marks:
        named = ", ".join(f"{visible(mark.name)} {mark.count:,}" for mark in usage.marks[:MARKS_NAMED])
        more = f" and {len(usage.marks) - MARKS_NAMED:,} more names" if len(usage.marks) > MARKS_NAMED else ""
        notes.append(f"{plural(sum(mark.count for mark in usage.marks), 'mark')}: {named}{more}")
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
    """A line that is no row; it has the columns of which it knows something."""
    found = [(column, *column.metric.value(usage, values)) for column in columns]
    return Line((name, *(column.text(value) if has else "" for column, has, value in found)), tone)


def _hidden_values(usage: Usage, shown: Sequence[int]) -> dict[str, Value]:
    """Of the rows that are not shown: what adds up."""
    values: dict[str, Value] = {}
    for name in _adding(usage):
        total, column = usage.rows.sum(name), usage.rows.columns[name]
        if total is not None:
            values[name] = total - sum(column[row] or 0 for row in shown)
    return values


def _total_values(usage: Usage) -> dict[str, Value]:
    """Of the whole: what is known of it, or rows and remainders together."""
    sums = {name: usage.rows.sum(name) for name in _adding(usage)}
    whole = {name: value + (usage.left(name) or 0) for name, value in sums.items() if value is not None}
    return {**whole, **usage.totals}


def _adding(usage: Usage) -> list[str]:
    return [metric.name for metric in METRICS if metric.adds == SUM and metric.name in usage.rows.columns]


def plural(count: Value, one: str, many: str = "") -> str:
    """A count with its noun: 1 thread, 2 processes."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
