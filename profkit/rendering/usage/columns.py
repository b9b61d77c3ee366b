"""Columns of a table of usage: every number of a UsageRow has one, plus shares and rates. A row in, a number out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profkit.attribution.usage import Usage, UsageRow
from profkit.rendering.quantities import ABSENT, bytes_text, number_text, percent_text, time_text
from profkit.rendering.tables.column_choice import find_named, wanted_names
from profkit.rendering.tables.table import Column

Value = int | float | None
Writer = Callable[[Value], str]
NAME = "name"
OWN = "exclusive_ns"


def count_text(value: Value) -> str:
    """A count with separators: 1,234,567; a mean of counts may have a fraction: 2.5."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value == round(value) else number_text(value)


def flops_text(value: Value) -> str:
    """Flops in powers of ten: 31.2 M."""
    if value is None:
        return ABSENT
    for factor, unit in ((1e3, ""), (1e6, "k"), (1e9, "M"), (1e12, "G")):
        if value < 0.9995 * factor:
            return f"{number_text(1e3 * value / factor)} {unit}".rstrip()
    return f"{number_text(value / 1e12)} T"


@dataclass(frozen=True, kw_only=True)
class UsageColumn(Column):
    """A column with a row's number in it, and how that is written."""

    field: str
    """Of a UsageRow; empty for what is worked out of several."""
    value: Callable[[UsageRow, Usage], Value]
    text: Writer

    def ranked(self, usage: Usage) -> Sequence[Value]:
        """Numbers of all rows that order them as `value` does, without making a row of any."""
        if not self.field:
            return [self.value(row, usage) for row in usage.rows]
        values: Sequence[Value] = usage.rows.column(self.field)
        if self.field != OWN:
            return values
        calls = zip(usage.rows.column("span_calls"), usage.rows.column("calls"))
        return [value if spans < every else None for value, (spans, every) in zip(values, calls)]


def _column(
    name: str, heading: str, meaning: str, field: str, value: Callable[[UsageRow, Usage], Value], text: Writer
) -> UsageColumn:
    return UsageColumn(name, heading, meaning, field=field, value=value, text=text)


def _share(value: Value, usage: Usage) -> Value:
    return None if value is None or not usage.wall_ns else 100.0 * value / usage.wall_ns


def _own(row: UsageRow, _: Usage) -> Value:
    return row.exclusive_ns if row.has_own_time else None


def _field(name: str, heading: str, meaning: str, field: str, text: Writer) -> UsageColumn:
    return _column(name, heading, meaning, field, lambda row, _: getattr(row, field), text)


def _time(name: str, heading: str, meaning: str) -> UsageColumn:
    return _field(name, heading, meaning, f"{name}_ns", time_text)


def _device_share(row: UsageRow, usage: Usage) -> Value:
    return None if row.device_ns is None or not usage.device_ns else 100.0 * row.device_ns / usage.device_ns


def _bytes(name: str, heading: str, meaning: str) -> UsageColumn:
    return _field(name, heading, meaning, name, bytes_text)


def _count(name: str, heading: str, meaning: str) -> UsageColumn:
    return _field(name, heading, meaning, name, count_text)


