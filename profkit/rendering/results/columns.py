"""The table's columns: every field of a Row has one, plus a few that join fields. Row in, text out.

Below them flat records, one per row: the one place where fields of specs, cells and rows meet by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from profkit.measurement.result import Cell, Result, Row
from profkit.rendering.quantities import (
    ABSENT,
    bytes_text,
    error_text,
    number_text,
    percent_text,
    ratio_interval_text,
    ratio_text,
    spread_text,
    time_text,
)
from profkit.rendering.tables.csv_file import render_records
from profkit.rendering.tables.table import TableColumn, find_named, wanted_names

IMPLEMENTATION = "implementation"


# What goes first when a default table is wider than the terminal.
DISPENSABLE = ("max_error", "peak_bytes", "gflops", "percent_of_bound")


@dataclass(frozen=True, kw_only=True)
class RowColumn(TableColumn):
    """A column of a table of rows, with a row's text in it."""

    text: Callable[[Row], str]


def _field(
    field: str, heading: str, meaning: str, text: Callable[[Any], str] = time_text, is_text: bool = False
) -> RowColumn:
    return RowColumn(field.removesuffix("_ns"), heading, meaning, is_text, text=lambda row: text(getattr(row, field)))


def _words(field: str, heading: str, meaning: str, text: Callable[[Any], str] = str) -> RowColumn:
    return _field(field, heading, meaning, text, is_text=True)


def _time(row: Row) -> str:
    return f"{time_text(row.median_ns)} {spread_text(row.median_ns, row.low_ns, row.high_ns)}".rstrip()


def _ratio(row: Row) -> str:
    if row.verdict == "baseline":
        return ratio_text(row.ratio)
    return ratio_interval_text(row.ratio, row.ratio_low, row.ratio_high)


def _share(share: float | None) -> str:
    return percent_text(None if share is None else 100.0 * share)


def signed_percent_text(share: float | None) -> str:
    """A change: +1.2%, -3.4%."""
    return ABSENT if share is None else f"{100.0 * share:+.1f}%"


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _numbers(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())


def _count(values: Sequence[object]) -> str:
    return str(len(values))


COLUMNS = (
    RowColumn("time", "time", "time of a call and the farther end of its interval", text=_time),
    _field("median_ns", "median", "time of a call: baseline's time / ratio"),
    _field("low_ns", "low", "lower end of the time's interval"),
    _field("high_ns", "high", "upper end of the time's interval"),
    _field("p5_ns", "p5", "5th percentile of the samples"),
    _field("p95_ns", "p95", "95th percentile of the samples"),
    _field("p99_ns", "p99", "99th percentile of the samples"),
    _field("trimmed_mean_ns", "trimmed mean", "mean of the samples without the tenth at either end"),
    _field("low_mode_ns", "low mode", "the lower of two modes"),
    _field("high_mode_ns", "high mode", "the higher of two modes"),
    _field("high_mode_share", "in high mode", "share of rounds around the higher of two modes", _share),
    _field("drift", "drift", "change of the ratio during a run", signed_percent_text),
    _field("first_call_ns", "first call", "first call, with compilation"),
    _field("warmup_ns", "warm-ups", "warm-up calls before the samples", _count),
    _field("samples_ns", "samples", "number of samples", _count),
    _field("sample_rounds", "rounds", "rounds of samples", lambda rounds: str(len(set(rounds)))),
    _field("calls_per_sample", "calls", "calls timed as one sample", str),
    _field("gflops", "GFLOP/s", "arithmetic rate", number_text),
    _field("percent_of_bound", "bound", "share of the roofline of its own method: least time / time", percent_text),
    _field("percent_of_peak", "of peak", "share of peak arithmetic", percent_text),
    _field("bound_ns", "least time", "least time of its method here"),
    _words("method", "method", "direct, or the Winograd method of a convolution"),
    _field("peak_bytes", "memory", "peak bytes above inputs and output in a call", bytes_text),
    _field("page_faults", "faults", "minor page faults per call", number_text),
    _field("max_error", "error", "largest error against float64", error_text),
    _field("tolerance", "tolerance", "largest error accepted", error_text),
    _words("precision", "precision", "format in which a float32 result was computed, by its error"),
    _field("wrong_index", "wrong at", "first element that differs", lambda index: ", ".join(map(str, index))),
    _field("wrong_got", "got", "its value", number_text),
    _field("wrong_expected", "expected", "its value in float64", number_text),
    _field("wrong_elements", "wrong elements", "elements that differ", number_text),
    _field("checked_elements", "of elements", "elements of a wrong result", number_text),
    _field("nan_elements", "NaN", "elements that are NaN", number_text),
    _field("checked_calls", "checked", "calls of a candidate whose results were checked", str),
    _words("audit", "audit", "a candidate's single calls on new and on the same contents", _numbers),
    _field("unexplained_ns", "unexplained", "time of a turn that the worker does not account for"),
    RowColumn("ratio", "ratio", "baseline time / this time, with interval", text=_ratio),
    _field("ratio_low", "ratio low", "lower end of the ratio", ratio_text),
    _field("ratio_high", "ratio high", "upper end of the ratio", ratio_text),
    _field("least_difference", "resolves", "smallest difference that its interval resolves", _share),
    _words("verdict", "verdict", "faster, slower, same, not resolved, or the reason for none of them"),
    _words("next_step", "next step", "what to type when not resolved"),
    _words("doubts", "doubts", "why its times cannot be trusted", "; ".join),
    _field("processors", "processors", "processors that it kept busy", number_text),
    _words("output", "output", "fresh or reused output"),
    _words("layout", "layout", "own layout of the images"),
    _words("note", "note", "remarks"),
    _words("rounding", "rounding", "coarser format of its products"),
    _words("timing", "timing", "how a row on a GPU was timed"),
    _field("throttled_samples", "throttled", "samples taken while the GPU was throttled", _count),
    _field("wall_ns", "wall", "a GPU call with launching and waiting"),
    _field("dispatch_ns", "dispatch", "the host's time to enqueue a GPU call"),
    _field("kernel_ns", "kernels", "time of a call's GPU kernels by CUPTI"),
    _words("device", "device", "what was seen of the GPU", _pairs),
    _words("versions", "versions", "versions and build facts", _pairs),
    _words("key", "key", "the whole key"),
    _words("status", "status", "ok, or why there is no time"),
    _words("reason", "reason", "the reason of a status"),
)
DEFAULT = ("time", "gflops", "percent_of_bound", "peak_bytes", "max_error", "ratio", "verdict")
_ALIASES = {"memory": "peak_bytes", "error": "max_error", "rounds": "sample_rounds", "calls": "calls_per_sample"}


