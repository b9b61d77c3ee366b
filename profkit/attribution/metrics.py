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
from profkit.attribution.device.lanes import DevicePart
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
    threads: Callable[[RangeSums], Any] | None = None
    steps: Callable[[OperatorSums], Any] | None = None
    devices: Callable[[DeviceSums], Any] | None = None
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
        """Its name in tables."""
        return self.name.removesuffix("_ns")

    def recorder(self, clock: str, by: str) -> Callable[[Any], Any] | None:
        """The function that makes it on a clock, in tables by this."""
        found: Callable[[Any], Any] | None = {THREADS: self.threads, STEPS: self.steps, DEVICES: self.devices}[clock]
        return found if self.by in ("", by) else None

    def values(self, usage: Usage, places: Sequence[int] | None = None) -> Sequence[Value]:
        """What tables show of every row, or of these."""
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
        """The value that follows from others."""
        assert self.derived is not None
        return None if None in values else self.derived(usage, *values)


def _own_time(rows: UsageRows) -> Sequence[Value]:
    """Spans have no own time, and what only the pass for bytes has neither: such a row has a dash."""
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


def _text(name: str, by: str = "") -> Metric:
    def texts(sums: Sums) -> Sequence[Any] | None:
        return sums.groups.texts.get(name)

    clocks = {THREADS: ("path",), STEPS: ("kind", "layer", "phase", "type"), DEVICES: ("kind", "type", "short")}
    return Metric(name, TEXT, by=by, **{clock: texts for clock, names in clocks.items() if name in names})  # type: ignore[arg-type]


def _call_time(name: str, heading: str, meaning: str) -> Metric:
    return Metric(
        name,
        TIME,
        NONE,
        heading,
        meaning,
        threads=lambda sums: sums.times[name],
        devices=lambda sums: sums.durations[name],
    )


def _counter(name: str, heading: str, meaning: str) -> Metric:
    return Metric(name, COUNT, NESTED, heading, meaning, threads=lambda s: s.recorded(s.shares.capture.ranges[name]))


def _memory(sums: DeviceSums, name: str) -> Any:
    return getattr(sums.memory, name) if sums.memory else None


def _part(name: str, heading: str, meaning: str) -> Metric:
    part = DevicePart[name.removesuffix("_ns").upper()]
    return Metric(name, TIME, SUM, heading, meaning, devices=lambda s: s.part(part))


