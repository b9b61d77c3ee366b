"""The one form in which every source of events is kept: tables of columns. A Capture has them all.

Traced programs, runs of networks, GPUs, torch.profiler and Nsight Systems end in these tables; attribution and
rendering start from them.
Worker side: standard library and NumPy 1.23 only.

Times are integer nanoseconds on one clock per capture. NONE (-1) means "not known" in every signed column; unsigned
ones have 0 or a column that says so. A column that a source does not have reads like that too, and takes no memory.

The order of rows is the same for every source:
- ranges are grouped by thread, in order of start; of those that start together the longest is first. A parent always
  precedes its children.
- calls, activities and memory events are in order of start, over all threads and devices; samples are not sorted.
- allocations are in order of time within a process.
"""

# ruff: noqa: RUF009 - every call of _column makes the field of a dataclass

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
NONE = -1

FORWARD, BACKWARD, OPTIMISER, COPY, COMPILE, HOST = "forward", "backward", "optimiser", "copy", "compile", "host"
PHASES = (FORWARD, BACKWARD, OPTIMISER, COPY, COMPILE, HOST)


def taken(column: Column, rows: Column) -> Column:
    """The column's entries of these rows of its table; NONE for NONE."""
    extended: Column = np.append(column, column.dtype.type(NONE))
    return extended[rows]  # NONE is the last


class Level(IntEnum):
    """What a range represents. On one thread ranges nest in this order, except that operators may contain operators."""

    STEP = 0  # one iteration: ProfilerStep#3, or a range that the user names as the step
    RUNTIME = 1  # the framework's own code (executor, autograd engine): its own time is in no operator
    LAYER = 2  # a layer's Python code (hooks, user annotations): its own time is dispatch, not work
    OPERATOR = 3  # aten::conv2d, a profkit key, any other NVTX range
    PRIMITIVE = 4  # what an operator calls: a oneDNN primitive, a kernel
    POOL = 5  # work of a helper thread for an operator (`owner`): CPU time, no time of the step


class RangeKind(IntEnum):
    """How a row of `ranges` takes part in the tree of its thread."""

    RANGE = 0  # nested: part of the tree
    SPAN = 1  # started and ended by id, or closed out of order: has a parent, but no children and no own time
    MARK = 2  # an instant


class Source(IntEnum):
    """The door of profkit's tracer through which a range came."""

    PROFKIT = 1
    NVTX = 2
    ITT = 3


class PayloadType(IntEnum):
    """The type of the 64 bits of `payload`."""

    NONE = 0
    INT64 = 1
    UINT64 = 2
    FLOAT64 = 3
    INT32 = 4
    UINT32 = 5
    FLOAT32 = 6
    OPAQUE = 7  # no number form; the bits are its size in bytes


class AllocationCall(IntEnum):
    MALLOC = 1
    CALLOC = 2
    REALLOC = 3
    ALIGNED_ALLOC = 4
    POSIX_MEMALIGN = 5
    MEMALIGN = 6
    FREE = 7
    MMAP = 8
    MREMAP = 9
    MUNMAP = 10


class ActivityKind(IntEnum):
    KERNEL = 0
    COPY = 1
    SET = 2


class CopyDirection(IntEnum):
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    PEER_TO_PEER = 4
    HOST_TO_HOST = 5
    OTHER = 6


class MemoryKind(IntEnum):
    """The kind of memory of one end of a copy, or of an allocation."""

    PAGEABLE = 1
    PINNED = 2
    DEVICE = 3
    ARRAY = 4
    MANAGED = 5
    OTHER = 6


HOST_MEMORY = (MemoryKind.PAGEABLE, MemoryKind.PINNED)


STRINGS = "strings"


def _column(dtype: Any, absent: int = NONE, refers: str = "", kinds: type[IntEnum] | None = None) -> Any:
    """A column of this type; it reads as `absent` where a source does not have it. `kinds` name all other values."""
    return field(default=None, metadata={"absent": np.dtype(dtype).type(absent), "refers": refers, "kinds": kinds})


