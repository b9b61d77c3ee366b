"""The contents of a Result's tables, before they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count, product
from string import ascii_lowercase

from profkit.capture.busy_machine import busy_words
from profkit.measurement.bounds import DIRECT
from profkit.measurement.checks.correctness import FULL_PRECISION
from profkit.measurement.device.timing import HELD
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.host_times import is_host_bound
from profkit.measurement.result import DOUBTFUL, WITHDRAWN, Cell, Result, Row
from profkit.ops.keys import parts_of
from profkit.rendering.names import cell_words, conditions_text, preset_name, short_keys, spec_text, swept_axes
from profkit.rendering.quantities import ABSENT, error_text, percent_text, plural, rate_text, ratio_text, time_text
from profkit.rendering.results.columns import (
    DISPENSABLE,
    IMPLEMENTATION,
    RowColumn,
    choose_columns,
    find_column,
    result_records,
    signed_percent_text,
)
from profkit.rendering.tables.document import Document, Paragraph
from profkit.rendering.tables.table import Item, Line, Table, TableColumn, with_order_out

# Most urgent first.
_ABSENT_ORDER = (
    "not compiled",
    "not loaded",
    "wrong",
    "crashed",
    "lost",
    "timeout",
    "oom",
    "unsupported",
    "unavailable",
)
_OTHER_OUTPUT = {
    "reused": "writes into the same output in each call (the others allocate a fresh one)",
    "fresh": "allocates a fresh output in each call (it cannot reuse one)",
}
_SHARED_REASONS = ("lost", "unsupported", "unavailable")
DOCTOR = "profkit doctor"
LISTED_WIDTH = 30
HOST_BOUND_REMARK = "bound by the host: launching a call takes longer than the device works on it; --columns +dispatch"
NOTES = "notes"
BUSY_PEAK = " (measured while other programs ran; the next command measures it again)"
NAMED_AT_MOST = 4


def result_document(result: Result, columns: Sequence[str] | None = None, is_verbose: bool = False) -> Document:
    """All tables, and whether the run was interrupted."""
    interrupted = [Paragraph("interrupted: this is what was measured until then", "interrupted")]
    return Document(*build_tables(result, columns, is_verbose), *(interrupted if result.interrupted else []))


def build_tables(result: Result, columns: Sequence[str] | None = None, is_verbose: bool = False) -> list[Table]:
    """One table per cell; more cells add a summary over the swept axis. `is_verbose`: nothing is grouped."""
    axes = swept_axes(result.cells)
    tables = [_cell_table(cell, choose_columns(columns), axes, not columns, is_verbose) for cell in result.cells]
    return tables + build_summaries(result, axes)


def build_summaries(result: Result, axes: Sequence[str] | None = None) -> list[Table]:
    """Implementations down, the axis with most values across; one table per combination of the other axes."""
    axes = swept_axes(result.cells) if axes is None else axes
    if len(result.cells) < 2:
        return []
    groups = [_groups(result.cells, [name for name in axes if name != across]) for across in axes] or [
        {(): list(result.cells)}
    ]
    best = min(range(len(groups)), key=lambda i: (len(groups[i]), -i))
    across = axes[best] if axes and len(groups[best]) < len(result.cells) else None
    if across is None:
        return [_summary_table(result.cells, list(axes), "")]
    return [
        _summary_table(cells, [across], ", ".join(f"{name.replace('_', '-')} {word}" for name, word in common))
        for common, cells in groups[best].items()
    ]


def _cell_table(
    cell: Cell, columns: Sequence[RowColumn], axes: Sequence[str], is_default: bool, is_verbose: bool
) -> Table:
    names = short_keys(row.key for row in cell.rows)
    if is_default and any(row.kernel_ns is not None for row in cell.rows):
        columns = [columns[0], find_column("kernel"), *columns[1:]]
    # Some GPU rows may be timed by the wall clock and others, which have it too, by events.
    if is_default and len({row.timing.startswith(WALL_CLOCK) for row in cell.rows if row.wall_ns is not None}) == 2:
        columns = [columns[0], find_column("wall"), *columns[1:]]
    measured = sorted((row for row in cell.rows if row.status == "ok"), key=_rank)
    remarks = [_remarks(row, cell.output) for row in measured]
    # Each distinct remark with its letter, in the order in which the table shows them.
    marks = dict(zip(dict.fromkeys(chain(*remarks)), _letters()))
    shown = [TableColumn(IMPLEMENTATION, IMPLEMENTATION, is_text=True)]
    shown += [TableColumn(NOTES, "", is_text=True)] if marks else []
    shown += with_order_out(columns, DISPENSABLE) if is_default else columns
    lines = []
    for row, own in zip(measured, remarks):
        letters = [marks[remark] for remark in own]
        shown_letters = [("" if all(len(each) == 1 for each in letters) else ",").join(letters)] if marks else []
        lines.append(Line((names[row.key], *shown_letters, *(column.text(row) for column in columns)), row.verdict))
    footer: list[str] = []
    if measured and cell.baseline is not None:
        footer.append(f"ratio = time of {names.get(cell.baseline, cell.baseline)} / this time: above 1 is faster")
    if more := len(cell.left_out):
        footer.append(f"{plural(more, 'more row')} with --all")
    footer += [*_next_steps(measured, names), *cell.notes]
    return Table(
        f"{cell.spec.op} {preset_name(cell.spec)}".rstrip() + f": {spec_text(cell.spec, axes)}",
        _facts(cell),
        shown,
        lines,
        _missing(cell, names, is_verbose),
        footer,
        [f"{letter}: {remark}" for remark, letter in marks.items()],
        records=partial(result_records, [cell]),
    )


def _rank(row: Row) -> tuple[bool, float, float]:
    """By ratio, as times follow from it; rows without one last, by their times."""
    return row.ratio is None, -(row.ratio or 0.0), row.median_ns or 0.0


def _facts(cell: Cell) -> tuple[str, ...]:
    flops, bandwidth = cell.peaks.get("flops_per_s"), cell.peaks.get("bytes_per_s")
    facts = [conditions_text(cell)]
    if "round_trip_ns" in cell.machine:
        facts.append(f"core-to-core round trip {time_text(cell.machine['round_trip_ns'])}")
    if flops:
        busy = "" if cell.peaks.get("quiet", 1.0) else BUSY_PEAK
        facts.append(f"peak {rate_text(flops, 'FLOP/s')}, {rate_text(bandwidth, 'B/s')}{busy}")
        # Only of a convolution are there methods with fewer operations than the textbook's.
        bound = "bound (direct)" if cell.spec.op == "conv2d" else "bound"
        by = "memory bandwidth" if cell.bound == "memory" else "arithmetic"
        facts.append(f"{bound} {time_text(cell.bound_ns)}, by {by}" if cell.bound_ns else f"limited by {by}")
    if any(row.timing and row.percent_of_peak is not None for row in cell.rows):
        facts.append("shares on a GPU are of its peak by clock and units, which was not measured")
    return ("; ".join(facts), *_course(cell), *_disturbances(cell))


def _course(cell: Cell) -> list[str]:
    """The number of rounds, and what they resolve."""
    if not cell.rounds:
        return []
    runs = f" in {len(cell.run_starts)} runs" if len(cell.run_starts) > 1 else ""
    facts = [f"{plural(cell.rounds, 'round')}{runs}"]
    if cell.floor:
        how = "assumed; profkit doctor --noise measures it" if cell.floor_from == "assumed" else cell.floor_from
        facts.append(f"noise floor {percent_text(100.0 * cell.floor)} ({how})")
    known = sorted(row.least_difference for row in cell.rows if row.least_difference is not None)
    if known:
        ends = dict.fromkeys(percent_text(100.0 * each) for each in (known[0], known[-1]))
        facts.append(f"resolves differences from {' (narrowest row) to '.join(ends)}{' (widest)' * (len(ends) - 1)}")
    return ["; ".join(facts)]


def _disturbances(cell: Cell) -> list[str]:
    """Disturbances by a busy machine."""
    causes = ", ".join(f"{len(rounds)} by {reason}" for reason, rounds in cell.dropped.items())
    dropped = f"{sum(map(len, cell.dropped.values()))} of {cell.rounds} rounds"
    seen = busy_words(cell.machine)
    lines = [f"busy machine: {'; '.join(seen)}"] if seen else []
    if cell.is_too_busy:
        text = "times are of all rounds, and there is no verdict"
        lines.append(f"too busy to judge: {dropped} were disturbed ({causes}); {text}")
    elif cell.dropped:
        lines.append(f"{dropped} dropped ({causes})")
    return lines


def _missing(cell: Cell, names: dict[str, str], is_verbose: bool) -> tuple[Item, ...]:
    """Rows without a time; those that could not run for the same reason are one line."""
    order = dict(zip(_ABSENT_ORDER, count()))
    rows = sorted((row for row in cell.rows if row.status != "ok"), key=lambda row: order.get(row.status, -1))
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        single = row.key if is_verbose or row.status not in _SHARED_REASONS else ""
        groups.setdefault((row.status, _reason(row), single), []).append(row)
    return tuple(
        Item(
            names[group[0].key] if len(group) == 1 else _group_name(group, names),
            status,
            f"{reason}; {DOCTOR}" if len(group) > 1 and status == "unavailable" else reason,
        )
        for (status, reason, _), group in groups.items()
    )


def _group_name(rows: Sequence[Row], names: dict[str, str]) -> str:
    listed = ", ".join(names[row.key] for row in rows)
    kind = "CUDA rows" if all(parts_of(row.key).device == "cuda" for row in rows) else "rows"
    return listed if len(listed) <= LISTED_WIDTH else f"{len(rows)} {kind}"


def _reason(row: Row) -> str:
    if row.reason or row.max_error is None:
        return row.reason.strip()
    return f"largest error {error_text(row.max_error)}, accepted {error_text(row.tolerance)}"


def _remarks(row: Row, asked_output: str) -> list[str]:
    """The remarks about this row, such as differences from the request."""
    remarks = [_OTHER_OUTPUT[row.output]] if row.output in _OTHER_OUTPUT and row.output != asked_output else []
    remarks += [doubt if doubt.startswith(WITHDRAWN) else f"{DOUBTFUL}: {doubt}" for doubt in row.doubts]
    remarks += [f"holds its images as {row.layout}"] if row.layout else []
    if row.method not in ("", DIRECT) and row.bound_ns is not None:
        remarks.append(f"its bound is that of {row.method}, {time_text(row.bound_ns)}")
    remarks += [f"its products round to {row.rounding}"] if row.rounding else []
    if row.precision not in ("", FULL_PRECISION) and not row.rounding:
        remarks.append(f"its error is that of {row.precision}")
    remarks += [f"timed by {row.timing}"] if row.timing not in ("", HELD) else []
    remarks += [HOST_BOUND_REMARK] if is_host_bound(row) else []
    if row.low_mode_ns is not None and row.high_mode_ns is not None and row.high_mode_share is not None:
        share = percent_text(100.0 * row.high_mode_share)
        remarks.append(
            f"two modes: {time_text(row.low_mode_ns)}, and {time_text(row.high_mode_ns)} in {share} of rounds"
        )
    if row.drift is not None:
        what = "time" if row.verdict in ("", "baseline") else "ratio"
        remarks.append(f"its {what} drifted by {signed_percent_text(row.drift)} during a run")
    return remarks + ([row.note] if row.note else [])


def _letters() -> Iterator[str]:
    """a to z, then aa and so on."""
    for length in count(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _next_steps(rows: Sequence[Row], names: dict[str, str]) -> list[str]:
    lines = []
    for step in dict.fromkeys(row.next_step for row in rows if row.next_step):
        which = [names[row.key] for row in rows if row.next_step == step]
        named = ", ".join(which) if len(which) <= NAMED_AT_MOST else f"{len(which)} rows"
        lines.append(f"not resolved: {named}; {step}")
    return lines


def _groups(cells: Sequence[Cell], axes: Sequence[str]) -> dict[tuple[tuple[str, str], ...], list[Cell]]:
    """Cells that agree on these axes, by their words."""
    groups: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in cells:
        words = cell_words(cell)
        groups.setdefault(tuple((name, words.get(name, "")) for name in axes), []).append(cell)
    return groups


def _summary_table(cells: Sequence[Cell], across: Sequence[str], common: str) -> Table:
    keys = dict.fromkeys(
        row.key for cell in cells for row in sorted(cell.rows, key=lambda row: (row.status != "ok", _rank(row)))
    )
    names = short_keys(keys)
    lines = []
    for key in keys:
        found = [next((row for row in cell.rows if row.key == key), None) for cell in cells]
        if any(row is not None and row.status == "ok" for row in found):
            lines.append(Line((names[key], *(_summary_text(row) for row in found))))
    columns = [TableColumn(IMPLEMENTATION, IMPLEMENTATION, is_text=True)]
    columns += [TableColumn(str(index), _summary_heading(cell, across)) for index, cell in enumerate(cells)]
    title = f"summary: {cells[0].spec.op} over {', '.join(across).replace('_', '-') or 'equal cells'}"
    facts, notes = ([common] if common else []), ["time, ratio to the baseline"]
    return Table(title, facts, columns, lines, notes=notes, records=partial(result_records, cells))


def _summary_heading(cell: Cell, across: Sequence[str]) -> str:
    """The axis' value; cells that differ in several words at once are better known by their preset."""
    words = cell_words(cell)
    preset = preset_name(cell.spec) if len(across) > 1 else ""
    return preset or ", ".join(f"{name.replace('_', '-')} {words.get(name, '-')}" for name in across)


def _summary_text(row: Row | None) -> str:
    if row is None:
        return ABSENT
    if row.status != "ok":
        return row.status
    ratio = "base" if row.verdict == "baseline" else ratio_text(row.ratio)
    return f"{time_text(row.median_ns)} {ratio:>6}"
