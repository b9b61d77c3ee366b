"""Nsight Systems exports (SQLite): a path in, a Capture out.

The schema changes with every release and tables exist only when something was recorded, so each table and column is
looked up first. The file is opened read-only and is never changed.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.capture.cupti_numbers import name_of_copy
from profkit.capture.importers.hook_layers import with_hook_layers
from profkit.capture.importers.nsight_database import NsightDatabase
from profkit.capture.importers.nsight_ranges import read_ranges
from profkit.capture.schema import NONE, NSIGHT, ActivityKind, Capture, Column, CopyDirection, Device, MemoryKind
from profkit.capture.trace_tables import LARGEST, LARGEST_SMALL, Strings, ThreadIds, linked_capture
from profkit.errors import TraceError

_PROCESS_MASK = ~0xFFFFFF  # a globalTid without its thread is the globalPid
_VERSION = re.compile(r"_v\d+$")
_DIRECTIONS = {
    **dict.fromkeys((1, 3, 11), CopyDirection.HOST_TO_DEVICE),
    **dict.fromkeys((2, 4, 12), CopyDirection.DEVICE_TO_HOST),
    **dict.fromkeys((5, 6, 7, 8, 13), CopyDirection.DEVICE_TO_DEVICE),
    9: CopyDirection.HOST_TO_HOST,
    10: CopyDirection.PEER_TO_PEER,
}
_MEMORY_KINDS = {
    0: MemoryKind.PAGEABLE,
    1: MemoryKind.PINNED,
    2: MemoryKind.DEVICE,
    3: MemoryKind.ARRAY,
    4: MemoryKind.MANAGED,
    5: MemoryKind.DEVICE,
    6: MemoryKind.MANAGED,
}
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
        with NsightDatabase(name) as database:
            return _Reader(name, database).read()
    except UnicodeDecodeError:
        # SQLite quotes damaged definitions in its messages, and Python cannot make a text of them.
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: its tables are damaged") from None
    except sqlite3.OperationalError as error:
        reason = "its pages hold each other" if "interrupted" in str(error) else str(error)
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: {reason}") from None
    except sqlite3.Error as error:
        raise TraceError(f"{name} cannot be read as an export of Nsight Systems: {error}") from None


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
                f"{self._path} is an SQLite file, but no export of Nsight Systems: it has none of its tables. "
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
        """Rows of the threads with these globalTids; the ids of process and thread lie in its lower 48 bits."""
        known, inverse = np.unique(ids, return_inverse=True)
        rows = [self._places.thread(each & _PROCESS_MASK, each) for each in known.tolist()]
        return np.array(rows, np.int32)[inverse]

    def _processes_of(self, ids: Column) -> Column:
        known, inverse = np.unique(ids, return_inverse=True)
        rows = [NONE if each == NONE else self._places.process(each) for each in known.tolist()]
        return np.array(rows, np.int32)[inverse]

    def _gpus_of(self, devices: Column, processes: Column) -> Column:
        """The machine's numbers of GPUs: CUDA counts those that a process may see (CUDA_VISIBLE_DEVICES)."""
        told = self._database.rows("TARGET_INFO_CUDA_DEVICE", "pid", "cudaId", "gpuId")
        known = {(pid, device): gpu for pid, device, gpu in told if isinstance(gpu, int) and abs(gpu) <= LARGEST_SMALL}
        if not known:
            return devices
        pairs, place = np.unique(np.stack([_pid_of(processes), devices], axis=1), axis=0, return_inverse=True)
        gpus = [known.get((pid, device), device) for pid, device in pairs.tolist()]
        return np.array(gpus, np.int64)[place.reshape(-1)]

    def _numbers_of(self, texts: Column, rename: Any = None) -> Column:
        """Numbers of strings in place of the export's own."""
        known, inverse = np.unique(texts, return_inverse=True)
        found = [self._database.strings.get(each, f"(string {each})") for each in known.tolist()]
        return np.array([self._strings.number(rename(text) if rename else text) for text in found], np.int32)[inverse]

    def _calls(self) -> dict[str, Column]:
        wanted = {
            "start_ns": "start", "end_ns": "end", "thread": "globalTid", "correlation": "correlationId",
            "name": "nameId", "return_code": "returnValue",
        }  # fmt: skip
        tables = [self._database.table(f"CUPTI_ACTIVITY_KIND_{kind}", wanted) for kind in ("RUNTIME", "DRIVER")]
        calls = {name: np.concatenate([table[name] for table in tables]) for name in wanted}
        calls["name"] = self._numbers_of(calls["name"], lambda text: _VERSION.sub("", text))
        names = self._strings.all()
        calls["is_driver"] = np.array([_is_driver(names[each]) for each in calls["name"].tolist()], np.int8)
        calls["thread"] = self._threads_of(calls["thread"])
        calls["process"] = self._places.processes_of_threads()[calls["thread"]]
        return calls

    def _activities(self) -> dict[str, Column]:
        nodes = [self._kernels(), self._copies(), self._sets()]
        parts = [*nodes, self._graphs(nodes)]
        names = list(dict.fromkeys(name for part in parts for name in part))
        sizes = [len(part["start_ns"]) for part in parts]
        activities = {
            name: np.concatenate([part.get(name, np.full(size, NONE, np.int64)) for part, size in zip(parts, sizes)])
            for name in names
        }
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
        table = self._database.table("CUPTI_ACTIVITY_KIND_MEMCPY", wanted)
        peers = self._database.table("CUPTI_ACTIVITY_KIND_MEMCPY2", wanted)
        table = {name: np.concatenate([table[name], peers[name]]) for name in table}
        table["direction"] = _mapped(table["direction"], _DIRECTIONS, CopyDirection.OTHER)
        for name in ("source_kind", "target_kind"):
            table[name] = np.where(table[name] == NONE, NONE, _mapped(table[name], _MEMORY_KINDS, MemoryKind.OTHER))
        table["name"] = self._copy_names(
            ActivityKind.COPY, table["direction"], table["source_kind"], table["target_kind"]
        )
        return _of_kind(table, ActivityKind.COPY)

    def _sets(self) -> dict[str, Column]:
        table = self._database.table(
            "CUPTI_ACTIVITY_KIND_MEMSET", _WHERE | {"bytes": "bytes", "target_kind": "memKind"}
        )
        table["target_kind"] = _mapped(table["target_kind"], _MEMORY_KINDS, NONE)
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
        table["kind"] = _mapped(table["kind"], _MEMORY_KINDS, MemoryKind.OTHER)
        table["thread"] = self._threads_of(table["thread"])
        table["device"] = self._gpus_of(table["device"], table["process"])
        table["process"] = self._processes_of(table["process"])
        table["pool"] = np.maximum(table["pool"], 0)
        return table

    def _signed_sizes(self, table: Mapping[str, Column], operation: Column) -> Column:
        """Bytes, negative where given back; a free without a size has that of its allocation, 0 if that is unknown."""
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


def _mapped(column: Column, table: Mapping[int, int], otherwise: int) -> Column:
    known, inverse = np.unique(column, return_inverse=True)
    return np.array([table.get(each, otherwise) for each in known.tolist()], np.int64)[inverse]


def _is_driver(name: str) -> bool:
    return name.startswith("cu") and name[2:3].isupper()
