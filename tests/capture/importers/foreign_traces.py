"""GPU traces of other tools made by hand, an event per line: Kineto JSON and Nsight SQLite; and where real ones lie.

All times are in ns. Real traces are read here by json, decimal and sqlite3 alone, so that sums are independent of
profkit.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.schema import NONE, PROFKIT, Capture
from profkit.commands.opening import open_any
from tests.support.places import TRACES

KINETO_FILES = ("kineto-alexnet-gpu.json.gz", "kineto-cpu-only.json.gz", "kineto-ns-resolution-gpu.json.gz")
NSIGHT_FILES = ("nsys-h100-2gpu.sqlite",)
REAL_FILES = (*KINETO_FILES, *NSIGHT_FILES)
# The largest one of Kineto's is left to the full tier.
_LARGEST = pytest.param(KINETO_FILES[2], marks=pytest.mark.full)
by_kineto_file = pytest.mark.parametrize("name", [*KINETO_FILES[:2], _LARGEST])
by_real_file = pytest.mark.parametrize("name", [*KINETO_FILES[:2], _LARGEST, *NSIGHT_FILES])
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_GPU_TABLES = ("KERNEL", "MEMCPY", "MEMSET")


def opened_trace(path: Path) -> Capture:
    """The capture in a file that another profiler left."""
    capture = open_any(path)
    assert isinstance(capture, Capture) and capture.recorder != PROFKIT
    return capture


def names(trace: Capture, table: Any) -> list[str]:
    """Of each row of the table."""
    return [trace.text(number) for number in table["name"].tolist()]


def launched_in(trace: Capture, row: int) -> str:
    """The name of the range in which an activity was launched."""
    place = int(trace.activities["range"][row])
    return "" if place == NONE else trace.text(int(trace.ranges["name"][place]))


def real_trace(name: str) -> Path:
    """The path of a real trace; skips the test where the folder is missing."""
    path = TRACES / name
    if not path.is_file():
        pytest.skip(f"the real GPU trace {name} is not here")
    return path


@cache
def kineto_document(path: Path) -> Any:
    """The whole file, numbers exact."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data, parse_float=Decimal)


