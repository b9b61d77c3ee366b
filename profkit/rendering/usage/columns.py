"""Columns of a table of usage: each declared metric has one. A Usage and names in, the columns to show out.

Below them which rows are shown, and in which order: a column to sort by and a limit in, row numbers out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from profkit.attribution.account import DEVICES, STEPS, THREADS
from profkit.attribution.metrics import BYTES, COUNT, FLOPS, METRICS, NUMBER, PERCENT, TEXT, TIME, Metric, find_metric
from profkit.attribution.usage import NAME, Usage, Value
from profkit.rendering.quantities import ABSENT, bytes_text, count_text, number_text, percent_text, time_text
from profkit.rendering.tables.table import TableColumn, find_named, wanted_names, with_order_out


def flops_text(value: Value) -> str:
    """Flops in powers of ten: 31.2 M."""
    if value is None:
        return ABSENT
    for factor, unit in ((1e3, ""), (1e6, "k"), (1e9, "M"), (1e12, "G")):
        if value < 0.9995 * factor:
            return f"{number_text(1e3 * value / factor)} {unit}".rstrip()
    return f"{number_text(value / 1e12)} T"


_WRITERS: Mapping[str, Callable[[Value], str]] = {
    COUNT: count_text,
    TIME: time_text,
    BYTES: bytes_text,
    FLOPS: flops_text,
    PERCENT: percent_text,
    NUMBER: number_text,
}


@dataclass(frozen=True, kw_only=True)
class UsageColumn(TableColumn):
    metric: Metric

    def text(self, value: Value) -> str:
        return _WRITERS[self.metric.unit](value)


@dataclass(frozen=True)
class ColumnLayout:
    """Default columns of a table, and the order in which they are omitted when it is wider than the terminal."""

    usual: Sequence[str]
    dispensable: Sequence[str]
    by: Mapping[str, Sequence[str]]
    """In place of the usual ones, by the grouping."""


# fmt: off
_OF_HOSTS = ("calls", "inclusive", "exclusive", "share")
_LAYOUTS: Mapping[str, ColumnLayout] = {
    THREADS: ColumnLayout(
        (*_OF_HOSTS, "median", "wall", "alloc_bytes", "peak_bytes", "minor_faults"),
        ("median", "minor_faults", "peak_bytes", "inclusive_share", "alloc_bytes", "share"),
        {},
    ),
    STEPS: ColumnLayout(
        (*_OF_HOSTS, "pool_cpu", "requested_bytes", "temporary_bytes", "peak_bytes", "gflops", "intensity"),
        ("inclusive", "peak_bytes", "intensity", "temporary_bytes", "pool_cpu", "share"),
        {},
    ),
    DEVICES: ColumnLayout(
        (
            "calls", "launches", "device", "device_share", "auxiliary", "copy", "idle", "exclusive", "share",
            "own_alloc_bytes", "live_bytes", "peak_bytes",
        ),
        (
            "max", "min", "launches", "median", "auxiliary", "live_bytes", "copy", "peak_bytes", "idle", "share",
            "calls",
        ),
        {
            # Names of kernels are long: what else is known of their durations is left to --columns.
            "kernel": ("calls", "device", "device_share", "mean", "exclusive", "share"),
            "launch": ("calls", "device", "device_share", "mean"),
            "gemm": ("calls", "device", "device_share", "mean", "median", "min", "max"),
            "copy": ("calls", "copy_bytes", "device", "device_share", "copy_rate", "median", "exclusive", "share"),
            "stream": ("calls", "device", "device_share", "copy_bytes", "exclusive", "share"),
            "device": ("calls", "device", "device_share", "auxiliary", "copy", "copy_bytes", "exclusive", "share"),
        },
    ),
}
# fmt: on
_ALIASES = {
    "self": "exclusive",
    "time": "inclusive",
    "total": "inclusive",
    "memory": "alloc_bytes",
    "average": "mean",
    "pool": "pool_cpu",
    "bytes": "requested_bytes",
    "workspace": "temporary_bytes",
}


def usage_columns() -> list[UsageColumn]:
    return [
        UsageColumn(metric.column, metric.heading, metric.help, metric=metric)
        for metric in METRICS
        if metric.unit != TEXT
    ]


def columns_on(clock: str) -> list[str]:
    """Names of the columns that tables of a clock can have, the usual ones first."""
    known = [column.name for column in usage_columns() if _exists(column.metric, clock)]
    return list(dict.fromkeys([*_LAYOUTS[clock].usual, *known]))


def find_usage_column(name: str) -> UsageColumn:
    """The column with this name; a metric's name with or without `_ns` and every heading are names."""
    columns = usage_columns()
    headings = {column.heading.lower().replace(" ", "_"): column.name for column in columns}
    return find_named(name, columns, headings | _ALIASES)


