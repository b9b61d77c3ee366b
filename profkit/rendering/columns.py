"""The table's columns: every field of a Row has one, plus a few that join fields. Row and Cell in, text out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from profkit.measurement.result import Cell, Row
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
    """One column: how it is asked for, what stands on top, and a row's text in it."""

    name: str
    heading: str
    help: str
    text: Callable[[Row, Cell], str]
    is_text: bool = False
    """Text is set to the left, numbers to the right."""

    def heading_in(self, cell: Cell) -> str:
        """The heading; the share column is named after what bounds the cell."""
        if self.name == "share":
            return "bound" if cell.bound == "memory" else "peak"
        return self.heading


def _time(row: Row, _: Cell) -> str:
    return f"{time_text(row.median_ns)} {spread_text(row.median_ns, row.low_ns, row.high_ns)}".rstrip()


def _share(row: Row, cell: Cell) -> str:
    return percent_text(row.percent_of_bound if cell.bound == "memory" else row.percent_of_peak)


def _ratio(row: Row, _: Cell) -> str:
    if row.verdict == "baseline":
        return ratio_text(row.ratio)
    return ratio_interval_text(row.ratio, row.ratio_low, row.ratio_high)


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


COLUMNS = (
    Column("time", "time", "median time of a call and the farther end of its interval", _time),
    Column("median", "median", "median time of a call", lambda row, _: time_text(row.median_ns)),
    Column("low", "low", "lower end of the median's interval", lambda row, _: time_text(row.low_ns)),
    Column("high", "high", "upper end of the median's interval", lambda row, _: time_text(row.high_ns)),
    Column("first_call", "first call", "first call, with compilation", lambda row, _: time_text(row.first_call_ns)),
    Column("warmup", "warm-ups", "warm-up calls before the samples", lambda row, _: str(len(row.warmup_ns))),
    Column("samples", "samples", "number of samples", lambda row, _: str(len(row.samples_ns))),
    Column("sample_rounds", "rounds", "rounds of samples", lambda row, _: str(len(set(row.sample_rounds)))),
    Column("calls_per_sample", "calls", "calls timed as one sample", lambda row, _: str(row.calls_per_sample)),
    Column("gflops", "GFLOP/s", "arithmetic rate", lambda row, _: number_text(row.gflops)),
    Column("share", "peak", "share of the measured peak, or of the bandwidth bound", _share),
    Column("percent_of_peak", "of peak", "share of peak arithmetic", lambda row, _: percent_text(row.percent_of_peak)),
    Column(
        "percent_of_bound",
        "of bound",
        "share of the roofline (peak arithmetic or bandwidth)",
        lambda row, _: percent_text(row.percent_of_bound),
    ),
    Column(
        "peak_bytes",
        "memory",
        "peak bytes above inputs and output in a call",
        lambda row, _: bytes_text(row.peak_bytes),
    ),
    Column("page_faults", "faults", "minor page faults per call", lambda row, _: number_text(row.page_faults)),
    Column("max_error", "error", "largest error against float64", lambda row, _: error_text(row.max_error)),
    Column("tolerance", "tolerance", "largest error accepted", lambda row, _: error_text(row.tolerance)),
    Column("ratio", "ratio", "baseline time / this time, with interval", _ratio),
    Column("ratio_low", "ratio low", "lower end of the ratio", lambda row, _: ratio_text(row.ratio_low)),
    Column("ratio_high", "ratio high", "upper end of the ratio", lambda row, _: ratio_text(row.ratio_high)),
    Column("verdict", "verdict", "faster, slower, same or not resolved", lambda row, _: row.verdict, True),
    Column("next_step", "next step", "what to type when not resolved", lambda row, _: row.next_step, True),
    Column("output", "output", "fresh or reused output", lambda row, _: row.output, True),
    Column("layout", "layout", "own layout of the images", lambda row, _: row.layout, True),
    Column("note", "note", "what a reader must know", lambda row, _: row.note, True),
    Column("rounding", "rounding", "coarser format of its products", lambda row, _: row.rounding, True),
    Column("timing", "timing", "how a row on a GPU was timed", lambda row, _: row.timing, True),
    Column(
        "throttled_samples",
        "throttled",
        "samples taken while the GPU was held down",
        lambda row, _: str(len(row.throttled_samples)),
    ),
    Column("wall", "wall", "a GPU call with launching and waiting", lambda row, _: time_text(row.wall_ns)),
    Column("dispatch", "dispatch", "the host's time to enqueue a GPU call", lambda row, _: time_text(row.dispatch_ns)),
    Column("kernel", "kernels", "time of a call's GPU kernels by CUPTI", lambda row, _: time_text(row.kernel_ns)),
    Column("device", "device", "what was seen of the GPU", lambda row, _: _pairs(row.device), True),
    Column("versions", "versions", "versions and build facts", lambda row, _: _pairs(row.versions), True),
    Column("key", "key", "the whole key", lambda row, _: row.key, True),
    Column("status", "status", "ok, or why there is no time", lambda row, _: row.status, True),
    Column("reason", "reason", "the reason of a status", lambda row, _: row.reason, True),
)
DEFAULT = ("time", "gflops", "share", "peak_bytes", "max_error", "ratio", "verdict")
# What goes first when a default table is wider than the terminal.
DISPENSABLE = ("max_error", "peak_bytes", "gflops", "share")
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
        return [column for column in COLUMNS if column.name not in ("time", "share")]
    return list(dict.fromkeys(find_column(name) for name in wanted_names(names, DEFAULT, IMPLEMENTATION)))


def row_fields() -> list[str]:
    """Fields of a Row; each is a column."""
    return [item.name for item in fields(Row)]
