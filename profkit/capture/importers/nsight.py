"""Nsight Systems exports (SQLite): a path in, a Capture out.

The schema changes with every release and tables exist only when something was recorded, so each table and column is
looked up first. The file is opened read-only and is never changed.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from profkit.capture.cupti_numbers import DIRECTIONS, MEMORY_KINDS, name_of_copy, translated
from profkit.capture.importers.nsight_database import NsightDatabase
from profkit.capture.importers.nsight_ranges import read_ranges
from profkit.capture.importers.range_levels import with_hook_layers
from profkit.capture.schema import NONE, NSIGHT, ActivityKind, Capture, Column, CopyDirection, Device, MemoryKind
from profkit.capture.trace_tables import LARGEST, LARGEST_SMALL, Strings, ThreadIds, linked_capture, mapped, stacked
from profkit.errors import TraceError, first_line

_PROCESS_MASK = ~0xFFFFFF  # a globalTid without its thread is the globalPid
_VERSION = re.compile(r"_v\d+$")
_MEMORY_KINDS = {number - 1: kind for number, kind in MEMORY_KINDS.items()}  # CUPTI's number 0 is: not known
_KERNEL = {
    "device": "deviceId", "context": "contextId", "stream": "streamId", "start_ns": "start", "end_ns": "end",
    "correlation": "correlationId", "graph_node": "graphNodeId", "process": "globalPid", "queued_ns": "queued",
    "grid_x": "gridX", "grid_y": "gridY", "grid_z": "gridZ", "block_x": "blockX", "block_y": "blockY",
    "block_z": "blockZ", "registers": "registersPerThread", "static_shared_bytes": "staticSharedMemory",
    "dynamic_shared_bytes": "dynamicSharedMemory", "demangled": "demangledName", "short": "shortName",
}  # fmt: skip
_WHERE = {name: _KERNEL[name] for name in list(_KERNEL)[:8]}
_ALLOCATIONS = {
    "time_ns": "start", "thread": "globalTid", "process": "globalPid", "device": "deviceId", "address": "address",
    "bytes": "bytes", "kind": "memKind", "operation": "memoryOperationType", "pool": "localMemoryPoolAddress",
}  # fmt: skip
_ALLOCATED, _FREED = 0, 1


def read_nsight(path: str | os.PathLike[str]) -> Capture:
    """The trace; TraceError when the file is not a trace, or holds nothing of the host or of a GPU."""
    name = os.fspath(path)
    try:
        with closing(NsightDatabase(name)) as database:
            return _Reader(name, database).read()
    except UnicodeDecodeError:
        # SQLite quotes damaged definitions in its messages, and Python cannot make a text of them.
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: its tables are damaged") from None
    except sqlite3.OperationalError as error:
        reason = "its pages hold each other" if "interrupted" in str(error) else first_line(error)
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: {reason}") from None
    except sqlite3.Error as error:
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: {first_line(error)}") from None


class _Reader:
    def __init__(self, path: str, database: NsightDatabase) -> None:
        self._path = path
        self._database = database
        self._strings = Strings()
        self._places = ThreadIds(_system_id)

    def read(self) -> Capture:
        database = self._database
        if not database.is_nsight():
            raise TraceError(
                f"{self._path} is an SQLite file, but not an export of Nsight Systems: its tables are missing. "
                "`nsys export --type sqlite report.nsys-rep` makes one"
            )
        calls = self._calls()
        activities = self._activities()
        memory = self._allocations()
        times = [calls["end_ns"], activities["end_ns"]]
        last = max((int(column.max()) for column in times if len(column)), default=0)
        ranges = read_ranges(database, self._strings, self._threads_of, last)
        if not (len(ranges["name"]) or len(calls["name"]) or len(activities["name"])):
            raise TraceError(f"{self._path} is an export of Nsight Systems without NVTX ranges, CUDA calls or kernels")
        ranges = with_hook_layers(ranges, self._strings.all(), self._strings)
        self._name_places()
        return linked_capture(
            ranges,
            calls,
            activities,
            memory,
            self._places,
            self._strings,
            recorder=NSIGHT,
            path=self._path,
            devices=self._devices(),
            warnings=tuple(database.warnings + database.diagnostics()),
            facts=database.facts(),
        )

    def _threads_of(self, ids: Column) -> Column:
        """Rows of the threads with these globalTids; the ids of process and thread are in its lower 48 bits."""
        return mapped(ids, lambda each: self._places.thread(each & _PROCESS_MASK, each))

    def _processes_of(self, ids: Column) -> Column:
        return mapped(ids, lambda each: NONE if each == NONE else self._places.process(each))

    def _gpus_of(self, devices: Column, processes: Column) -> Column:
        """The machine's numbers of GPUs: CUDA counts those that a process may see (CUDA_VISIBLE_DEVICES)."""
        rows = self._database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
        known = {(pid, device): gpu for pid, device, gpu in rows if isinstance(gpu, int) and abs(gpu) <= LARGEST_SMALL}
        if not known:
            return devices
        pairs, place = np.unique(np.stack([_pid_of(processes), devices], axis=1), axis=0, return_inverse=True)
        gpus = [known.get((pid, device), device) for pid, device in pairs.tolist()]
        return np.array(gpus, np.int64)[place.reshape(-1)]

    def _numbers_of(self, texts: Column, rename: Callable[[str], str] = str) -> Column:
        """Numbers of strings in place of the export's own."""
        known = self._database.strings
        return mapped(texts, lambda each: self._strings.number(rename(known.get(each, f"(string {each})"))))

    def _calls(self) -> dict[str, Column]:
        wanted = {
            "start_ns": "start", "end_ns": "end", "thread": "globalTid", "correlation": "correlationId",
            "name": "nameId", "return_code": "returnValue",
        }  # fmt: skip
        kinds = ("RUNTIME", "DRIVER")
        calls = stacked([self._database.table(f"CUPTI_ACTIVITY_KIND_{kind}", wanted) for kind in kinds])
        calls["name"] = self._numbers_of(calls["name"], lambda text: _VERSION.sub("", text))
        is_driver = [name.startswith("cu") and name[2:3].isupper() for name in self._strings.all()]
        calls["is_driver"] = np.array([is_driver[each] for each in calls["name"].tolist()], np.int8)
        calls["thread"] = self._threads_of(calls["thread"])
        calls["process"] = self._places.processes_of_threads()[calls["thread"]]
        return calls

    def _activities(self) -> dict[str, Column]:
        nodes = [self._kernels(), self._copies(), self._sets()]
        activities = stacked([*nodes, self._graphs(nodes)])
        activities["device"] = self._gpus_of(activities["device"], activities["process"])
        activities["process"] = self._processes_of(activities["process"])
        return activities

    def _kernels(self) -> dict[str, Column]:
        table = self._database.table("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL)
        demangled, short = table.pop("demangled"), table.pop("short")
        table["name"] = self._numbers_of(np.where(demangled == NONE, short, demangled)).astype(np.int64)
        table["queued_ns"] = np.where(table["queued_ns"] > 0, table["queued_ns"], NONE)
        return _of_kind(table, ActivityKind.KERNEL)

    def _copies(self) -> dict[str, Column]:
        wanted = _WHERE | {
            "bytes": "bytes",
            "direction": "copyKind",
            "source_kind": "srcKind",
            "target_kind": "dstKind",
        }
        kinds = ("MEMCPY", "MEMCPY2")
        table = stacked([self._database.table(f"CUPTI_ACTIVITY_KIND_{kind}", wanted) for kind in kinds])
        table["direction"] = translated(table["direction"], DIRECTIONS, CopyDirection.OTHER)
        for name in ("source_kind", "target_kind"):
            table[name] = np.where(table[name] == NONE, NONE, translated(table[name], _MEMORY_KINDS, MemoryKind.OTHER))
        table["name"] = self._copy_names(
            ActivityKind.COPY, table["direction"], table["source_kind"], table["target_kind"]
        )
        return _of_kind(table, ActivityKind.COPY)

    def _sets(self) -> dict[str, Column]:
        table = self._database.table(
            "CUPTI_ACTIVITY_KIND_MEMSET", _WHERE | {"bytes": "bytes", "target_kind": "memKind"}
        )
        table["target_kind"] = translated(table["target_kind"], _MEMORY_KINDS, NONE)
        unknown = np.full(len(table["start_ns"]), NONE)
        table["name"] = self._copy_names(ActivityKind.SET, unknown, unknown, table["target_kind"])
        return _of_kind(table, ActivityKind.SET)

    def _copy_names(self, kind: ActivityKind, *ends: Column) -> Column:
        rows = zip(*(column.tolist() for column in ends))
        return np.array([self._strings.number(name_of_copy(kind, *row)) for row in rows], np.int64)

    def _graphs(self, nodes: Sequence[Mapping[str, Column]]) -> dict[str, Column]:
        """Whole CUDA graphs: without `--cuda-graph-trace=node` this is all that is known of the kernels inside.

        A launch of which nodes were recorded too is left out: its time would count twice.
        """
        table = self._database.table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _WHERE | {"graph": "graphId"})
        known = {pair for part in nodes for pair in zip(part["process"].tolist(), part["correlation"].tolist())}
        pairs = zip(table["process"].tolist(), table["correlation"].tolist())
        is_new = np.array([pair[1] <= 0 or pair not in known for pair in pairs], bool)
        table = {name: column[is_new] for name, column in table.items()}
        graphs = table.pop("graph").tolist()
        table["name"] = np.array([self._strings.number(f"CUDA graph {each}") for each in graphs], np.int64)
        if graphs:
            self._database.warnings.append(
                f"{len(graphs):,} launches of CUDA graphs were recorded as wholes: their kernels are not known; "
                "`nsys profile --cuda-graph-trace=node` records them"
            )
        return _of_kind(table, ActivityKind.KERNEL)

    def _allocations(self) -> dict[str, Column]:
        table = self._database.table("CUDA_GPU_MEMORY_USAGE_EVENTS", _ALLOCATIONS, ends=False)
        operation = table.pop("operation")
        known = (operation == _ALLOCATED) | (operation == _FREED)
        if not known.all():
            lost = len(known) - np.count_nonzero(known)
            self._database.warnings.append(f"{lost:,} events of GPU memory neither allocate nor free: left out")
        table = {name: column[known] for name, column in table.items()}
        table["bytes"] = self._signed_sizes(table, operation[known])
        has_size = table["bytes"] != 0
        table = {name: column[has_size] for name, column in table.items()}
        table["kind"] = translated(table["kind"], _MEMORY_KINDS, MemoryKind.OTHER)
        table["thread"] = self._threads_of(table["thread"])
        table["device"] = self._gpus_of(table["device"], table["process"])
        table["process"] = self._processes_of(table["process"])
        table["pool"] = np.maximum(table["pool"], 0)
        return table

    def _signed_sizes(self, table: Mapping[str, Column], operation: Column) -> Column:
        """Bytes, negative where freed; a free without a size has that of its allocation, 0 if that is unknown."""
        sizes = np.zeros(len(operation), np.int64)
        held: dict[tuple[int, int], int] = {}
        for row in np.argsort(table["time_ns"], kind="stable").tolist():
            where = int(table["process"][row]), int(table["address"][row])
            size = min(max(0, int(table["bytes"][row])), LARGEST)
            if operation[row] == _ALLOCATED:
                sizes[row] = held[where] = size
            else:
                sizes[row] = -(held.pop(where, 0) or size)
        lost = int(np.count_nonzero(sizes == 0))
        if lost:
            self._database.warnings.append(f"{lost:,} events of GPU memory have no size, or 0 bytes: left out")
        return sizes

    def _name_places(self) -> None:
        """Names of processes and threads, and ids as the system knows them."""
        database = self._database
        for process, name in database.rows("PROCESSES", "globalPid", "name"):
            self._places.process_names[process] = str(name)
        for thread, name in database.rows("ThreadNames", "globalTid", "nameId"):
            if isinstance(thread, int):
                self._places.thread_names[thread & _PROCESS_MASK, thread] = database.strings.get(name, "")

    def _devices(self) -> tuple[Device, ...]:
        wanted = {
            "id": "id", "compute_major": "computeMajor", "compute_minor": "computeMinor",
            "multiprocessors": "smCount", "memory_bytes": "totalMemory",
        }  # fmt: skip
        found = []
        for name, *values in self._database.rows("TARGET_INFO_GPU", "name", *wanted.values()):
            numbers = {key: value if type(value) is int else NONE for key, value in zip(wanted, values)}
            if numbers["id"] != NONE:
                found.append(Device(name=str(name or ""), **numbers))
        return tuple(found)


def _system_id(number: int) -> int:
    """The system's number of a globalTid, or of a globalPid, which has no thread."""
    return number & 0xFFFFFF or _pid_of(number)


def _pid_of(global_pid: Any) -> Any:
    """The system's number of a process, or a column of them."""
    return global_pid >> 24 & 0xFFFFFF


def _of_kind(table: dict[str, Column], kind: ActivityKind) -> dict[str, Column]:
    return table | {"kind": np.full(len(table["start_ns"]), kind, np.int64)}