def choose_usage_columns(names: Sequence[str] | None, usage: Usage) -> list[UsageColumn]:
    """Columns by name; none is the default set, `all` is every one that says something, a first `+` adds to it."""
    if names and list(names) == ["all"]:
        return [column for column in usage_columns() if _is_known(column, usage)]
    wanted = wanted_names(names, default_columns(usage), NAME)
    columns = list(dict.fromkeys(find_usage_column(name) for name in wanted))
    return columns if names else with_order_out(columns, _LAYOUTS[usage.clock].dispensable)


def default_columns(usage: Usage) -> list[str]:
    """The columns with recorded values: columns of dashes, or of zeros for a GPU, are omitted."""
    layout = _LAYOUTS[usage.clock]
    names = layout.by.get(usage.by, layout.usual)
    if usage.clock == DEVICES:
        names = names if usage.devices else _OF_HOSTS
        return [name for name in names if any(find_usage_column(name).metric.values(usage))]
    columns = usage.rows.columns
    if usage.clock == STEPS and columns["inclusive_ns"] == columns["exclusive_ns"]:
        # Without nested operators it only repeats the own time.
        names = [name for name in names if name != "inclusive"]
    return [name for name in names if _is_known(find_usage_column(name), usage)]


def _is_known(column: UsageColumn, usage: Usage) -> bool:
    return any(value is not None for value in column.metric.values(usage))


def _exists(metric: Metric, clock: str) -> bool:
    """Whether tables of a clock can have it."""
    if metric.of:
        return all(_exists(find_metric(name), clock) for name in metric.of)
    return metric.recorder(clock, metric.by) is not None


# --- Rows ---

Rank = tuple[bool, float, str]


def row_order(usage: Usage, sort: str | None) -> Sequence[int]:
    """Rows by a column, the largest first (names from a to z); what was not recorded comes last."""
    rows = range(len(usage.rows))
    if sort is None:
        return rows
    paths = usage.rows.column("path")
    if sort == NAME:
        names = paths if usage.by == "path" else usage.rows.column("name")
        return sorted(rows, key=names.__getitem__)
    rank = _rank(usage, sort)
    if usage.by != "path":
        return sorted(rows, key=rank)
    # In a tree siblings are ordered, each below its parent.
    keys: dict[tuple[str, ...], tuple[Rank, ...]] = {}
    for row in sorted(rows, key=lambda row: len(paths[row])):
        keys[paths[row]] = (*keys.get(paths[row][:-1], ()), rank(row))
    return sorted(rows, key=lambda row: keys[paths[row]])


def top_rows(usage: Usage, order: Sequence[int], sort: str | None, top: int | None) -> Sequence[int]:
    """The first rows; of a tree, those that come first by the column at any depth, with all rows above each."""
    if top is None or len(order) <= top:
        return order
    if usage.by != "path" or sort == NAME:
        return order[:top]
    paths = usage.rows.column("path")
    known = set(paths)
    kept: set[tuple[str, ...]] = set()
    for row in sorted(order, key=_rank(usage, sort or "inclusive")):
        way = [paths[row][:length] for length in range(1, len(paths[row]) + 1)]
        new = [path for path in way if path in known and path not in kept]
        # A row is shown with all rows above it, or not at all.
        if len(kept) + len(new) <= top:
            kept.update(new)
        if len(kept) == top:
            break
    return [row for row in order if paths[row] in kept]


def _rank(usage: Usage, sort: str) -> Callable[[int], Rank]:
    values = find_usage_column(sort).metric.values(usage)
    names = usage.rows.column("name")

    def rank(row: int) -> Rank:
        value = values[row]
        return (value is None, -(value or 0), names[row])

    return rank