METRICS: list[Metric] = [
    Metric(
        NAME, TEXT, threads=lambda s: s.groups.names, steps=lambda s: s.groups.names, devices=lambda s: s.groups.names
    ),
    Metric(
        "calls",
        COUNT,
        SUM,
        "calls",
        "ranges and spans of this name",
        threads=lambda s: s.times["calls"],
        steps=lambda s: s.calls,
        devices=lambda s: s.calls,
    ),
    Metric(
        "inclusive_ns",
        TIME,
        NESTED,
        "inclusive",
        "time with the ranges inside; recursion counts once",
        threads=lambda s: s.times["inclusive_ns"],
        steps=lambda s: s.inclusive_ns,
        devices=lambda s: s.inclusive_ns,
    ),
    Metric(
        "inclusive_share",
        PERCENT,
        NESTED,
        "incl %",
        "inclusive time as a share of the thread time",
        of=("inclusive_ns",),
        derived=_part_of_wall,
    ),
    Metric(
        "exclusive_ns",
        TIME,
        SUM,
        "own",
        "time without the ranges inside",
        threads=lambda s: s.times["exclusive_ns"],
        steps=lambda s: s.own_ns,
        devices=lambda s: s.part(),
        shown=_own_time,
    ),
    Metric(
        "share",
        PERCENT,
        SUM,
        "own %",
        "own time as a share of the thread time",
        of=("exclusive_ns",),
        derived=_part_of_wall,
    ),
    _text("path", by="path"),
    Metric(
        "span_calls",
        COUNT,
        SUM,
        "spans",
        "of these: spans, which have no own time",
        threads=lambda s: s.times["span_calls"],
    ),
    Metric("open_calls", COUNT, SUM, "open", "of these: no end was recorded", threads=lambda s: s.times["open_calls"]),
    _call_time("min_ns", "min", "shortest call"),
    _call_time("mean_ns", "mean", "mean duration of a call"),
    _call_time("median_ns", "median", "the call in the middle"),
    _call_time("max_ns", "max", "longest call"),
    Metric(
        "wall_ns",
        TIME,
        SUM,
        "thread",
        "by thread: from its first to its last known moment",
        threads=lambda s: s.thread_ns,
        by="thread",
    ),
    Metric(
        "alloc_calls",
        COUNT,
        NESTED,
        "allocs",
        "allocations in these ranges and inside them",
        threads=lambda s: s.bytes("alloc_calls"),
        devices=lambda s: _memory(s, "calls"),
    ),
    Metric(
        "alloc_bytes",
        BYTES,
        NESTED,
        "alloc",
        "bytes asked for in these ranges and inside them",
        threads=lambda s: s.bytes("alloc_bytes"),
    ),
    Metric(
        "own_alloc_bytes",
        BYTES,
        SUM,
        "own alloc",
        "bytes asked for in these ranges themselves",
        threads=lambda s: s.bytes("own_alloc_bytes"),
        devices=lambda s: _memory(s, "bytes"),
    ),
    Metric(
        "live_bytes",
        BYTES,
        NESTED,
        "live",
        "of alloc: not yet freed when the range ended",
        threads=lambda s: s.bytes("live_bytes"),
        devices=lambda s: _memory(s, "live_bytes"),
    ),
    Metric(
        "peak_bytes",
        BYTES,
        MAX,
        "peak",
        "most live at once in one call",
        threads=lambda s: s.bytes("peak_bytes"),
        steps=lambda s: s.largest(s.ranges.peak_bytes),
        devices=lambda s: _memory(s, "peaks"),
        passes=(MEMORY_PASS,),
    ),
    Metric(
        "freed_elsewhere_bytes",
        BYTES,
        NESTED,
        "elsewhere",
        "of alloc: freed by another thread or outside",
        threads=lambda s: s.bytes("freed_elsewhere_bytes"),
    ),
    _counter("minor_faults", "faults", "minor page faults"),
    _counter("major_faults", "major", "major page faults"),
    _counter("voluntary_switches", "waits", "voluntary context switches"),
    _counter("involuntary_switches", "preempted", "involuntary context switches"),
    Metric(
        "overhead_ns",
        TIME,
        NESTED,
        "overhead",
        "estimated cost of recording what is inside",
        threads=lambda s: s.overhead.inside_ns if s.overhead else None,
    ),
    _text("kind"),
    _text("layer"),
    _text("phase"),
    _text("type"),
    Metric(
        "pool_cpu_ns",
        TIME,
        SUM,
        "pool CPU",
        "networks: CPU time of helper threads",
        steps=lambda s: s.known(s.pool_ns),
        passes=(TIME_PASS, PRIMITIVES_PASS),
    ),
    Metric(
        "requested_bytes",
        BYTES,
        SUM,
        "requested",
        "networks: allocated by the operators themselves; 0 B: in place",
        steps=lambda s: s.known(s.ranges.requested_bytes),
        passes=(MEMORY_PASS,),
    ),
    Metric(
        "temporary_bytes",
        BYTES,
        SUM,
        "temporary",
        "networks: of these, given back before the operator ended",
        steps=lambda s: s.known(s.ranges.temporary_bytes),
        passes=(MEMORY_PASS,),
    ),
    Metric(
        "flops",
        FLOPS,
        SUM,
        "FLOP",
        "networks: by formula",
        steps=lambda s: s.known(s.shares.work.flops) if s.shares.work else None,
    ),
    Metric(
        "moved_bytes",
        BYTES,
        SUM,
        "moved",
        "networks: by formula, read and written at least",
        steps=lambda s: s.known(s.shares.work.bytes) if s.shares.work else None,
    ),
    Metric(
        "gflops", NUMBER, SUM, "GFLOP/s", "networks: flops by own time", of=("flops", "exclusive_ns"), derived=_ratio
    ),
    Metric(
        "intensity",
        NUMBER,
        SUM,
        "FLOP/B",
        "networks: flops by byte moved",
        of=("flops", "moved_bytes"),
        derived=_ratio,
    ),
    _text("short"),
    Metric("launches", COUNT, SUM, "launches", "GPU: kernels, copies and sets", devices=lambda s: s.launches),
    Metric(
        "device_ns",
        TIME,
        SUM,
        "GPU",
        "GPU: sum of their durations, overlaps and all",
        devices=lambda s: s.durations["device_ns"],
    ),
    Metric(
        "device_share",
        PERCENT,
        SUM,
        "GPU %",
        "GPU: as a share of all GPU time",
        of=("device_ns",),
        derived=_part_of_device,
    ),
    Metric(
        "device_inclusive_ns",
        TIME,
        NESTED,
        "GPU incl",
        "GPU: with those of the ranges inside",
        devices=lambda s: s.device_inclusive_ns,
    ),
    _part("kernel_ns", "kernels", "GPU: of own, the GPU computes"),
    _part("auxiliary_ns", "auxiliary", "GPU: of own, a library's kernels for layout, padding, partial sums"),
    _part("copy_ns", "copies", "GPU: of own, it copies or sets memory"),
    Metric(
        "idle_ns",
        TIME,
        SUM,
        "idle",
        "GPU: of own, it is idle; the next four",
        of=("exclusive_ns", "kernel_ns", "auxiliary_ns", "copy_ns"),
        derived=lambda _, own, kernel, auxiliary, copy: own - kernel - auxiliary - copy,
    ),
    _part("queue_ns", "queue", "GPU: of idle, the launch was over but its work had not begun"),
    _part("dispatch_ns", "dispatch", "GPU: of idle, the launching thread runs code of this row"),
    _part("call_ns", "CUDA calls", "GPU: of idle, that thread is inside a CUDA call"),
    _part("sync_ns", "sync", "GPU: of idle, that thread waits for the device"),
    Metric(
        "host_ns", TIME, SUM, "host", "GPU: time on the host without the ranges inside", devices=lambda s: s.host_ns
    ),
    Metric(
        "host_inclusive_ns",
        TIME,
        NESTED,
        "host incl",
        "GPU: time on the host with the ranges inside",
        devices=lambda s: s.host_inclusive_ns,
    ),
    Metric("copy_bytes", BYTES, SUM, "copied", "GPU: bytes of copies and sets", devices=lambda s: s.copied_bytes),
    Metric(
        "copy_rate",
        NUMBER,
        NONE,
        "GB/s",
        "GPU: bytes copied by GPU time",
        of=("copy_bytes", "device_ns"),
        derived=lambda _, size, time_ns: size / time_ns if size and time_ns else None,
    ),
]
"""In the order of JSON and CSV fields and of columns."""


def find_metric(name: str) -> Metric:
    """The metric of this name."""
    return next(metric for metric in METRICS if metric.name == name)