COLUMNS = (
    _count("calls", "calls", "ranges and spans of this name"),
    _count("span_calls", "spans", "of these: spans, which have no own time"),
    _count("open_calls", "open", "of these: no end was recorded"),
    _time("inclusive", "inclusive", "time with the ranges inside; recursion counts once"),
    _column(
        "inclusive_share",
        "incl %",
        "inclusive time as a share of the thread time",
        "inclusive_ns",
        lambda row, usage: _share(row.inclusive_ns, usage),
        percent_text,
    ),
    _column("exclusive", "own", "time without the ranges inside", OWN, _own, time_text),
    _column(
        "share",
        "own %",
        "own time as a share of the thread time",
        OWN,
        lambda row, usage: _share(_own(row, usage), usage),
        percent_text,
    ),
    _time("mean", "mean", "mean duration of a call"),
    _time("min", "min", "shortest call"),
    _time("median", "median", "the call in the middle"),
    _time("max", "max", "longest call"),
    _time("wall", "thread", "by thread: from its first to its last known moment"),
    _count("alloc_calls", "allocs", "allocations in these ranges and inside them"),
    _bytes("alloc_bytes", "alloc", "bytes asked for in these ranges and inside them"),
    _bytes("own_alloc_bytes", "own alloc", "bytes asked for in these ranges themselves"),
    _bytes("live_bytes", "live", "of alloc: not yet freed when the range ended"),
    _bytes("peak_bytes", "peak", "most live at once in one call"),
    _bytes("freed_elsewhere_bytes", "elsewhere", "of alloc: freed by another thread or outside"),
    _count("minor_faults", "faults", "minor page faults"),
    _count("major_faults", "major", "major page faults"),
    _count("voluntary_switches", "waits", "voluntary context switches"),
    _count("involuntary_switches", "preempted", "involuntary context switches"),
    _time("overhead", "overhead", "estimated cost of recording what is inside"),
    _time("pool_cpu", "pool CPU", "networks: CPU time of helper threads"),
    _bytes("requested_bytes", "requested", "networks: allocated by the operators themselves; 0 B: in place"),
    _bytes("temporary_bytes", "temporary", "networks: of these, given back before the operator ended"),
    _field("flops", "FLOP", "networks: by formula", "flops", flops_text),
    _bytes("moved_bytes", "moved", "networks: by formula, read and written at least"),
    _column("gflops", "GFLOP/s", "networks: flops by own time", "", lambda row, _: row.gflops, number_text),
    _column("intensity", "FLOP/B", "networks: flops by bytes moved", "", lambda row, _: row.intensity, number_text),
    _count("launches", "launches", "GPU: kernels, copies and sets"),
    _time("device", "GPU", "GPU: sum of their durations, overlaps and all"),
    _column("device_share", "GPU %", "GPU: as a share of all GPU time", "device_ns", _device_share, percent_text),
    _time("device_inclusive", "GPU incl", "GPU: with those of the ranges inside"),
    _time("kernel", "kernels", "GPU: of own, the GPU computes"),
    _time("auxiliary", "auxiliary", "GPU: of own, a library's kernels for layout, padding, partial sums"),
    _time("copy", "copies", "GPU: of own, it copies or sets memory"),
    _column("idle", "idle", "GPU: of own, it is idle; the next four", "", lambda row, _: row.idle_ns, time_text),
    _time("dispatch", "dispatch", "GPU: of idle, the launching thread runs code of this row"),
    _time("call", "CUDA calls", "GPU: of idle, that thread is inside a CUDA call"),
    _time("queue", "queue", "GPU: of idle, the launch was over but its work had not begun"),
    _time("sync", "sync", "GPU: of idle, that thread waits for the device"),
    _time("host", "host", "GPU: time on the host without the ranges inside"),
    _time("host_inclusive", "host incl", "GPU: time on the host with the ranges inside"),
    _bytes("copy_bytes", "copied", "GPU: bytes of copies and sets"),
    _column("copy_rate", "GB/s", "GPU: bytes copied by GPU time", "", lambda row, _: row.copy_rate, number_text),
)
# Every heading is a name too.
_ALIASES = {column.heading.lower().replace(" ", "_"): column.name for column in COLUMNS} | {
    "self": "exclusive",
    "time": "inclusive",
    "total": "inclusive",
    "memory": "alloc_bytes",
    "average": "mean",
    "pool": "pool_cpu",
    "bytes": "requested_bytes",
    "workspace": "temporary_bytes",
}
# What goes first when a default table is wider than the terminal.
_DISPENSABLE = ("median", "minor_faults", "peak_bytes", "inclusive_share", "alloc_bytes", "share")
_DISPENSABLE_OF_DEVICES = (
    "max", "min", "launches", "median", "auxiliary", "live_bytes", "copy", "peak_bytes", "idle", "share", "calls",
)  # fmt: skip
_DISPENSABLE_OF_NETWORKS = ("inclusive", "peak_bytes", "intensity", "temporary_bytes", "pool_cpu", "share")


def column_names() -> list[str]:
    """Names that `--columns` and `--sort` take, in table order."""
    return [column.name for column in COLUMNS]


