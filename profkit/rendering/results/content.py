"""What the tables of a Result say, before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import count, product
from string import ascii_lowercase

from profkit.measurement.bounds import DIRECT
from profkit.measurement.device.timing import HELD
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.disturbance import BUSY_SHARE, STOLEN_SHARE
from profkit.measurement.host_times import is_host_bound
from profkit.measurement.result import Cell, Result, Row
from profkit.rendering.names import cell_words, conditions_text, preset_name, short_keys, spec_text, swept_axes
from profkit.rendering.quantities import ABSENT, error_text, percent_text, rate_text, ratio_text, time_text
from profkit.rendering.results.columns import (
    DISPENSABLE,
    IMPLEMENTATION,
    RowColumn,
    choose_columns,
    find_column,
    signed_percent_text,
)
from profkit.rendering.results.records import result_records
from profkit.rendering.tables.column_choice import with_order_out
from profkit.rendering.tables.document import Document, Paragraph
from profkit.rendering.tables.table import Column, Item, Line, Table

# Most urgent first.
_ABSENT_ORDER = ("wrong", "crashed", "lost", "timeout", "oom", "unsupported", "unavailable")
_OTHER_OUTPUT = {
    "reused": "writes into the same output in each call (the others allocate a fresh one)",
    "fresh": "allocates a fresh output in each call (it cannot reuse one)",
}
_SHARED_REASONS = ("lost", "unsupported", "unavailable")
DOCTOR = "profkit doctor"
LISTED_WIDTH = 30
HOST_BOUND_REMARK = "bound by the host: launching a call takes longer than the device works on it; --columns +dispatch"
NOTES = "notes"
NAMED_AT_MOST = 4
CLOCK_DRIFT = 0.05


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
        _summary_table(cells, [across], ", ".join(f"{_flag(name)} {word}" for name, word in common))
        for common, cells in groups[best].items()
    ]


def _cell_table(
    cell: Cell, columns: Sequence[RowColumn], axes: Sequence[str], is_default: bool, is_verbose: bool
) -> Table:
    names = short_keys(row.key for row in cell.rows)
    if is_default and any(row.kernel_ns is not None for row in cell.rows):
        columns = [columns[0], find_column("kernel"), *columns[1:]]
    if is_default and _mixes_clocks(cell):
        columns = [columns[0], find_column("wall"), *columns[1:]]
    measured = sorted((row for row in cell.rows if row.status == "ok"), key=_rank)
    marks = _footnotes(measured, cell.output)
    shown = [
        Column(IMPLEMENTATION, IMPLEMENTATION, is_text=True),
        *([Column(NOTES, "", is_text=True)] if marks else []),
    ]
    shown += with_order_out(columns, DISPENSABLE) if is_default else columns
    lines = []
    for row in measured:
        letters = [_joined([marks[remark] for remark in _remarks(row, cell.output)])] if marks else []
        lines.append(Line((names[row.key], *letters, *(column.text(row) for column in columns)), row.verdict))
    footer = [*(_ratio_meaning(cell, names) if measured else []), *_more_rows(cell)]
    footer += [*_next_steps(measured, names), *cell.notes]
    return Table(
        _title(cell, axes),
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


def _mixes_clocks(cell: Cell) -> bool:
    """Whether some GPU rows are timed by the wall clock and others, which have it too, by events."""
    clocks = {row.timing.startswith(WALL_CLOCK) for row in cell.rows if row.wall_ns is not None}
    return len(clocks) == 2


def _title(cell: Cell, axes: Sequence[str]) -> str:
    preset = preset_name(cell.spec)
    return f"{cell.spec.op}{f' {preset}' if preset else ''}: {spec_text(cell.spec, axes)}"


def _facts(cell: Cell) -> tuple[str, ...]:
    flops, bandwidth = cell.peaks.get("flops_per_s"), cell.peaks.get("bytes_per_s")
    facts = [conditions_text(cell)]
    if flops:
        facts.append(f"peak {rate_text(flops, 'FLOP/s')}, {rate_text(bandwidth, 'B/s')}")
        # Only of a convolution are there methods with fewer operations than the textbook's.
        bound = "bound (direct)" if cell.spec.op == "conv2d" else "bound"
        by = "memory bandwidth" if cell.bound == "memory" else "arithmetic"
        facts.append(f"{bound} {time_text(cell.bound_ns)}, by {by}" if cell.bound_ns else f"limited by {by}")
    if any(row.timing and row.percent_of_peak is not None for row in cell.rows):
        facts.append("shares on a GPU are of its peak by clock and units, which was not measured")
    return ("; ".join(facts), *_course(cell), *_disturbances(cell))


def _course(cell: Cell) -> list[str]:
    """How long it was sampled, and what that can tell."""
    if not cell.rounds:
        return []
    runs = f" in {len(cell.run_starts)} runs" if len(cell.run_starts) > 1 else ""
    facts = [f"{cell.rounds} round{'' if cell.rounds == 1 else 's'}{runs}"]
    if cell.floor:
        how = "assumed; profkit doctor --noise measures it" if cell.floor_from == "assumed" else cell.floor_from
        facts.append(f"noise floor {percent_text(100.0 * cell.floor)} ({how})")
    known = sorted(row.least_difference for row in cell.rows if row.least_difference is not None)
    if known:
        ends = dict.fromkeys(percent_text(100.0 * each) for each in (known[0], known[-1]))
        facts.append(f"resolves differences from {' (narrowest row) to '.join(ends)}{' (widest)' * (len(ends) - 1)}")
    return ["; ".join(facts)]


def _disturbances(cell: Cell) -> list[str]:
    """What a busy machine did to it."""
    dropped = {reason: len(rounds) for reason, rounds in cell.dropped.items()}
    causes = ", ".join(f"{count} by {reason}" for reason, count in dropped.items())
    lines = []
    if cell.is_too_busy:
        lines.append(
            f"too busy to judge: {sum(dropped.values())} of {cell.rounds} rounds were disturbed ({causes}); "
            "times are of all rounds, and there is no verdict"
        )
    elif dropped:
        lines.append(f"{sum(dropped.values())} of {cell.rounds} rounds dropped ({causes})")
    found, seen = cell.machine, []
    if found.get("others_share", 0.0) > BUSY_SHARE:
        load = f" (load {found['load']:.1f})" if "load" in found else ""
        seen.append(f"other programs took {percent_text(100.0 * found['others_share'])} of these processors{load}")
    if found.get("stolen_share", 0.0) > STOLEN_SHARE:
        seen.append(f"other guests took {percent_text(100.0 * found['stolen_share'])} of them")
    if found.get("most_mhz", 0.0) > (1.0 + CLOCK_DRIFT) * found.get("least_mhz", math.inf):
        seen.append(f"the clock moved between {found['least_mhz']:.0f} and {found['most_mhz']:.0f} MHz")
    return [*([f"busy machine: {'; '.join(seen)}"] if seen else []), *lines]


def _missing(cell: Cell, names: dict[str, str], is_verbose: bool) -> tuple[Item, ...]:
    """Rows without a time; those that could not run for the same reason are one line."""
    rows = sorted((row for row in cell.rows if row.status != "ok"), key=_absent_rank)
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
    kind = "CUDA rows" if all(row.key.split("/")[2] == "cuda" for row in rows) else "rows"
    return listed if len(listed) <= LISTED_WIDTH else f"{len(rows)} {kind}"


def _absent_rank(row: Row) -> int:
    return _ABSENT_ORDER.index(row.status) if row.status in _ABSENT_ORDER else -1


def _reason(row: Row) -> str:
    if row.reason or row.max_error is None:
        return row.reason.strip()
    return f"largest error {error_text(row.max_error)}, accepted {error_text(row.tolerance)}"


def _remarks(row: Row, asked_output: str) -> list[str]:
    """What a reader must know of this row, as far as it differs from what was asked."""
    remarks = [_OTHER_OUTPUT[row.output]] if row.output in _OTHER_OUTPUT and row.output != asked_output else []
    remarks += [f"holds its images as {row.layout}"] if row.layout else []
    if row.method not in ("", DIRECT) and row.bound_ns is not None:
        remarks.append(f"its bound is that of {row.method}, {time_text(row.bound_ns)}")
    remarks += [f"its products round to {row.rounding}"] if row.rounding else []
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


def _footnotes(rows: Sequence[Row], asked_output: str) -> dict[str, str]:
    """Each distinct remark with its letter, in the order in which the table shows them."""
    remarks = dict.fromkeys(remark for row in rows for remark in _remarks(row, asked_output))
    return dict(zip(remarks, _letters(len(remarks))))


def _joined(letters: Sequence[str]) -> str:
    return ("" if all(len(letter) == 1 for letter in letters) else ",").join(letters)


def _letters(number: int) -> list[str]:
    names: list[str] = []
    for length in count(1):
        names += ["".join(letters) for letters in product(ascii_lowercase, repeat=length)]
        if len(names) >= number:
            break
    return names[:number]


def _ratio_meaning(cell: Cell, names: dict[str, str]) -> list[str]:
    if cell.baseline is None:
        return []
    return [f"ratio = time of {names.get(cell.baseline, cell.baseline)} / this time: above 1 is faster"]


def _more_rows(cell: Cell) -> list[str]:
    more = len(cell.left_out)
    return [f"{more} more row{'s' if more > 1 else ''} with --all"] if more else []


def _next_steps(rows: Sequence[Row], names: dict[str, str]) -> list[str]:
    steps: dict[str, list[str]] = {}
    for row in rows:
        if row.next_step:
            steps.setdefault(row.next_step, []).append(names[row.key])
    named = {
        step: ", ".join(which) if len(which) <= NAMED_AT_MOST else f"{len(which)} rows" for step, which in steps.items()
    }
    return [f"not resolved: {which}; {step}" for step, which in named.items()]


def _flag(name: str) -> str:
    return name.replace("_", "-")


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
    columns = [Column(IMPLEMENTATION, IMPLEMENTATION, is_text=True)]
    columns += [Column(str(index), _summary_heading(cell, across)) for index, cell in enumerate(cells)]
    title = f"summary: {cells[0].spec.op} over {', '.join(map(_flag, across)) or 'equal cells'}"
    facts, notes = ([common] if common else []), ["time, ratio to the baseline"]
    return Table(title, facts, columns, lines, notes=notes, records=partial(result_records, cells))


def _summary_heading(cell: Cell, across: Sequence[str]) -> str:
    """The axis' value; cells that differ in several words at once are better known by their preset."""
    words = cell_words(cell)
    preset = preset_name(cell.spec) if len(across) > 1 else ""
    return preset or ", ".join(f"{_flag(name)} {words.get(name, '-')}" for name in across)


def _summary_text(row: Row | None) -> str:
    if row is None:
        return ABSENT
    if row.status != "ok":
        return row.status
    ratio = "base" if row.verdict == "baseline" else ratio_text(row.ratio)
    return f"{time_text(row.median_ns)} {ratio:>6}"