def _row(table: str) -> Any:
    """A column of row numbers of another table of the capture, by the name of its field; NONE: none."""
    return _column(np.int32, refers=table)


def _text() -> Any:
    """A column of texts: numbers of Capture.strings."""
    return _row(STRINGS)


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Columns of one length, by name. What is not given reads as NONE without taking memory."""

    def __post_init__(self) -> None:
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        rows = next((len(values) for values in given.values() if values is not None), 0)
        for item in fields(self):
            absent, values = item.metadata["absent"], given[item.name]
            made = np.broadcast_to(absent, (rows,)) if values is None else _fitted(values, absent.dtype)
            if len(made) != rows:
                raise ValueError(f"{type(self).__name__}.{item.name} has {len(made)} rows, not {rows}")
            object.__setattr__(self, item.name, made)

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, name: str) -> Column:
        column: Column = getattr(self, name)
        return column

    def has(self, name: str) -> bool:
        """Whether the source has this column."""
        return self[name].strides != (0,)

    @classmethod
    def references(cls) -> dict[str, str]:
        """Columns that hold rows of another table, or numbers of strings, with the name of that table."""
        return {item.name: item.metadata["refers"] for item in fields(cls) if item.metadata["refers"]}

    @classmethod
    def texts(cls) -> tuple[str, ...]:
        return tuple(name for name, table in cls.references().items() if table == STRINGS)

    def columns(self) -> dict[str, Column]:
        """The columns that the source has."""
        return {item.name: self[item.name] for item in fields(self) if self.has(item.name)}

    @property
    def nbytes(self) -> int:
        return sum(self[item.name].nbytes for item in fields(self) if self.has(item.name))


def _fitted(values: Any, dtype: Any) -> Column:
    """Numbers in this type; one that does not fit it is damage, and not known: wrapped around it would be another's."""
    column = np.asarray(values)
    if column.dtype == dtype:
        return column
    limits = np.iinfo(dtype) if dtype.kind == "i" else None
    if limits is not None and column.dtype.kind == "i" and column.dtype.itemsize > dtype.itemsize:
        column = np.where((column < limits.min) | (column > limits.max), NONE, column)
    return np.ascontiguousarray(column, dtype)


@dataclass(frozen=True, eq=False)
class Threads(ColumnTable):
    """Every thread seen, with what was only counted."""

    process: Column = _row("processes")
    index: Column = _column(np.uint32, 0)  # ascending per process
    os_thread_id: Column = _column(np.uint64, 0)  # 0: not known
    name: Column = _text()
    role: Column = _text()  # main, pool, autograd, device, ...: where the source knows it
    start_ns: Column = _column(np.int64)  # first time known
    end_ns: Column = _column(np.int64)  # last time known
    small_allocations: Column = _column(np.uint64, 0)  # below the threshold
    small_allocated_bytes: Column = _column(np.uint64, 0)
    unbalanced_pops: Column = _column(np.uint64, 0)
    dropped: Column = _column(np.uint64, 0)


@dataclass(frozen=True, eq=False)
class Steps(ColumnTable):
    """Iterations of a network, in order of time: the clock around each, read outside the framework."""

    start_ns: Column = _column(np.int64)
    end_ns: Column = _column(np.int64)
    process: Column = _row("processes")


EXACT, AGGREGATE, INFERRED = "exact", "aggregate", "inferred"
"""Quality: observed one by one; only sums were observed, and the source placed them one after another; derived."""


