"""What a GPU did and who asked for it, as columns: the one schema for CUPTI captures, Kineto JSON and Nsight SQLite.

Times are integer nanoseconds on one clock (the source's, whole trace alike). NONE (-1) means "not known" in every
column. Tables are in order of start; `call`, `range` and `parent` are row numbers of the tables named beside them.
docs/device-traces.md has the schema in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
NONE = -1


class RangeLevel(IntEnum):
    """What a range on the host stands for."""

    STEP = 0  # one iteration: ProfilerStep#3, or a range that the user names as the step
    LAYER = 1  # a module or layer: nn.Module hooks, user annotations
    OPERATOR = 2  # aten::conv2d, a profkit key, any other NVTX range
    RUNTIME = 3  # the framework's own machinery (autograd engine): its own time is dispatch


class ActivityKind(IntEnum):
    """What ran on the device."""

    KERNEL = 0
    COPY = 1
    SET = 2


class CopyDirection(IntEnum):
    """From where to where a copy went."""

    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    PEER_TO_PEER = 4
    HOST_TO_HOST = 5
    OTHER = 6


class MemoryKind(IntEnum):
    """Where an end of a copy lies."""

    PAGEABLE = 1
    PINNED = 2
    DEVICE = 3
    ARRAY = 4
    MANAGED = 5
    OTHER = 6


HOST_MEMORY = (MemoryKind.PAGEABLE, MemoryKind.PINNED)

RANGES: Mapping[str, Any] = {
    "level": np.int8,
    "thread": np.int32,  # row of DeviceTrace.threads
    "start_ns": np.int64,
    "end_ns": np.int64,
    "name": np.int32,  # index into DeviceTrace.strings, as all texts are
    "layer": np.int32,  # text, where the source knows the layer
    "phase": np.int32,  # text: forward, backward, optimiser, copy
    "shapes": np.int32,  # text
    "parent": np.int32,  # row of ranges: the innermost one of the same thread that encloses this one
    "sequence": np.int64,  # joins a backward operator with its forward one; each thread counts for itself
    "forward_thread": np.int32,  # of a backward operator: row of the thread of its forward one
}
CALLS: Mapping[str, Any] = {
    "thread": np.int32,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "name": np.int32,  # cudaLaunchKernel, cuLaunchKernelEx, ...
    "process": np.int32,  # row of DeviceTrace.processes
    "correlation": np.int64,
    "range": np.int32,  # row of ranges: the innermost one open on this thread when the call began
    "return_code": np.int64,
    "is_driver": np.int8,
}
ACTIVITIES: Mapping[str, Any] = {
    "kind": np.int8,
    "process": np.int32,
    "device": np.int32,
    "context": np.int64,
    "stream": np.int64,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "name": np.int32,  # demangled where known
    "correlation": np.int64,
    "graph_node": np.int64,  # with the correlation it names a node of a replayed CUDA graph
    "call": np.int32,  # row of calls: the launch
    "range": np.int32,  # row of ranges: the innermost one open on the launching thread at launch
    "queued_ns": np.int64,
    "bytes": np.int64,  # of copies and sets
    "direction": np.int8,  # CopyDirection
    "source_kind": np.int8,  # MemoryKind
    "target_kind": np.int8,
    "grid_x": np.int32,
    "grid_y": np.int32,
    "grid_z": np.int32,
    "block_x": np.int32,
    "block_y": np.int32,
    "block_z": np.int32,
    "registers": np.int32,
    "static_shared_bytes": np.int32,
    "dynamic_shared_bytes": np.int32,
}
MEMORY: Mapping[str, Any] = {
    "process": np.int32,
    "device": np.int32,
    "time_ns": np.int64,
    "address": np.uint64,
    "bytes": np.int64,  # negative: given back
    "kind": np.int8,  # MemoryKind
    "pool": np.int64,  # address of the memory pool; 0 none
    "range": np.int32,
}
_TABLES = {"ranges": RANGES, "calls": CALLS, "activities": ACTIVITIES, "memory": MEMORY}


@dataclass(frozen=True)
class DeviceTrace:
    """Everything of one trace."""

    source: str  # cupti, kineto, nsight
    path: str
    strings: tuple[str, ...]
    ranges: Mapping[str, Column]  # every name of RANGES, and so on
    calls: Mapping[str, Column]
    activities: Mapping[str, Column]
    memory: Mapping[str, Column]
    threads: tuple[Mapping[str, Any], ...]  # process (row), id, name
    processes: tuple[Mapping[str, Any], ...]  # pid, name
    devices: tuple[Mapping[str, Any], ...] = ()  # id, name, compute capability, multiprocessors, memory bytes, ...
    start_ns: int = 0  # of the whole recording
    end_ns: int = 0
    dropped: int = 0  # records that the source says it lost
    warnings: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)  # JSON: versions, what was recorded, overhead

    def text(self, number: int) -> str:
        """The string of this number; empty when there is none."""
        return "" if number == NONE else self.strings[number]


def table_of(name: str, columns: Mapping[str, Any], rows: int) -> dict[str, Column]:
    """All columns of a table (`ranges`, `calls`, ...) in their types; those that are not given are NONE."""
    kinds = _TABLES[name]
    unknown = columns.keys() - kinds.keys()
    if unknown:
        raise TypeError(f"{name} has no column {', '.join(sorted(unknown))}")
    return {
        column: _narrowed(columns[column], kind)
        if column in columns
        else np.full(rows, 0 if kind is np.uint64 else NONE, kind)
        for column, kind in kinds.items()
    }


def _narrowed(values: Any, kind: Any) -> Column:
    """Numbers in this type; one that does not fit it is damage, and not known: wrapped around it would be another's."""
    column = np.asarray(values)
    limits = np.iinfo(kind)
    if column.dtype.kind == "i" and limits.kind == "i" and column.dtype.itemsize > limits.bits // 8:
        column = np.where((column < limits.min) | (column > limits.max), NONE, column)
    return np.ascontiguousarray(column, kind)
