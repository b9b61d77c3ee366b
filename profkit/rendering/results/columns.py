"""The table's columns: every field of a Row has one, plus a few that join fields. Row in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from profkit.measurement.result import Row
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
from profkit.rendering.tables.column_choice import find_named, wanted_names
from profkit.rendering.tables.table import Column

IMPLEMENTATION = "implementation"


# What goes first when a default table is wider than the terminal.
DISPENSABLE = ("max_error", "peak_bytes", "gflops", "percent_of_bound")


@dataclass(frozen=True, kw_only=True)
class RowColumn(Column):
    """A column of a table of rows, with a row's text in it."""

    text: Callable[[Row], str]


def _column(name: str, heading: str, meaning: str, text: Callable[[Row], str], is_text: bool = False) -> RowColumn:
    return RowColumn(name, heading, meaning, is_text, text=text)


def _time(row: Row) -> str:
    return f"{time_text(row.median_ns)} {spread_text(row.median_ns, row.low_ns, row.high_ns)}".rstrip()


def _ratio(row: Row) -> str:
    if row.verdict == "baseline":
        return ratio_text(row.ratio)
    return ratio_interval_text(row.ratio, row.ratio_low, row.ratio_high)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def signed_percent_text(share: float | None) -> str:
    """A change: +1.2%, -3.4%."""
    return ABSENT if share is None else f"{100.0 * share:+.1f}%"


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


COLUMNS = (
    _column("time", "time", "time of a call and the farther end of its interval", _time),
    _column("median", "median", "time of a call: baseline's time / ratio", lambda row: time_text(row.median_ns)),
    _column("low", "low", "lower end of the time's interval", lambda row: time_text(row.low_ns)),
    _column("high", "high", "upper end of the time's interval", lambda row: time_text(row.high_ns)),
    _column("p5", "p5", "5th percentile of the samples", lambda row: time_text(row.p5_ns)),
    _column("p95", "p95", "95th percentile of the samples", lambda row: time_text(row.p95_ns)),
    _column("p99", "p99", "99th percentile of the samples", lambda row: time_text(row.p99_ns)),
    _column(
        "trimmed_mean",
        "trimmed mean",
        "mean of the samples without the tenth at either end",
        lambda row: time_text(row.trimmed_mean_ns),
    ),
    _column("low_mode", "low mode", "the lower of two modes", lambda row: time_text(row.low_mode_ns)),
    _column("high_mode", "high mode", "the higher of two modes", lambda row: time_text(row.high_mode_ns)),
    _column(
        "high_mode_share",
        "in high mode",
        "share of rounds around the higher of two modes",
        lambda row: percent_text(_percent(row.high_mode_share)),
    ),
    _column("drift", "drift", "change of the ratio during a run", lambda row: signed_percent_text(row.drift)),
    _column("first_call", "first call", "first call, with compilation", lambda row: time_text(row.first_call_ns)),
    _column("warmup", "warm-ups", "warm-up calls before the samples", lambda row: str(len(row.warmup_ns))),
    _column("samples", "samples", "number of samples", lambda row: str(len(row.samples_ns))),
    _column("sample_rounds", "rounds", "rounds of samples", lambda row: str(len(set(row.sample_rounds)))),
    _column("calls_per_sample", "calls", "calls timed as one sample", lambda row: str(row.calls_per_sample)),
    _column("gflops", "GFLOP/s", "arithmetic rate", lambda row: number_text(row.gflops)),
    _column(
        "percent_of_bound",
        "bound",
        "share of the roofline of its own method: least time / time",
        lambda row: percent_text(row.percent_of_bound),
    ),
    _column("percent_of_peak", "of peak", "share of peak arithmetic", lambda row: percent_text(row.percent_of_peak)),
    _column("bound", "least time", "least time of its method here", lambda row: time_text(row.bound_ns)),
    _column("method", "method", "direct, or the Winograd method of a convolution", lambda row: row.method, True),
    _column(
        "peak_bytes",
        "memory",
        "peak bytes above inputs and output in a call",
        lambda row: bytes_text(row.peak_bytes),
    ),
    _column("page_faults", "faults", "minor page faults per call", lambda row: number_text(row.page_faults)),
    _column("max_error", "error", "largest error against float64", lambda row: error_text(row.max_error)),
    _column("tolerance", "tolerance", "largest error accepted", lambda row: error_text(row.tolerance)),
    _column("ratio", "ratio", "baseline time / this time, with interval", _ratio),
    _column("ratio_low", "ratio low", "lower end of the ratio", lambda row: ratio_text(row.ratio_low)),
    _column("ratio_high", "ratio high", "upper end of the ratio", lambda row: ratio_text(row.ratio_high)),
    _column(
        "least_difference",
        "resolves",
        "smallest difference that its interval resolves",
        lambda row: percent_text(_percent(row.least_difference)),
    ),
    _column("verdict", "verdict", "faster, slower, same or not resolved", lambda row: row.verdict, True),
    _column("next_step", "next step", "what to type when not resolved", lambda row: row.next_step, True),
    _column("output", "output", "fresh or reused output", lambda row: row.output, True),
    _column("layout", "layout", "own layout of the images", lambda row: row.layout, True),
    _column("note", "note", "what a reader must know", lambda row: row.note, True),
    _column("rounding", "rounding", "coarser format of its products", lambda row: row.rounding, True),
    _column("timing", "timing", "how a row on a GPU was timed", lambda row: row.timing, True),
    _column(
        "throttled_samples",
        "throttled",
        "samples taken while the GPU was throttled",
        lambda row: str(len(row.throttled_samples)),
    ),
    _column("wall", "wall", "a GPU call with launching and waiting", lambda row: time_text(row.wall_ns)),
    _column("dispatch", "dispatch", "the host's time to enqueue a GPU call", lambda row: time_text(row.dispatch_ns)),
    _column("kernel", "kernels", "time of a call's GPU kernels by CUPTI", lambda row: time_text(row.kernel_ns)),
    _column("device", "device", "what was seen of the GPU", lambda row: _pairs(row.device), True),
    _column("versions", "versions", "versions and build facts", lambda row: _pairs(row.versions), True),
    _column("key", "key", "the whole key", lambda row: row.key, True),
    _column("status", "status", "ok, or why there is no time", lambda row: row.status, True),
    _column("reason", "reason", "the reason of a status", lambda row: row.reason, True),
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
