"""Captures as tables, made by hand without a file: a row or an allocation per line goes in, a Capture comes out."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from profkit.capture.nesting import depths_of
from profkit.capture.schema import (
    NONE,
    RANGE_COUNTERS,
    AllocationCall,
    Allocations,
    Capture,
    ColumnTable,
    Losses,
    PayloadType,
    Process,
    RangeKind,
    Ranges,
    Samples,
    Source,
    Threads,
)


@dataclass(frozen=True)
class Row:
    """A range; its parent is the innermost RANGE of the same thread that encloses it."""

    name: str
    start_ns: int
    end_ns: int
    thread: str = "main"
    kind: RangeKind = RangeKind.RANGE
    domain: str | None = None
    category: str | None = None
    colour: int = 0
    payload: int | float | None = None
    source: Source = Source.NVTX
    end_thread: str | None = None
    is_open: bool = False
    faults: tuple[int, int, int, int] = (NONE, NONE, NONE, NONE)  # minor, major, voluntary, involuntary


@dataclass(frozen=True)
class Alloc:
    """Memory taken at `time_ns`; it belongs to the innermost RANGE open on its thread then, as does its release."""

    time_ns: int
    bytes: int
    free_time_ns: int | None = None
    thread: str = "main"
    free_thread: str | None = None  # the same thread unless said
    address: int | None = None
    call: AllocationCall = AllocationCall.MALLOC
    is_part: bool = False
    is_free_known: bool = True


def capture_of(
    rows: Sequence[Row] = (),
    allocations: Sequence[Alloc] = (),
    *,
    threads: Sequence[str] = (),
    processes: Sequence[Sequence[str]] = (),
    span_ns: tuple[int, int] | None = None,
    losses: Losses | None = None,
    samples: Sequence[tuple[int, int]] = (),
    warnings: Sequence[str] = (),
    empty_range_ns: float = 0.0,
) -> Capture:
    """A capture with these rows.

    `threads` adds threads without rows or sets their order; `processes` lists the threads of each process (default:
    one process with all of them). `samples` are (time_ns, resident bytes) of the first process.
    """
    used = [*threads, *(r.thread for r in rows), *(a.thread for a in allocations)]
    groups = [list(group) for group in processes] or [list(dict.fromkeys(used)) or ["main"]]
    order = [name for group in groups for name in group]
    number = {name: index for index, name in enumerate(order)}
    strings: dict[str, int] = {}
    placed = sorted(rows, key=lambda r: (number[r.thread], r.start_ns, -r.end_ns if r.kind == RangeKind.RANGE else 0))
    last = max([0, *(r.end_ns for r in rows), *(a.free_time_ns or a.time_ns for a in allocations)])
    span_ns = span_ns or (0, last)
    resident = [{"process": 0, "time_ns": time, "resident_bytes": size} for time, size in samples]
    return Capture(
        path="made by hand",
        created_unix_ns=1_700_000_000_000_000_000,
        processes=tuple(_process(index, span_ns, empty_range_ns) for index in range(len(groups))),
        threads=table_of(Threads, _threads(groups, placed, span_ns), strings),
        ranges=table_of(Ranges, _ranges(placed, number), strings),
        allocations=table_of(Allocations, _allocations(allocations, placed, number), strings),
        samples=table_of(Samples, resident, strings),
        losses=losses or Losses(),
        warnings=tuple(warnings),
        strings=tuple(strings),
    )


def payload_bits(value: int | float | None) -> tuple[PayloadType, int]:
    """Type and bits as the doors record them."""
    if value is None:
        return PayloadType.NONE, 0
    if isinstance(value, float):
        return PayloadType.FLOAT64, struct.unpack("<Q", struct.pack("<d", value))[0]
    if value >= 1 << 63:
        return PayloadType.UINT64, value
    return PayloadType.INT64, value & (1 << 64) - 1


_NUMBERS = {
    PayloadType.INT64: "<q",
    PayloadType.UINT64: "<Q",
    PayloadType.FLOAT64: "<d",
    PayloadType.INT32: "<i",
    PayloadType.UINT32: "<I",
    PayloadType.FLOAT32: "<f",
}


def payload_values(ranges: Ranges) -> list[int | float | None]:
    """Payloads as Python numbers; None where there is none, or no number form."""
    rows = zip(ranges.payload_type.tolist(), ranges.payload.tolist())
    return [
        struct.unpack_from(_NUMBERS[PayloadType(kind)], bits.to_bytes(8, "little"))[0] if kind in _NUMBERS else None
        for kind, bits in rows
    ]


_Kind = TypeVar("_Kind", bound=ColumnTable)
_TIMES = ("start_ns", "end_ns", "time_ns", "free_time_ns", "queued_ns")


def table_of(
    kind: type[_Kind], rows: Sequence[Mapping[str, Any]], strings: dict[str, int], origin_ns: int = 0
) -> _Kind:
    """The rows as columns; texts become numbers, times those of the capture's clock, None what is not known."""

    def value(row: Mapping[str, Any], name: str, absent: Any) -> Any:
        given = row.get(name)
        if isinstance(given, str):
            return strings.setdefault(given, len(strings))
        return absent if given is None else given + origin_ns if name in _TIMES and given != NONE else given

    used = {name for row in rows for name in row}
    types = {item.name: item.metadata["absent"] for item in fields(kind) if item.name in used}
    columns = {
        name: np.array([value(row, name, absent) for row in rows], absent.dtype) for name, absent in types.items()
    }
    if "parent" in columns:
        columns["depth"] = depths_of(columns["parent"])
    return kind(**columns)


