"""A capture in memory: columns (NumPy), integer nanoseconds on one clock that starts with the capture.

Every source of events ends in these tables; attribution and rendering start from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.capture.device_trace import DeviceTrace

Column = NDArray[Any]
NONE = -1


class RangeKind(IntEnum):
    """How a row of `ranges` takes part in the tree of its thread."""

    RANGE = 0  # nested: part of the tree
    SPAN = 1  # started and ended by id, or closed out of order: has a parent, but no children and no own time
    MARK = 2  # an instant


class Source(IntEnum):
    """The door through which a range came."""

    PROFKIT = 1
    NVTX = 2
    ITT = 3


class PayloadType(IntEnum):
    """How the 64 bits of `payload` are meant."""

    NONE = 0
    INT64 = 1
    UINT64 = 2
    FLOAT64 = 3
    INT32 = 4
    UINT32 = 5
    FLOAT32 = 6
    OPAQUE = 7  # no number form; the bits are its size in bytes


class AllocationCall(IntEnum):
    """Which function asked for the memory."""

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


@dataclass(frozen=True)
class Ranges:
    """Ranges, spans and marks, grouped by thread and in order of begin: a parent stands before its children."""

    kind: Column  # uint8, RangeKind
    source: Column  # uint8, Source
    thread: Column  # int32, row of Threads
    end_thread: Column  # int32, differs from `thread` for spans only
    start_ns: Column  # int64
    end_ns: Column  # int64
    name: Column  # int32, index into Capture.strings
    domain: Column  # int32, likewise; -1 none
    category: Column  # int32, likewise; -1 none
    colour: Column  # uint32 ARGB; 0 none
    payload_type: Column  # uint8, PayloadType
    payload: Column  # uint64 bits
    parent: Column  # int32, row of this table, always of kind RANGE and enclosing; -1 none
    depth: Column  # int32, number of ancestors
    is_open: Column  # bool, no end was recorded
    minor_faults: Column  # int64; these four are -1 when not recorded
    major_faults: Column
    voluntary_switches: Column
    involuntary_switches: Column

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Allocations:
    """Memory asked for, with its release if there was one; in order of time within a process."""

    thread: Column  # int32, row of Threads
    range: Column  # int32, row of Ranges: the innermost open one of that thread; -1 none
    time_ns: Column  # int64
    call: Column  # uint8, AllocationCall
    address: Column  # uint64
    bytes: Column  # uint64
    free_time_ns: Column  # int64; -1 still live at the end
    free_thread: Column  # int32; -1 likewise, or not known: the address was used again, its release not recorded
    free_range: Column  # int32; -1 likewise, or no range was open
    is_part: Column  # bool, a further piece of a mapping that was unmapped in pieces: bytes without a call of their own

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Threads:
    """Every thread seen, with what was only counted."""

    process: Column  # int32, index into Capture.processes
    index: Column  # uint32, ascending per process
    os_thread_id: Column  # uint64
    name: Column  # int32, index into Capture.strings
    start_ns: Column  # int64, first time known
    end_ns: Column  # int64, last time known
    small_allocations: Column  # uint64, below the threshold
    small_allocated_bytes: Column  # uint64
    unbalanced_pops: Column  # uint64
    dropped: Column  # uint64

    def __len__(self) -> int:
        return len(self.process)


@dataclass(frozen=True)
class Samples:
    """Resident memory of the processes over time."""

    process: Column  # int32
    time_ns: Column  # int64
    resident_bytes: Column  # uint64

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Process:
    """One recorded process; a fork child is one of its own."""

    pid: int  # 0: not known
    parent_pid: int
    command: tuple[str, ...]
    doors: tuple[str, ...]  # through which it could record; empty: not known
    clock: str  # "tsc" or "monotonic"
    start_ns: int
    end_ns: int
    has_ended: bool  # False: killed, crashed or still running
    empty_range_ns: float  # what recording an empty range costs, measured in this process at start
    clock_read_ns: float
    cross_core_skew_ns: float  # -1: not measured
    clock_drift_ppm: float
    clock_error_ns: float
    frees_of_unknown: int
    description: dict[str, Any]  # all that the process wrote about itself


@dataclass(frozen=True)
class Losses:
    """Records that never reached the file, by reason, and what waiting for the writer cost."""

    records: int
    disk_full: int
    too_slow: int
    too_deep: int
    stalled_ns: int
    replaced_names: int = 0  # so often "(too many names)" was recorded, because the tables of names were full
    device: int = 0  # of `records`: what a GPU did, lost by CUPTI or before the file


@dataclass(frozen=True)
class Capture:
    """Everything of one capture file."""

    path: str
    created_unix_ns: int
    strings: tuple[str, ...]
    processes: tuple[Process, ...]
    threads: Threads
    ranges: Ranges
    allocations: Allocations
    samples: Samples
    losses: Losses
    warnings: tuple[str, ...]  # damage, killed processes, unknown blocks: sentences for people
    device: DeviceTrace | None = None  # what the GPU did, on the same clock; None when nothing of it was recorded

    def range_title(self, row: int) -> str:
        """`domain:name`, or the name alone when the range has no domain."""
        name = self.strings[self.ranges.name[row]]
        domain = self.ranges.domain[row]
        return name if domain == NONE else f"{self.strings[domain]}:{name}"

    @property
    def duration_ns(self) -> int:
        """From the first to the last moment of any process."""
        if not self.processes:
            return 0
        return max(p.end_ns for p in self.processes) - min(p.start_ns for p in self.processes)


def payload_values(ranges: Ranges) -> NDArray[np.object_]:
    """Payloads as Python numbers, None where there is none (or no number form)."""
    values = np.full(len(ranges), None, dtype=object)
    views: dict[PayloadType, Any] = {
        PayloadType.INT64: lambda bits: bits.view(np.int64),
        PayloadType.UINT64: lambda bits: bits,
        PayloadType.FLOAT64: lambda bits: bits.view(np.float64),
        PayloadType.INT32: lambda bits: bits.astype(np.uint32).view(np.int32),
        PayloadType.UINT32: lambda bits: bits.astype(np.uint32),
        PayloadType.FLOAT32: lambda bits: bits.astype(np.uint32).view(np.float32),
    }
    for payload_type, view in views.items():
        rows = ranges.payload_type == payload_type
        if rows.any():
            values[rows] = view(np.ascontiguousarray(ranges.payload[rows])).tolist()
    return values