@dataclass(frozen=True, eq=False)
class Ranges(ColumnTable):
    """Ranges, spans and marks."""

    kind: Column = _column(np.uint8, RangeKind.RANGE, kinds=RangeKind)
    source: Column = _column(np.uint8, 0, kinds=Source)  # 0: not recorded by profkit
    level: Column = _column(np.int8, kinds=Level)
    thread: Column = _row("threads")  # row of Threads
    end_thread: Column = _row("threads")  # differs from `thread` for spans only
    start_ns: Column = _column(np.int64)
    end_ns: Column = _column(np.int64)
    name: Column = _text()
    domain: Column = _text()
    category: Column = _text()
    type: Column = _text()  # the framework's operator type: Conv2D, aten::addmm, MaxPool
    layer: Column = _text()  # where the source knows the layer
    phase: Column = _text()  # one of PHASES
    implementation: Column = _text()  # jit:avx2, the key of a native kernel
    shapes: Column = _text()  # input shapes
    fused: Column = _text()  # types that this one operator does together, joined by "+"
    quality: Column = _text()  # EXACT, AGGREGATE or INFERRED
    colour: Column = _column(np.uint32, 0)  # ARGB; 0 none
    payload_type: Column = _column(np.uint8, PayloadType.NONE, kinds=PayloadType)
    payload: Column = _column(np.uint64, 0)  # bits
    parent: Column = _row("ranges")  # row of this table, of kind RANGE: the innermost one open when this one began
    depth: Column = _column(np.int32, 0)  # number of ancestors
    is_open: Column = _column(np.bool_, 0)  # no end was recorded
    step: Column = _row("steps")
    owner: Column = _row("ranges")  # the operator that a POOL span, or a PRIMITIVE on another thread, works for
    sequence: Column = _column(np.int64)  # joins a backward operator with its forward one; counted by thread
    forward_thread: Column = _row("threads")  # of a backward operator: row of the thread of its forward one
    pool_cpu_ns: Column = _column(np.int64)  # CPU time of helper threads for this range, its insides included
    requested_bytes: Column = _column(np.int64)  # allocated by this range itself, not inside it; 0: works in place
    temporary_bytes: Column = _column(np.int64)  # of these: freed before the range ended
    peak_bytes: Column = _column(np.int64)  # most live at once while it was open, of what it and its insides allocated
    live_bytes: Column = _column(np.int64)  # the allocator's total when the range ended
    output_bytes: Column = _column(np.int64)
    minor_faults: Column = _column(np.int64)
    major_faults: Column = _column(np.int64)
    voluntary_switches: Column = _column(np.int64)
    involuntary_switches: Column = _column(np.int64)


RANGE_COUNTERS = ("minor_faults", "major_faults", "voluntary_switches", "involuntary_switches")
"""Columns of Ranges that are recorded all together or not at all."""


@dataclass(frozen=True, eq=False)
class Calls(ColumnTable):
    """Calls of a device's runtime or driver."""

    thread: Column = _row("threads")
    start_ns: Column = _column(np.int64)
    end_ns: Column = _column(np.int64)
    name: Column = _text()  # cudaLaunchKernel, cuLaunchKernelEx, ...
    process: Column = _row("processes")
    correlation: Column = _column(np.int64)
    range: Column = _row("ranges")  # row of Ranges: the innermost one open on this thread when the call began
    return_code: Column = _column(np.int64)
    is_driver: Column = _column(np.int8)


@dataclass(frozen=True, eq=False)
class Activities(ColumnTable):
    """Work of a device."""

    kind: Column = _column(np.int8, kinds=ActivityKind)
    process: Column = _row("processes")
    device: Column = _column(np.int32)
    context: Column = _column(np.int64)
    stream: Column = _column(np.int64)
    start_ns: Column = _column(np.int64)
    end_ns: Column = _column(np.int64)
    name: Column = _text()  # demangled where known
    correlation: Column = _column(np.int64)
    graph_node: Column = _column(np.int64)  # with the correlation it names a node of a replayed CUDA graph
    call: Column = _row("calls")  # row of Calls: the launch
    range: Column = _row("ranges")  # row of Ranges: the innermost one open on the launching thread at launch
    queued_ns: Column = _column(np.int64)
    bytes: Column = _column(np.int64)  # of copies and sets
    direction: Column = _column(np.int8, kinds=CopyDirection)
    source_kind: Column = _column(np.int8, kinds=MemoryKind)
    target_kind: Column = _column(np.int8, kinds=MemoryKind)
    grid_x: Column = _column(np.int32)
    grid_y: Column = _column(np.int32)
    grid_z: Column = _column(np.int32)
    block_x: Column = _column(np.int32)
    block_y: Column = _column(np.int32)
    block_z: Column = _column(np.int32)
    registers: Column = _column(np.int32)
    static_shared_bytes: Column = _column(np.int32)
    dynamic_shared_bytes: Column = _column(np.int32)