def column_names() -> list[str]:
    """Names that `--columns` takes, in table order."""
    return [column.name for column in COLUMNS]


def find_column(name: str) -> RowColumn:
    """The column with this name; a Row's field name, with or without `_ns`, always is one."""
    return find_named(name, COLUMNS, _ALIASES)


def choose_columns(names: Sequence[str] | None) -> list[RowColumn]:
    """Columns by name; none is the default set, `all` is one per field, a first `+` adds to the default."""
    if names and list(names) == ["all"]:
        return [column for column in COLUMNS if column.name != "time"]
    return list(dict.fromkeys(find_column(name) for name in wanted_names(names, DEFAULT, IMPLEMENTATION)))


def row_fields() -> list[str]:
    """Fields of a Row; each is a column."""
    return [item.name for item in fields(Row)]


# --- Records ---

_OF_THE_CELL = ("threads", "cache", "bound", "baseline")
# Lists have no place in a line; their length is what a spreadsheet can use, and the JSON file has them whole.
_LISTS = {"samples_ns": "samples", "warmup_ns": "warmups", "sample_rounds": ""}


def flat_record(cell: Cell, row: Row, spec_values: Mapping[str, Any]) -> dict[str, Any]:
    """Operator, spec, cell, peaks and row; a field of the spec that shares a name (layout) gets `spec_` before it."""
    taken = {"op", *_OF_THE_CELL, *row_fields()}
    record: dict[str, Any] = {"op": cell.spec.op}
    record |= {f"spec_{name}" if name in taken else name: value for name, value in spec_values.items() if name != "op"}
    record |= {name: getattr(cell, name) for name in _OF_THE_CELL}
    record["asked_output"] = cell.output  # a row that cannot reuse its output says so in its own
    record |= {f"peak_{name}": value for name, value in cell.peaks.items()}
    return record | {name: getattr(row, name) for name in row_fields()}


def result_records(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """One record per row of these cells, fields of specs as they are."""
    return [flat_record(cell, row, cell.spec.to_dict()) for cell in cells for row in cell.rows]


def render_csv(result: Result) -> str:
    """One line per implementation and cell, with plain numbers; one that was not measured is an empty field."""
    return render_records(
        [_of_spreadsheet(flat_record(cell, row, cell.spec.words())) for cell in result.cells for row in cell.rows]
    )


def _of_spreadsheet(record: Mapping[str, Any]) -> dict[str, Any]:
    counted = {_LISTS.get(name, name): len(value) if name in _LISTS else value for name, value in record.items()}
    return {
        name: "; ".join(f"{key}={item}" for key, item in value.items()) if isinstance(value, dict) else value
        for name, value in counted.items()
        if name
    }
