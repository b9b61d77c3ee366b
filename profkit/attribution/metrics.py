"""Every number and text of a table of usage, declared once: name, unit, how it adds up, heading, help, computation.

A metric that is recorded has a function per clock that it exists on, from the sums of a grouping to a value per group
(None: not recorded); it is then a field of JSON and CSV, and a column. A metric that follows from others is a column
only. docs/attribution.md has the words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from profkit.attribution.account import DEVICES, STEPS, THREADS
from profkit.attribution.device.sums import DeviceSums
from profkit.attribution.networks.sums import OperatorSums
from profkit.attribution.range_sums import RangeSums
from profkit.attribution.usage import NAME, Usage, UsageRows, Value

COUNT, TIME, BYTES, FLOPS, PERCENT, NUMBER, TEXT = "count", "ns", "bytes", "flops", "percent", "number", "text"
"""Units."""
SUM, NESTED, MAX, NONE = "sum", "nested", "max", "none"
"""How it adds up: over rows and steps (what is derived then follows from sums, too); over steps only, as rows lie in
each other; by the largest; not at all."""
TIME_PASS, MEMORY_PASS, PRIMITIVES_PASS = "time", "memory", "primitives"
Sums = RangeSums | OperatorSums | DeviceSums


@dataclass(frozen=True)
class Metric:
    """What is said of a row."""

    name: str
    unit: str
    adds: str = NONE
    heading: str = ""
    help: str = ""
    threads: Callable[[RangeSums, str], Any] | None = None
    """From the sums of a grouping on this clock, and its name, to a value per group; None: not recorded."""
    steps: Callable[[OperatorSums, str], Any] | None = None
    devices: Callable[[DeviceSums, str], Any] | None = None
    by: str = ""
    """The only grouping that has it; empty: all do."""
    passes: tuple[str, ...] = (TIME_PASS,)
    """Of a run: the passes that it may come from, the best first."""
    of: tuple[str, ...] = ()
    """The metrics that it follows from."""
    derived: Callable[..., Value] | None = None
    """From the table and the values of these to its own; where one of them is not known, it is not known."""
    shown: Callable[[UsageRows], Sequence[Value]] | None = None
    """What tables show of the recorded column."""

    @property
    def column(self) -> str:
        return self.name.removesuffix("_ns")

    def recorder(self, clock: str, by: str) -> Callable[[Any, str], Any] | None:
        """The function that makes it on a clock, in tables by this."""
        made: Any = {THREADS: self.threads, STEPS: self.steps, DEVICES: self.devices}[clock]
        return made if self.by in ("", by) else None

    def values(self, usage: Usage, places: Sequence[int] | None = None) -> Sequence[Value]:
        """The shown values of every row, or of these."""
        if self.derived is not None:
            inputs = [find_metric(name).values(usage, places) for name in self.of]
            return [self.derive(usage, *row) for row in zip(*inputs)]
        column = self.shown(usage.rows) if self.shown else usage.rows.column(self.name)
        return column if places is None else [column[place] for place in places]

    def value(self, usage: Usage, known: Mapping[str, Value]) -> tuple[bool, Value]:
        """Whether a line of several rows with these values has this metric, and which value."""
        if self.name in known or self.derived is None or self.adds == NONE:
            return self.name in known, known.get(self.name)
        inputs = [find_metric(name).value(usage, known) for name in self.of]
        return all(has for has, _ in inputs), self.derive(usage, *(value for _, value in inputs))

    def derive(self, usage: Usage, *values: Value) -> Value:
        assert self.derived is not None
        return None if None in values else self.derived(usage, *values)


def _own_time(rows: UsageRows) -> Sequence[Value]:
    """Spans, and rows that only the pass for bytes has, have no own time but a dash."""
    spans = rows.columns.get("span_calls") or repeat(0)
    known = zip(rows.column("exclusive_ns"), spans, rows.column("calls"))
    return [value if value or spans < calls else None for value, spans, calls in known]


def _ratio(_: Usage, value: float, base: float) -> Value:
    return value / base if base else None


def _part_of_wall(usage: Usage, value: float) -> Value:
    return 100.0 * value / usage.wall_ns if usage.wall_ns else None


def _part_of_device(usage: Usage, value: float) -> Value:
    whole = usage.totals.get("device_ns")
    return 100.0 * value / whole if whole else None


def _names(sums: Sums, _: str) -> Sequence[str]:
    return sums.groups.names


def _texts(sums: Sums, name: str) -> Sequence[Any] | None:
    return sums.groups.texts.get(name)


def _idle(_: Usage, own: Any, kernel: Any, auxiliary: Any, copy: Any) -> Any:
    return own - kernel - auxiliary - copy


def _copy_rate(_: Usage, size: Any, time_ns: Any) -> Value:
    return size / time_ns if size and time_ns else None


_R, _O, _D = RangeSums, OperatorSums, DeviceSums
# fmt: off
METRICS: list[Metric] = [
    Metric(NAME, TEXT, threads=_names, steps=_names, devices=_names),
    Metric("calls", COUNT, SUM, "calls", "ranges and spans of this name", _R.time, _O.calls, _D.calls),
    Metric("inclusive_ns", TIME, NESTED, "inclusive", "time including the ranges inside; recursion counts once",
           _R.time, _O.inclusive, _D.inclusive),
    Metric("inclusive_share", PERCENT, NESTED, "incl %", "inclusive time as a share of the thread time",
           of=("inclusive_ns",), derived=_part_of_wall),
    Metric("exclusive_ns", TIME, SUM, "own", "time without the ranges inside", _R.time, _O.own, _D.own,
           shown=_own_time),
    Metric("share", PERCENT, SUM, "own %", "own time as a share of the thread time",
           of=("exclusive_ns",), derived=_part_of_wall),
    Metric("path", TEXT, threads=_texts, by="path"),
    Metric("span_calls", COUNT, SUM, "spans", "of these: spans, which have no own time", _R.time),
    Metric("open_calls", COUNT, SUM, "open", "of these: no end was recorded", _R.time),
    Metric("min_ns", TIME, NONE, "min", "shortest call", _R.time, devices=_D.duration),
    Metric("mean_ns", TIME, NONE, "mean", "mean duration of a call", _R.time, devices=_D.duration),
    Metric("median_ns", TIME, NONE, "median", "median duration of a call", _R.time, devices=_D.duration),
    Metric("max_ns", TIME, NONE, "max", "longest call", _R.time, devices=_D.duration),
    Metric("wall_ns", TIME, SUM, "thread", "by thread: from its first to its last known moment", _R.threads_wall,
           by="thread"),
    Metric("alloc_calls", COUNT, NESTED, "allocs", "allocations in these ranges and inside them",
           _R.bytes, devices=_D.bytes),
    Metric("alloc_bytes", BYTES, NESTED, "alloc", "bytes requested in these ranges and inside them", _R.bytes),
    Metric("own_alloc_bytes", BYTES, SUM, "own alloc", "bytes requested directly in these ranges",
           _R.bytes, devices=_D.bytes),
    Metric("live_bytes", BYTES, NESTED, "live", "of alloc: not yet freed when the range ended",
           _R.bytes, devices=_D.bytes),
    Metric("peak_bytes", BYTES, MAX, "peak", "most live at once in one call", _R.bytes, _O.largest, _D.bytes,
           passes=(MEMORY_PASS,)),
    Metric("freed_elsewhere_bytes", BYTES, NESTED, "elsewhere", "of alloc: freed by another thread or outside",
           _R.bytes),
    Metric("minor_faults", COUNT, NESTED, "faults", "minor page faults", _R.counter),
    Metric("major_faults", COUNT, NESTED, "major", "major page faults", _R.counter),
    Metric("voluntary_switches", COUNT, NESTED, "waits", "voluntary context switches", _R.counter),
    Metric("involuntary_switches", COUNT, NESTED, "preempted", "involuntary context switches", _R.counter),
    Metric("overhead_ns", TIME, NESTED, "overhead", "estimated cost of recording the ranges inside", _R.cost),
    Metric("kind", TEXT, steps=_texts, devices=_texts),
    Metric("layer", TEXT, steps=_texts),
    Metric("phase", TEXT, steps=_texts),
    Metric("type", TEXT, steps=_texts, devices=_texts),
    Metric("pool_cpu_ns", TIME, SUM, "pool CPU", "networks: CPU time of helper threads", steps=_O.pool,
           passes=(TIME_PASS, PRIMITIVES_PASS)),
    Metric("requested_bytes", BYTES, SUM, "requested", "networks: allocated by the operators themselves; 0 B: in place",
           steps=_O.recorded, passes=(MEMORY_PASS,)),
    Metric("temporary_bytes", BYTES, SUM, "temporary", "networks: of these, freed before the operator ended",
           steps=_O.recorded, passes=(MEMORY_PASS,)),
    Metric("flops", FLOPS, SUM, "FLOP", "networks: by formula", steps=_O.work),
    Metric("moved_bytes", BYTES, SUM, "moved", "networks: by formula, least bytes read and written", steps=_O.work),
    Metric("gflops", NUMBER, SUM, "GFLOP/s", "networks: flops per own time", of=("flops", "exclusive_ns"),
           derived=_ratio),
    Metric("intensity", NUMBER, SUM, "FLOP/B", "networks: flops per byte moved", of=("flops", "moved_bytes"),
           derived=_ratio),
    Metric("short", TEXT, devices=_texts),
    Metric("launches", COUNT, SUM, "launches", "GPU: kernels, copies and sets", devices=_D.launches),
    Metric("device_ns", TIME, SUM, "GPU", "GPU: sum of their durations, including overlaps", devices=_D.duration),
    Metric("device_share", PERCENT, SUM, "GPU %", "GPU: as a share of all GPU time", of=("device_ns",),
           derived=_part_of_device),
    Metric("device_inclusive_ns", TIME, NESTED, "GPU incl", "GPU: including the ranges inside",
           devices=_D.device_inclusive),
    Metric("kernel_ns", TIME, SUM, "kernels", "GPU: of own, the GPU computes", devices=_D.part),
    Metric("auxiliary_ns", TIME, SUM, "auxiliary", "GPU: of own, a library's kernels for layout, padding, partial sums",
           devices=_D.part),
    Metric("copy_ns", TIME, SUM, "copies", "GPU: of own, the GPU copies or sets memory", devices=_D.part),
    Metric("idle_ns", TIME, SUM, "idle", "GPU: of own, the GPU is idle: sum of the next four",
           of=("exclusive_ns", "kernel_ns", "auxiliary_ns", "copy_ns"), derived=_idle),
    Metric("queue_ns", TIME, SUM, "queue", "GPU: of idle, the launch had returned, but its work had not begun",
           devices=_D.part),
    Metric("dispatch_ns", TIME, SUM, "dispatch", "GPU: of idle, the launching thread runs code of this row",
           devices=_D.part),
    Metric("call_ns", TIME, SUM, "CUDA calls", "GPU: of idle, the launching thread is inside a CUDA call",
           devices=_D.part),
    Metric("sync_ns", TIME, SUM, "sync", "GPU: of idle, the launching thread waits for the device", devices=_D.part),
    Metric("host_ns", TIME, SUM, "host", "GPU: time on the host without the ranges inside", devices=_D.host),
    Metric("host_inclusive_ns", TIME, NESTED, "host incl", "GPU: time on the host including the ranges inside",
           devices=_D.host_inclusive),
    Metric("copy_bytes", BYTES, SUM, "copied", "GPU: bytes of copies and sets", devices=_D.copied),
    Metric("copy_rate", NUMBER, NONE, "GB/s", "GPU: bytes copied per GPU time", of=("copy_bytes", "device_ns"),
           derived=_copy_rate),
]
"""In the order of JSON and CSV fields and of columns."""
# fmt: on


def find_metric(name: str) -> Metric:
    return next(metric for metric in METRICS if metric.name == name)