@dataclass(frozen=True, eq=False)
class Allocations(ColumnTable):
    """Allocated host memory, with its release if there was one."""

    thread: Column = _row("threads")
    range: Column = _row("ranges")  # row of Ranges: the innermost open one of that thread
    time_ns: Column = _column(np.int64)
    call: Column = _column(np.uint8, 0, kinds=AllocationCall)
    address: Column = _column(np.uint64, 0)
    bytes: Column = _column(np.uint64, 0)
    free_time_ns: Column = _column(np.int64)  # NONE: still live at the end
    free_thread: Column = _row("threads")  # NONE: likewise, or the address was used again, its release not recorded
    free_range: Column = _row("ranges")  # NONE: likewise, or no range was open
    is_part: Column = _column(np.bool_, 0)  # a further piece of a mapping unmapped in pieces: bytes without a call


@dataclass(frozen=True, eq=False)
class MemoryEvents(ColumnTable):
    """Memory allocated or freed, as reported by a device's runtime or a framework's allocator."""

    process: Column = _row("processes")
    thread: Column = _row("threads")  # that requested it
    device: Column = _column(np.int32)  # NONE: the host, or not known
    time_ns: Column = _column(np.int64)
    address: Column = _column(np.uint64, 0)
    bytes: Column = _column(np.int64)  # negative: freed
    kind: Column = _column(np.int8, kinds=MemoryKind)
    pool: Column = _column(np.int64)  # address of the memory pool; 0 none
    range: Column = _row("ranges")


@dataclass(frozen=True, eq=False)
class Samples(ColumnTable):
    """Resident memory of the processes over time."""

    process: Column = _row("processes")
    time_ns: Column = _column(np.int64)
    resident_bytes: Column = _column(np.uint64, 0)


@dataclass(frozen=True)
class Process:
    """One recorded process; a fork child is a separate one."""

    pid: int = 0  # 0: not known
    name: str = ""  # as the recorder names it; of profkit's own captures there is the command
    framework: str = ""  # whose operators its ranges are, where the source knows it
    parent_pid: int = 0
    command: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()  # through which it could record; empty: not known
    clock: str = ""  # "tsc" or "monotonic"
    start_ns: int = 0
    end_ns: int = 0
    has_ended: bool = True  # False: killed, crashed or still running
    empty_range_ns: float = 0.0  # what recording an empty range costs, measured in this process at start
    clock_read_ns: float = 0.0
    cross_core_skew_ns: float = -1.0  # -1: not measured
    clock_drift_ppm: float = 0.0
    clock_error_ns: float = 0.0
    frees_of_unknown: int = 0
    description: Mapping[str, Any] = field(default_factory=dict)  # all that the process wrote about itself


@dataclass(frozen=True)
class Device:
    """A GPU of the machine; NONE and empty: not known."""

    id: int
    name: str = ""
    compute_major: int = NONE
    compute_minor: int = NONE
    multiprocessors: int = NONE
    warps_per_multiprocessor: int = NONE
    shared_bytes_per_multiprocessor: int = NONE
    core_clock_khz: int = NONE
    l2_bytes: int = NONE
    memory_bytes: int = NONE
    memory_bandwidth_kb_s: int = NONE

    def known(self) -> dict[str, Any]:
        return {item.name: value for item in fields(self) if (value := getattr(self, item.name)) not in (NONE, "")}