def find_usage_column(name: str) -> UsageColumn:
    """The column with this name; a UsageRow's field name, with or without `_ns`, always is one."""
    return find_named(name, COLUMNS, _ALIASES)


def choose_usage_columns(names: Sequence[str] | None, usage: Usage) -> list[UsageColumn]:
    """Columns by name; none is the default set, `all` is every one, a first `+` adds to the default."""
    if names and list(names) == ["all"]:
        # Of a network, what only traced programs have would be columns of dashes.
        is_program = usage.steps is None and usage.devices is None
        return [column for column in COLUMNS if _is_of(column, usage) and (is_program or _has_any(column, usage))]
    wanted = wanted_names(names, default_columns(usage), NAME)
    return list(dict.fromkeys(find_usage_column(name) for name in wanted))


def dispensable_columns(usage: Usage) -> Sequence[str]:
    """Names in the order in which they may be left out."""
    if usage.devices is not None:
        return _DISPENSABLE_OF_DEVICES
    return _DISPENSABLE if usage.steps is None else _DISPENSABLE_OF_NETWORKS


def default_columns(usage: Usage) -> list[str]:
    """What fits what was recorded: columns of dashes help nobody."""
    if usage.devices is not None:
        return [name for name in _of_devices(usage) if _is_filled(name, usage)]
    if usage.steps is not None:
        return [name for name in OF_NETWORKS if _is_known(name, usage)]
    names = ["calls", "inclusive", "exclusive", "share", "median"]
    if usage.by == "thread":
        names.append("wall")
    if usage.total_alloc_bytes is not None:
        names += ["alloc_bytes", "peak_bytes"]
    if any(count is not None for count in usage.rows.column("minor_faults")):
        names.append("minor_faults")
    return names


NETWORK_EXTRAS = ("inclusive_share", "flops", "moved_bytes")
"""Further columns that tables of networks can show."""
OF_NETWORKS = (
    "calls", "inclusive", "exclusive", "share", "pool_cpu", "requested_bytes", "temporary_bytes", "peak_bytes",
    "gflops", "intensity",
)  # fmt: skip
_OF_PROGRAMS = ("span_calls", "open_calls")


_OF_RANGES = (
    "calls", "launches", "device", "device_share", "auxiliary", "copy", "idle", "exclusive", "share", "own_alloc_bytes",
    "live_bytes", "peak_bytes",
)  # fmt: skip
_OF_ACTIVITIES = {
    # Names of kernels are long: what else is known of their durations is left to --columns.
    "kernel": ("calls", "device", "device_share", "mean", "exclusive", "share"),
    "launch": ("calls", "device", "device_share", "mean"),
    "gemm": ("calls", "device", "device_share", "mean", "median", "min", "max"),
    "copy": ("calls", "copy_bytes", "device", "device_share", "copy_rate", "median", "exclusive", "share"),
    "stream": ("calls", "device", "device_share", "copy_bytes", "exclusive", "share"),
    "device": ("calls", "device", "device_share", "auxiliary", "copy", "copy_bytes", "exclusive", "share"),
}
_OF_HOSTS = ("calls", "inclusive", "exclusive", "share")


def _of_devices(usage: Usage) -> Sequence[str]:
    return _OF_ACTIVITIES.get(usage.by, _OF_RANGES) if usage.devices else _OF_HOSTS


def _is_filled(name: str, usage: Usage) -> bool:
    """Whether a column of a GPU trace's table says anything: zeros alone do not."""
    return any(find_usage_column(name).ranked(usage))


def _is_of(column: UsageColumn, usage: Usage) -> bool:
    return usage.devices is not None or not column.help.startswith("GPU: ")


def _is_known(name: str, usage: Usage) -> bool:
    if name == "inclusive":
        # Where operators lie in no others, it only repeats the own time.
        return list(usage.rows.column("inclusive_ns")) != list(usage.rows.column("exclusive_ns"))
    return _has_any(find_usage_column(name), usage)


def _has_any(column: UsageColumn, usage: Usage) -> bool:
    return column.name not in _OF_PROGRAMS and any(value is not None for value in column.ranked(usage))