def _parents(placed: Sequence[Row]) -> list[int]:
    parents = []
    stack: list[int] = []
    for index, row in enumerate(placed):
        while stack and not _encloses(placed[stack[-1]], row):
            stack.pop()
        parents.append(stack[-1] if stack else NONE)
        if row.kind == RangeKind.RANGE:
            stack.append(index)
    return parents


def _encloses(outer: Row, inner: Row) -> bool:
    """Whether `inner` began in `outer`; one that begins just where the other ends follows it."""
    if outer.thread != inner.thread or inner.start_ns < outer.start_ns:
        return False
    if inner.kind == RangeKind.RANGE:
        touches = inner.start_ns == outer.end_ns and outer.end_ns > outer.start_ns
        return inner.end_ns <= outer.end_ns and not touches
    return inner.start_ns < outer.end_ns


def _innermost(placed: Sequence[Row], thread: str | None, time_ns: int) -> int:
    found = NONE
    for index, row in enumerate(placed):
        if row.kind == RangeKind.RANGE and row.thread == thread and row.start_ns <= time_ns < row.end_ns:
            found = index
    return found


def _ranges(placed: Sequence[Row], number: dict[str, int]) -> list[dict[str, Any]]:
    same = ("kind", "source", "start_ns", "end_ns", "name", "domain", "category", "colour", "is_open")
    return [
        {name: getattr(row, name) for name in same}
        | {"thread": number[row.thread], "end_thread": number[row.end_thread or row.thread], "parent": parent}
        | dict(zip(("payload_type", "payload"), payload_bits(row.payload)))
        | dict(zip(RANGE_COUNTERS, row.faults))
        for row, parent in zip(placed, _parents(placed))
    ]


def _allocations(given: Sequence[Alloc], placed: Sequence[Row], number: dict[str, int]) -> list[dict[str, Any]]:
    rows = []
    for place, each in enumerate(sorted(given, key=lambda alloc: alloc.time_ns)):
        row = {name: getattr(each, name) for name in ("time_ns", "call", "bytes", "free_time_ns", "is_part")}
        row |= {"address": each.address or (place + 1) << 32, "thread": number[each.thread]}
        row |= {"range": _innermost(placed, each.thread, each.time_ns), "free_thread": NONE, "free_range": NONE}
        if each.free_time_ns is not None and each.is_free_known:
            freer = each.free_thread or each.thread
            row |= {"free_thread": number[freer], "free_range": _innermost(placed, freer, each.free_time_ns)}
        rows.append(row)
    return rows


def _threads(groups: list[list[str]], placed: Sequence[Row], span_ns: tuple[int, int]) -> list[dict[str, Any]]:
    rows = []
    for process, group in enumerate(groups):
        for index, name in enumerate(group):
            times = [time for row in placed if row.thread == name for time in (row.start_ns, row.end_ns)]
            start, end = span_ns if index == 0 or not times else (min(times), max(times))
            about = {"process": process, "index": index, "os_thread_id": 1000 * (process + 1) + index}
            rows.append({**about, "name": name, "start_ns": start, "end_ns": end})
    return rows


def _process(index: int, span_ns: tuple[int, int], empty_range_ns: float) -> Process:
    pid, parent_pid, command = 1000 * (index + 1), 1 if index == 0 else 1000, ("python", "program.py")
    about = {"pid": pid, "parent_pid": 1, "command": list(command), "clock": "tsc"}
    return Process(
        pid,
        parent_pid=parent_pid,
        command=command,
        clock="tsc",
        start_ns=span_ns[0],
        end_ns=span_ns[1],
        empty_range_ns=empty_range_ns,
        description=about,
    )