@dataclass(frozen=True)
class Losses:
    """Records that never reached the file, by reason, and what waiting for the writer cost."""

    records: int = 0
    disk_full: int = 0
    too_slow: int = 0
    too_deep: int = 0
    stalled_ns: int = 0
    replaced_names: int = 0  # how often "(too many names)" was recorded, because the tables of names were full
    device: int = 0  # of `records`: what a GPU did, lost by CUPTI or before the file
    untraced_programs: int = 0  # that a process became or started without the tracer: nothing of them was recorded

    @property
    def is_any(self) -> bool:
        return bool(self.records or self.untraced_programs)


LAYER_KINDS = "layer_kinds"
"""A fact: the kind (conv2d, pool2d, ...) of every layer of the network that ran, by the layer's name."""
PROFKIT, KINETO, NSIGHT = "profkit", "kineto", "nsight"
"""Recorders: profkit's tracer (with CUPTI), torch.profiler, Nsight Systems."""


@dataclass(frozen=True)
class Capture:
    """What happened: everything of one file, from any recorder."""

    path: str
    strings: tuple[str, ...]
    processes: tuple[Process, ...]
    threads: Threads
    ranges: Ranges
    steps: Steps = field(default_factory=Steps)
    calls: Calls = field(default_factory=Calls)
    activities: Activities = field(default_factory=Activities)
    allocations: Allocations = field(default_factory=Allocations)
    memory_events: MemoryEvents = field(default_factory=MemoryEvents)
    samples: Samples = field(default_factory=Samples)
    devices: tuple[Device, ...] = ()
    losses: Losses = Losses()
    warnings: tuple[str, ...] = ()  # damage, killed processes, unknown blocks: sentences for people
    facts: Mapping[str, Any] = field(default_factory=dict)  # JSON: versions, what was recorded, overhead
    measures: tuple[str, ...] = ()  # of a pass over a network: time, memory, primitives, whichever it is good for
    recorder: str = PROFKIT
    created_unix_ns: int = 0  # the time of day at `origin_ns`; 0: not known
    origin_ns: int = 0  # what its clock shows at the start of the capture

    def text(self, number: int) -> str:
        """The string of this number; empty when there is none."""
        return "" if number == NONE else self.strings[number]

    def texts(self, numbers: Column) -> list[str | None]:
        """The strings of a column of texts; None where there is none."""
        return [None if number == NONE else self.strings[number] for number in numbers.tolist()]

    def range_title(self, row: int) -> str:
        """`domain:name`, or the name alone when the range has no domain."""
        name, domain = self.text(self.ranges.name[row]), self.ranges.domain[row]
        return name if domain == NONE else f"{self.strings[domain]}:{name}"

    @property
    def framework(self) -> str:
        """Whose operators its ranges are, where the source knows it."""
        return self.processes[0].framework if self.processes else ""

    @property
    def clock_error_ns(self) -> float:
        """Of its times, in the process whose clock is known worst."""
        return max((process.clock_error_ns for process in self.processes), default=0.0)

    @property
    def has_device(self) -> bool:
        is_gpu_memory = self.memory_events.kind != MemoryKind.PAGEABLE
        return bool(len(self.calls) or len(self.activities) or is_gpu_memory.any())

    @cached_property
    def start_ns(self) -> int:
        """The first moment of any process or device."""
        known = [process.start_ns for process in self.processes]
        return min([*known, *self.activities.start_ns[:1].tolist()], default=0)

    @cached_property
    def end_ns(self) -> int:
        known = [process.end_ns for process in self.processes]
        return max([*known, *([int(self.activities.end_ns.max())] if len(self.activities) else [])], default=0)

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


TABLES: Mapping[str, type[ColumnTable]] = {
    "threads": Threads,
    "ranges": Ranges,
    "steps": Steps,
    "calls": Calls,
    "activities": Activities,
    "allocations": Allocations,
    "memory_events": MemoryEvents,
    "samples": Samples,
}
"""The tables of a Capture by the names of their fields."""
