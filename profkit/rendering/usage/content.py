"""What a report says, before it is drawn: a Usage and a choice of columns and rows in, a Table out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from profkit.attribution.usage import Usage, UsageRow
from profkit.capture.schema import Capture, RangeKind
from profkit.rendering.quantities import bytes_text, number_text, percent_text, time_text
from profkit.rendering.tables.column_choice import with_order_out
from profkit.rendering.tables.table import Column, Line, Table
from profkit.rendering.usage.columns import (
    NAME,
    UsageColumn,
    Value,
    choose_usage_columns,
    count_text,
    dispensable_columns,
)
from profkit.rendering.usage.device_values import DEVICE_SUMS, device_totals, device_values, remainder_values
from profkit.rendering.usage.files import usage_records
from profkit.rendering.usage.rows import row_order, top_rows

DEFAULT_TOP = 30
MARKS_NAMED = 5
WARNINGS_SHOWN = 10
REMAINDER = "(no range open)"
TOTAL = "total"
UNNAMED = "(unnamed)"


@dataclass(frozen=True)
class View:
    """What of a table is shown, and how it is ordered."""

    columns: Sequence[str] | None = None
    sort: str | None = None
    top: int | None = DEFAULT_TOP
    """None shows all rows."""


@dataclass(frozen=True)
class TableContext:
    """What is printed around a table: losses and warnings, what was recorded, and notes."""

    heads: Sequence[str]
    losses: Sequence[str] = ()
    warnings: Sequence[str] = ()
    instead: Sequence[str] = ()
    """In place of a table without rows."""
    notes: Sequence[str] = ()


def build_table(usage: Usage, view: View, around: TableContext | None = None) -> Table:
    """Chosen rows in order, then what is not shown, what no range explains, and the total."""
    columns = choose_usage_columns(view.columns, usage)
    order = row_order(usage, view.sort)
    shown = top_rows(usage, order, view.sort, view.top)
    rows = [usage.rows[number] for number in shown]
    lines = [
        Line(
            (
                visible(row.path[-1] if row.path else row.short or row.name) or UNNAMED,
                *(column.text(column.value(row, usage)) for column in columns),
            ),
            "row",
            max(0, len(row.path) - 1),
        )
        for row in rows
    ]
    if len(shown) < len(order):
        name = f"… {len(order) - len(shown):,} more rows (--top {len(order)})"
        lines.append(_special(name, _hidden_values(rows, usage), columns, "more"))
    below = _remainder_lines(usage, columns)
    below.append(_special(TOTAL, _total_values(usage), columns, "total"))
    lines += [replace(below[0], has_rule=True), *below[1:]]
    if not view.columns:
        columns = with_order_out(columns, dispensable_columns(usage))
    said = around or TableContext([""])
    return Table(
        title=said.heads[0],
        facts=said.heads[1:],
        columns=[Column(NAME, usage.by, is_text=True), *columns],
        lines=lines if usage.rows else (),
        notes=said.notes,
        losses=said.losses,
        warnings=said.warnings,
        instead=said.instead,
        is_dense=False,
        records=partial(usage_records, usage),
    )


def program_table(capture: Capture, usage: Usage, view: View) -> Table:
    """The table of a traced program with what stands around it."""
    return build_table(usage, view, surroundings(capture, usage))


def surroundings(capture: Capture, usage: Usage) -> TableContext:
    """What stands around the table of a traced program."""
    return TableContext(
        heads=headlines(capture, usage),
        losses=loss_lines(capture),
        warnings=warning_lines(capture),
        instead=no_range_lines(capture, usage),
        notes=footnotes(usage),
    )


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
        f"{command or capture.path}: {_plural(processes, 'process', 'processes')}, "
        f"{_plural(threads, 'thread')}{counted}, {time_text(usage.elapsed_ns)} elapsed"
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
    if usage.total_alloc_bytes is not None:
        totals += (
            f"; {_plural(usage.total_alloc_calls or 0, 'allocation')} of {bytes_text(usage.total_alloc_bytes)}, "
            f"at most {bytes_text(usage.total_peak_bytes)} at once"
        )
    return [*lines, totals]


def footnotes(usage: Usage) -> list[str]:
    """What a reader of the table must know besides its numbers."""
    notes = []
    if usage.threads > 1:
        notes.append(f"total is the time of {usage.threads} threads together")
    spans, opened = _sum(usage, "span_calls"), _sum(usage, "open_calls")
    if spans:
        notes.append(f"{_plural(spans, 'span')} (started and ended by id): no own time")
    if opened:
        notes.append(f"{_plural(opened, 'range')} had no end: counted up to the last known moment")
    if usage.marks:
        named = ", ".join(f"{visible(mark.name)} {mark.count:,}" for mark in usage.marks[:MARKS_NAMED])
        more = f" and {len(usage.marks) - MARKS_NAMED:,} more names" if len(usage.marks) > MARKS_NAMED else ""
        notes.append(f"{_plural(sum(mark.count for mark in usage.marks), 'mark')}: {named}{more}")
    if usage.small_alloc_calls:
        notes.append(
            f"{_plural(usage.small_alloc_calls, 'smaller allocation')} were only counted "
            f"({bytes_text(usage.small_alloc_bytes)}), in no row"
        )
    return notes + _overhead_notes(usage)


def visible(text: str) -> str:
    """Text without anything that could move the cursor or hide; what is not printable is escaped."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _overhead_notes(usage: Usage) -> list[str]:
    if usage.overhead_ns is None:
        return []
    if usage.is_overhead_subtracted:
        return [f"{time_text(usage.overhead_ns)}, the estimated cost of recording, is already subtracted"]
    share = 100.0 * usage.overhead_ns / usage.wall_ns if usage.wall_ns else 0.0
    if share < 1.0:
        return []
    taken = f"{time_text(usage.overhead_ns)} of this ({percent_text(share)})"
    return [f"recording itself took about {taken}; --subtract-overhead takes it out"]


