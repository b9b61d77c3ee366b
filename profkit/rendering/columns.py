"""The table's columns: every field of a Row has one, plus a few that join fields. Row in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from profkit.measurement.result import Row
from profkit.rendering.column_choice import find_named, wanted_names
from profkit.rendering.quantities import (
    bytes_text,
    error_text,
    number_text,
    percent_text,
    ratio_interval_text,
    ratio_text,
    spread_text,
    time_text,
)

IMPLEMENTATION = "implementation"


@dataclass(frozen=True)
class Column:
    """One column: its name, its heading, and a row's text in it."""

    name: str
    heading: str
    help: str
    text: Callable[[Row], str]
    is_text: bool = False
    """Text is set to the left, numbers to the right."""


def _time(row: Row) -> str:
    return f"{time_text(row.median_ns)} {spread_text(row.median_ns, row.low_ns, row.high_ns)}".rstrip()


def _ratio(row: Row) -> str:
    if row.verdict == "baseline":
        return ratio_text(row.ratio)
    return ratio_interval_text(row.ratio, row.ratio_low, row.ratio_high)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


COLUMNS = (
    Column("time", "time", "median time of a call and the farther end of its interval", _time),
    Column("median", "median", "median time of a call", lambda row: time_text(row.median_ns)),
    Column("low", "low", "lower end of the median's interval", lambda row: time_text(row.low_ns)),
    Column("high", "high", "upper end of the median's interval", lambda row: time_text(row.high_ns)),
    Column("first_call", "first call", "first call, with compilation", lambda row: time_text(row.first_call_ns)),
    Column("warmup", "warm-ups", "warm-up calls before the samples", lambda row: str(len(row.warmup_ns))),
    Column("samples", "samples", "number of samples", lambda row: str(len(row.samples_ns))),
    Column("sample_rounds", "rounds", "rounds of samples", lambda row: str(len(set(row.sample_rounds)))),
    Column("calls_per_sample", "calls", "calls timed as one sample", lambda row: str(row.calls_per_sample)),
    Column("gflops", "GFLOP/s", "arithmetic rate", lambda row: number_text(row.gflops)),
    Column(
        "percent_of_bound",
        "bound",
        "share of the roofline of its own method: least time / time",
        lambda row: percent_text(row.percent_of_bound),
    ),
    Column("percent_of_peak", "of peak", "share of peak arithmetic", lambda row: percent_text(row.percent_of_peak)),
    Column("bound", "least time", "least time of its method here", lambda row: time_text(row.bound_ns)),
    Column("method", "method", "direct, or the Winograd method of a convolution", lambda row: row.method, True),
    Column(
        "peak_bytes",
        "memory",
        "peak bytes above inputs and output in a call",
        lambda row: bytes_text(row.peak_bytes),
    ),
    Column("page_faults", "faults", "minor page faults per call", lambda row: number_text(row.page_faults)),
    Column("max_error", "error", "largest error against float64", lambda row: error_text(row.max_error)),
    Column("tolerance", "tolerance", "largest error accepted", lambda row: error_text(row.tolerance)),
    Column("ratio", "ratio", "baseline time / this time, with interval", _ratio),
    Column("ratio_low", "ratio low", "lower end of the ratio", lambda row: ratio_text(row.ratio_low)),
    Column("ratio_high", "ratio high", "upper end of the ratio", lambda row: ratio_text(row.ratio_high)),
    Column("verdict", "verdict", "faster, slower, same or not resolved", lambda row: row.verdict, True),
    Column("next_step", "next step", "what to type when not resolved", lambda row: row.next_step, True),
    Column("output", "output", "fresh or reused output", lambda row: row.output, True),
    Column("layout", "layout", "own layout of the images", lambda row: row.layout, True),
    Column("note", "note", "what a reader must know", lambda row: row.note, True),
    Column("rounding", "rounding", "coarser format of its products", lambda row: row.rounding, True),
    Column("timing", "timing", "how a row on a GPU was timed", lambda row: row.timing, True),
    Column(
        "throttled_samples",
        "throttled",
        "samples taken while the GPU was throttled",
        lambda row: str(len(row.throttled_samples)),
    ),
    Column("wall", "wall", "a GPU call with launching and waiting", lambda row: time_text(row.wall_ns)),
    Column("dispatch", "dispatch", "the host's time to enqueue a GPU call", lambda row: time_text(row.dispatch_ns)),
    Column("kernel", "kernels", "time of a call's GPU kernels by CUPTI", lambda row: time_text(row.kernel_ns)),
    Column("device", "device", "what was seen of the GPU", lambda row: _pairs(row.device), True),
    Column("versions", "versions", "versions and build facts", lambda row: _pairs(row.versions), True),
    Column("key", "key", "the whole key", lambda row: row.key, True),
    Column("status", "status", "ok, or why there is no time", lambda row: row.status, True),
    Column("reason", "reason", "the reason of a status", lambda row: row.reason, True),
)
DEFAULT = ("time", "gflops", "percent_of_bound", "peak_bytes", "max_error", "ratio", "verdict")
# What goes first when a default table is wider than the terminal.
DISPENSABLE = ("max_error", "peak_bytes", "gflops", "percent_of_bound")
_ALIASES = {"memory": "peak_bytes", "error": "max_error", "rounds": "sample_rounds", "calls": "calls_per_sample"}


def column_names() -> list[str]:
    """Names that `--columns` takes, in table order."""
    return [column.name for column in COLUMNS]


def find_column(name: str) -> Column:
    """The column with this name; a Row's field name, with or without `_ns`, always is one."""
    return find_named(name, COLUMNS, _ALIASES)


def choose_columns(names: Sequence[str] | None) -> list[Column]:
    """Columns by name; none is the default set, `all` is one per field, a first `+` adds to the default."""
    if names and list(names) == ["all"]:
        return [column for column in COLUMNS if column.name != "time"]
    return list(dict.fromkeys(find_column(name) for name in wanted_names(names, DEFAULT, IMPLEMENTATION)))


def row_fields() -> list[str]:
    """Fields of a Row; each is a column."""
    return [item.name for item in fields(Row)]