def kineto_events(path: Path, *categories: str) -> list[Any]:
    """Complete events of these categories."""
    return [e for e in kineto_document(path)["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]


def event_times(path: Path, event: Any) -> tuple[int, int]:
    """Start and end, exact."""
    base = kineto_document(path).get("baseTimeNanoseconds", 0)
    start = Decimal(event["ts"]) * 1000 + base
    end = start + Decimal(event["dur"]) * 1000
    assert start == int(start)
    assert end == int(end)
    return int(start), int(end)


def nsight_rows(path: Path, question: str) -> list[Any]:
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return database.execute(question).fetchall()
    finally:
        database.close()


def gpu_work(path: Path) -> list[tuple[str, int, int, int, int]]:
    """Kind (kernel, copy, set), GPU, start, end and bytes of everything that ran, straight from the file."""
    kinds = ("kernel", "copy", "set")
    if path.suffix == ".sqlite":
        found = []
        for kind, table in zip(kinds, _GPU_TABLES):
            size = "0" if kind == "kernel" else "bytes"
            question = f'select deviceId, start, "end", {size} from CUPTI_ACTIVITY_KIND_{table}'
            found += [(kind, *row) for row in nsight_rows(path, question)]
        return found
    return [
        (kind, event["args"]["device"], *event_times(path, event), event["args"].get("bytes", 0))
        for kind, category in zip(kinds, ON_GPU)
        for event in kineto_events(path, category)
    ]


class KinetoTrace:
    """A trace of torch.profiler: times in ns go in, JSON with times in microseconds comes out."""

    def __init__(self, decimals: bool = True, **about: Any) -> None:
        self.events: list[Any] = []
        self.about = {"schemaVersion": 1, **about}
        self._decimals = decimals

    def event(self, category: str, name: str, start: int, end: int, args: Any = None, **more: Any) -> KinetoTrace:
        """A complete event."""
        times = {"ts": self._micros(start), "dur": self._micros(end - start)}
        base = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, **times, "args": args or {}}
        self.events.append({**base, **more})
        return self

    def operator(self, name: str, start: int, end: int, sequence: int | None = None, tid: int = 7) -> KinetoTrace:
        args = {} if sequence is None else {"Sequence number": sequence}
        return self.event("cpu_op", name, start, end, args, tid=tid)

    def annotation(self, name: str, start: int, end: int, tid: int = 7) -> KinetoTrace:
        """A range that the user opened."""
        return self.event("user_annotation", name, start, end, tid=tid)

    def call(self, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel", tid: int = 7) -> KinetoTrace:
        return self.event("cuda_runtime", name, start, end, {"correlation": correlation}, tid=tid)

    def kernel(
        self, start: int, end: int, correlation: int, name: str = "k", device: int = 0, stream: int = 7
    ) -> KinetoTrace:
        args = {"device": device, "stream": stream, "correlation": correlation, "grid": [4, 2, 1], "block": [128, 1, 1]}
        return self.event("kernel", name, start, end, args, pid=device, tid=stream)

    def copy(
        self,
        start: int,
        end: int,
        correlation: int,
        size: int,
        name: str = "Memcpy HtoD (Pageable -> Device)",
        device: int = 0,
    ) -> KinetoTrace:
        args = {"device": device, "stream": 7, "correlation": correlation, "bytes": size}
        return self.event("gpu_memcpy", name, start, end, args, pid=device)

    def memory(self, time: int, address: int, size: int, device: int = 0, kind: int = 1, **totals: int) -> KinetoTrace:
        args = {"Device Type": kind, "Device Id": device, "Addr": address, "Bytes": size, **totals}
        event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7, "tid": 7}
        self.events.append({**event, "ts": self._micros(time), "args": args})
        return self

    def _micros(self, time: int) -> Any:
        if self._decimals:
            return _Number(f"{time // 1000}.{time % 1000:03}")
        return time // 1000

    def text(self) -> str:
        parts = [json.dumps(self.about)[:-1], ', "traceEvents": [', ",\n".join(_dumped(e) for e in self.events), "]}"]
        return "".join(parts)

    def write(self, path: Path) -> Path:
        """The file; packed if its name says so."""
        data = self.text().encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return path


class _Number(str):
    """Text that is written as a number, all its digits kept."""

    __slots__ = ()


def _dumped(event: Any) -> str:
    if not isinstance(event, dict):
        return json.dumps(event)
    members = [f"{json.dumps(k)}: {v if isinstance(v, _Number) else json.dumps(v)}" for k, v in event.items()]
    return "{" + ", ".join(members) + "}"


TABLES = {
    "StringIds": "id, value",
    "NVTX_EVENTS": "start, end, eventType, text, globalTid, endGlobalTid, textId, domainId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, nameId, returnValue",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, "
    "copyKind, srcKind, dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, deviceId, contextId, streamId, correlationId, globalPid, bytes, memKind",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start, globalTid, globalPid, deviceId, address, bytes, memKind, "
    "memoryOperationType",
    "META_DATA_EXPORT": "name, value",
    "TARGET_INFO_GPU": "id, name",
}
PUSH_POP = 59


def global_pid(pid: int) -> int:
    return 1 << 48 | pid << 24


class NsightExport:
    """An export of Nsight Systems; tables that nothing is added to are left out, as in real ones."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {}
        self._strings: dict[str, int] = {}
        self.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_NAME", value="NVIDIA Nsight Systems")

    def add(self, table: str, **values: Any) -> NsightExport:
        self.rows.setdefault(table, []).append(values)
        return self

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 100
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def range(self, text: str, start: int, end: int | None, pid: int = 5, tid: int = 5, **more: Any) -> NsightExport:
        thread = global_pid(pid) | tid
        return self.add("NVTX_EVENTS", start=start, end=end, eventType=PUSH_POP, text=text, globalTid=thread, **more)

    def call(
        self, start: int, end: int, correlation: int, name: str = "cudaLaunchKernel_v7000", pid: int = 5, tid: int = 5
    ) -> NsightExport:
        more = {"globalTid": global_pid(pid) | tid, "correlationId": correlation, "nameId": self.string(name)}
        return self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, returnValue=0, **more)

    def kernel(
        self, start: int, end: int, correlation: int, name: str = "k", device: int = 0, pid: int = 5
    ) -> NsightExport:
        more = {**_where(device, correlation, pid), "demangledName": self.string(name)}
        return self.add("CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, **more)

    def copy(
        self,
        start: int,
        end: int,
        correlation: int,
        size: int,
        kind: int = 1,
        ends: tuple[int, int] = (0, 2),
        pid: int = 5,
    ) -> NsightExport:
        more = {**_where(0, correlation, pid), "bytes": size, "copyKind": kind, "srcKind": ends[0], "dstKind": ends[1]}
        return self.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, **more)

    def memory(self, time: int, address: int, size: int | None, is_free: bool = False, kind: int = 2) -> NsightExport:
        place = {"globalTid": global_pid(5) | 5, "globalPid": global_pid(5), "deviceId": 0}
        more = {**place, "address": address, "bytes": size, "memKind": kind, "memoryOperationType": int(is_free)}
        return self.add("CUDA_GPU_MEMORY_USAGE_EVENTS", start=time, **more)

    def write(self, path: Path) -> Path:
        """The file; columns are those that TABLES has and those that the rows bring."""
        database = sqlite3.connect(path)
        for table, rows in self.rows.items():
            columns = list(dict.fromkeys([*TABLES.get(table, "").split(", "), *(name for row in rows for name in row)]))
            columns = [name for name in columns if name]
            quoted = ", ".join(f'"{name}"' for name in columns)
            database.execute(f"create table {table} ({quoted})")
            marks = ", ".join("?" for _ in columns)
            database.executemany(
                f"insert into {table} values ({marks})", [[row.get(name) for name in columns] for row in rows]
            )
        database.commit()
        database.close()
        return path


def _where(device: int, correlation: int, pid: int) -> dict[str, int]:
    place = {"deviceId": device, "contextId": 1, "streamId": 7}
    return {**place, "correlationId": correlation, "globalPid": global_pid(pid)}