def _special(name: str, values: dict[str, Value], columns: Sequence[UsageColumn], tone: str) -> Line:
    texts = tuple(column.text(values[column.name]) if column.name in values else "" for column in columns)
    return Line((name, *texts), tone)


def _hidden_values(shown: Sequence[UsageRow], usage: Usage) -> dict[str, Value]:
    def rest(name: str) -> int:
        return _sum(usage, name) - sum(getattr(row, name) or 0 for row in shown)

    own = rest("exclusive_ns")
    values: dict[str, Value] = {"calls": rest("calls"), "exclusive": own, "share": _part(own, usage)}
    if usage.total_alloc_bytes is not None:
        values["own_alloc_bytes"] = rest("own_alloc_bytes")
    if usage.devices is not None:
        values |= device_values({name: rest(name) for name in DEVICE_SUMS}, own, usage)
    return values


def _remainder_lines(usage: Usage, columns: Sequence[UsageColumn]) -> list[Line]:
    """What no row explains: in one line, or in its named parts."""
    if not usage.remainders:
        values = _time_values(usage.remainder_ns, usage)
        if usage.total_alloc_bytes is not None:
            values |= dict.fromkeys(("alloc_bytes", "own_alloc_bytes"), usage.unattributed_alloc_bytes)
        return [_special(REMAINDER, values, columns, "remainder")]
    lines: list[Line] = []
    for number, part in enumerate(usage.remainders):
        values = _time_values(part.time_ns, usage)
        if usage.devices is not None:
            values = {name: values[name] for name in ("exclusive", "share")}
            values |= remainder_values(part, usage)
        elif not number and usage.unattributed_alloc_bytes:
            # In which of them it was allocated is not known: it stands in the first.
            values["requested_bytes"] = usage.unattributed_alloc_bytes
        line = _special(part.name, values, columns, "remainder")
        if usage.devices is None or any(line.texts[1:]):
            lines.append(line)
    if usage.devices is not None and usage.unattributed_alloc_bytes:
        memory: dict[str, Value] = {"own_alloc_bytes": usage.unattributed_alloc_bytes}
        lines.append(_special(f"allocated in no {usage.by}", memory, columns, "remainder"))
    return lines


def _time_values(time_ns: int | None, usage: Usage) -> dict[str, Value]:
    share = None if time_ns is None else _part(time_ns, usage)
    return {"inclusive": time_ns, "inclusive_share": share, "exclusive": time_ns, "share": share}


def _total_values(usage: Usage) -> dict[str, Value]:
    values: dict[str, Value] = {
        "calls": _sum(usage, "calls"),
        "span_calls": _sum(usage, "span_calls"),
        "open_calls": _sum(usage, "open_calls"),
        "inclusive": usage.wall_ns,
        "inclusive_share": _part(usage.wall_ns, usage),
        "exclusive": usage.wall_ns,
        "share": _part(usage.wall_ns, usage),
        "overhead": usage.overhead_ns,
    }
    if usage.steps is not None:
        return values | _network_totals(usage)
    if usage.devices is not None:
        values |= device_totals(usage)
    if usage.total_alloc_bytes is not None:
        values |= {
            "alloc_calls": usage.total_alloc_calls,
            "alloc_bytes": usage.total_alloc_bytes,
            "own_alloc_bytes": usage.total_alloc_bytes,
            "peak_bytes": usage.total_peak_bytes,
        }
    return values


def _network_totals(usage: Usage) -> dict[str, Value]:
    """Of a step; rates by its whole wall clock."""
    flops, moved = (_known_sum(usage, name) for name in ("flops", "moved_bytes"))
    return {
        "pool_cpu": _known_sum(usage, "pool_cpu_ns"),
        "requested_bytes": usage.total_alloc_bytes,
        "temporary_bytes": _known_sum(usage, "temporary_bytes"),
        "peak_bytes": usage.total_peak_bytes,
        "flops": flops,
        "moved_bytes": moved,
        "gflops": flops / usage.wall_ns if flops is not None and usage.wall_ns else None,
        "intensity": flops / moved if flops is not None and moved else None,
    }


def _known_sum(usage: Usage, name: str) -> int | None:
    known = [value for value in usage.rows.column(name) if value is not None]
    return sum(known) if known else None


def _sum(usage: Usage, name: str) -> int:
    return sum(value or 0 for value in usage.rows.column(name))


def _part(value: int, usage: Usage) -> Value:
    return 100.0 * value / usage.wall_ns if usage.wall_ns else None


def _plural(count: int, one: str, many: str = "") -> str:
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
