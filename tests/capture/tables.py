"""Captures as tables, made by hand without a file: a row or an allocation per line goes in, a Capture comes out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.capture.schema import (
    NONE,
    AllocationCall,
    Allocations,
    Capture,
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
    strings = _Strings()
    placed = sorted(rows, key=lambda r: (number[r.thread], r.start_ns, -r.end_ns if r.kind == RangeKind.RANGE else 0))
    parents, depths = _parents(placed)
    begin, end = span_ns or (
        0,
        max([0, *(r.end_ns for r in rows), *(a.free_time_ns or a.time_ns for a in allocations)]),
    )
    return Capture(
        path="made by hand",
        created_unix_ns=1_700_000_000_000_000_000,
        processes=tuple(_process(index, begin, end, empty_range_ns) for index in range(len(groups))),
        threads=_threads(groups, placed, strings, begin, end),
        ranges=_ranges(placed, parents, depths, number, strings),
        allocations=_allocations(allocations, placed, number),
        samples=Samples(
            np.zeros(len(samples), np.int32),
            np.array([time for time, _ in samples], np.int64),
            np.array([size for _, size in samples], np.uint64),
        ),
        losses=losses or Losses(0, 0, 0, 0, 0),
        warnings=tuple(warnings),
        strings=tuple(strings.texts),
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


class _Strings:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self._known: dict[str, int] = {}

    def index(self, text: str | None) -> int:
        if text is None:
            return NONE
        if text not in self._known:
            self._known[text] = len(self.texts)
            self.texts.append(text)
        return self._known[text]


def _parents(placed: Sequence[Row]) -> tuple[list[int], list[int]]:
    parents, depths = [], []
    stack: list[int] = []
    for index, row in enumerate(placed):
        while stack and not _encloses(placed[stack[-1]], row):
            stack.pop()
        parents.append(stack[-1] if stack else NONE)
        depths.append(len(stack))
        if row.kind == RangeKind.RANGE:
            stack.append(index)
    return parents, depths


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


def _ranges(
    placed: Sequence[Row], parents: list[int], depths: list[int], number: dict[str, int], strings: _Strings
) -> Ranges:
    payloads = [payload_bits(row.payload) for row in placed]
    columns: dict[str, tuple[Any, list[Any]]] = {
        "kind": (np.uint8, [row.kind for row in placed]),
        "source": (np.uint8, [row.source for row in placed]),
        "thread": (np.int32, [number[row.thread] for row in placed]),
        "end_thread": (np.int32, [number[row.end_thread or row.thread] for row in placed]),
        "start_ns": (np.int64, [row.start_ns for row in placed]),
        "end_ns": (np.int64, [row.end_ns for row in placed]),
        "name": (np.int32, [strings.index(row.name) for row in placed]),
        "domain": (np.int32, [strings.index(row.domain) for row in placed]),
        "category": (np.int32, [strings.index(row.category) for row in placed]),
        "colour": (np.uint32, [row.colour for row in placed]),
        "payload_type": (np.uint8, [kind for kind, _ in payloads]),
        "payload": (np.uint64, [bits for _, bits in payloads]),
        "parent": (np.int32, parents),
        "depth": (np.int32, depths),
        "is_open": (np.bool_, [row.is_open for row in placed]),
        "minor_faults": (np.int64, [row.faults[0] for row in placed]),
        "major_faults": (np.int64, [row.faults[1] for row in placed]),
        "voluntary_switches": (np.int64, [row.faults[2] for row in placed]),
        "involuntary_switches": (np.int64, [row.faults[3] for row in placed]),
    }
    return Ranges(**{name: np.array(values, dtype) for name, (dtype, values) in columns.items()})


def _allocations(given: Sequence[Alloc], placed: Sequence[Row], number: dict[str, int]) -> Allocations:
    lines = sorted(given, key=lambda a: a.time_ns)
    freed = [
        (a.free_time_ns, (a.free_thread or a.thread) if a.is_free_known and a.free_time_ns is not None else None)
        for a in lines
    ]
    columns: dict[str, tuple[Any, list[Any]]] = {
        "thread": (np.int32, [number[a.thread] for a in lines]),
        "range": (np.int32, [_innermost(placed, a.thread, a.time_ns) for a in lines]),
        "time_ns": (np.int64, [a.time_ns for a in lines]),
        "call": (np.uint8, [a.call for a in lines]),
        "address": (np.uint64, [a.address or (i + 1) << 32 for i, a in enumerate(lines)]),
        "bytes": (np.uint64, [a.bytes for a in lines]),
        "free_time_ns": (np.int64, [NONE if time is None else time for time, _ in freed]),
        "free_thread": (np.int32, [NONE if thread is None else number[thread] for _, thread in freed]),
        "free_range": (np.int32, [NONE if t is None else _innermost(placed, thread, t) for t, thread in freed]),
        "is_part": (np.bool_, [a.is_part for a in lines]),
    }
    return Allocations(**{name: np.array(values, dtype) for name, (dtype, values) in columns.items()})


def _threads(groups: list[list[str]], placed: Sequence[Row], strings: _Strings, begin: int, end: int) -> Threads:
    names = [(process, index, name) for process, group in enumerate(groups) for index, name in enumerate(group)]
    spans = []
    for _, index, name in names:
        times = [time for row in placed if row.thread == name for time in (row.start_ns, row.end_ns)]
        spans.append((begin, end) if index == 0 or not times else (min(times), max(times)))
    zeros = np.zeros(len(names), np.uint64)
    return Threads(
        process=np.array([process for process, _, _ in names], np.int32),
        index=np.array([index for _, index, _ in names], np.uint32),
        os_thread_id=np.array([1000 * (p + 1) + index for p, index, _ in names], np.uint64),
        name=np.array([strings.index(name) for _, _, name in names], np.int32),
        start_ns=np.array([start for start, _ in spans], np.int64),
        end_ns=np.array([stop for _, stop in spans], np.int64),
        small_allocations=zeros,
        small_allocated_bytes=zeros,
        unbalanced_pops=zeros,
        dropped=zeros,
    )


def _process(index: int, begin: int, end: int, empty_range_ns: float) -> Process:
    pid = 1000 * (index + 1)
    return Process(
        pid=pid,
        parent_pid=1 if index == 0 else 1000,
        command=("python", "program.py"),
        doors=(),
        clock="tsc",
        start_ns=begin,
        end_ns=end,
        has_ended=True,
        empty_range_ns=empty_range_ns,
        clock_read_ns=0.0,
        cross_core_skew_ns=-1.0,
        clock_drift_ppm=0.0,
        clock_error_ns=0.0,
        frees_of_unknown=0,
        description={"pid": pid, "parent_pid": 1, "command": ["python", "program.py"], "clock": "tsc"},
    )
