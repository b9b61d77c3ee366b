"""What an event source saw of a network's steps: events go in one by one or as columns, a Capture comes out.

Worker side: standard library and NumPy 1.23 only. Times are CLOCK_MONOTONIC nanoseconds (time.perf_counter_ns on
Linux), whatever the clock of the source. docs/runs.md says what sources must report.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from profkit.capture.nesting import depths_of, interval_at
from profkit.capture.schema import (
    NONE,
    Capture,
    Column,
    Level,
    Losses,
    MemoryEvents,
    MemoryKind,
    Process,
    RangeKind,
    Ranges,
    Steps,
    Threads,
)

_TYPES = {item.name: item.metadata["absent"].dtype for item in fields(Ranges)}
_TEXTS = frozenset(Ranges.texts())
_DERIVED = frozenset({"kind", "end_thread", "depth"})  # follow from the others
_ALWAYS = ("level", "thread", "start_ns", "end_ns", "name", "parent", "depth", "kind", "end_thread")
_MEMORY = ("range", "time_ns", "address", "bytes")


@dataclass(frozen=True)
class EventThread:
    os_id: int
    role: str = "main"
    name: str = ""


@dataclass
class PassHeader:
    """What is said of a pass as a whole."""

    framework: str
    source: str  # record_function, kineto, xplane, stepstats, hlo, onnxruntime, scopes, theano, opencv
    measures: tuple[str, ...]  # of time, memory, primitives: what it is good for
    clock_error_ns: int = 0  # of converting the source's clock; 0: it is ours
    lost: int = 0  # records that are missing
    facts: dict[str, Any] = field(default_factory=dict)  # JSON: peak_bytes, notes, source settings


class EventLog:
    """Collects events one by one. Not for hot paths: sources that have columns call `capture_of`."""

    def __init__(self, framework: str, source: str, *measures: str) -> None:
        self.about = PassHeader(framework, source, measures)
        self._rows: list[dict[str, int]] = []
        self._strings: dict[str, int] = {}
        self._threads: dict[EventThread, int] = {}
        self._steps: list[tuple[int, int]] = []
        self._memory: list[tuple[int, int, int, int]] = []

    @property
    def facts(self) -> dict[str, Any]:
        return self.about.facts

    def step(self, start_ns: int, end_ns: int) -> int:
        """A step of the network; returns its number."""
        self._steps.append((start_ns, end_ns))
        return len(self._steps) - 1

    def steps(self, times: Iterable[tuple[int, int]]) -> None:
        self._steps += times

    def thread(self, os_id: int, role: str = "main", name: str = "") -> int:
        """The number of a thread; the same for the same id and name."""
        known = next((each for each in self._threads if (each.os_id, each.name) == (os_id, name or role)), None)
        thread = known or EventThread(os_id, role, name or role)
        return self._threads.setdefault(thread, len(self._threads))

    def range(self, level: Level, name: str, start_ns: int, end_ns: int, thread: int = 0, **values: Any) -> int:
        """Add a range; further columns of Ranges by their names, None is NONE. Returns its number."""
        given = {"level": level, "name": name, "start_ns": start_ns, "end_ns": end_ns, "thread": thread, **values}
        unknown = given.keys() - _TYPES.keys() | given.keys() & _DERIVED
        if unknown:
            raise TypeError(f"an event has no column {', '.join(sorted(unknown))}")
        known = {column: value for column, value in given.items() if value is not None}
        self._rows.append(
            {column: self._text(value) if column in _TEXTS else int(value) for column, value in known.items()}
        )
        return len(self._rows) - 1

    def memory(self, owner: int, time_ns: int, address: int, size: int) -> None:
        """Memory allocated (or, with a negative size, freed) while this range was innermost; NONE: outside all."""
        self._memory.append((owner, time_ns, address, size))

    def finish(self) -> Capture:
        """The capture; parents and steps that were not given follow from times and threads."""
        used = dict.fromkeys(column for row in self._rows for column in row)
        columns = {name: np.array([row.get(name, NONE) for row in self._rows], _TYPES[name]) for name in used}
        memory = dict(zip(_MEMORY, np.array(self._memory, np.int64).reshape(-1, 4).T))
        return capture_of(self.about, columns, self._steps, tuple(self._threads), tuple(self._strings), memory)

    def _text(self, value: Any) -> int:
        return self._strings.setdefault(str(value), len(self._strings))


def capture_of(
    about: PassHeader,
    ranges: Mapping[str, Column],
    steps: Sequence[tuple[int, int]],
    threads: Sequence[EventThread],
    strings: Sequence[str],
    memory: Mapping[str, Column],
) -> Capture:
    """Columns in any order become a Capture, in the order of its tables; parents and steps are filled in where NONE.

    `ranges` are columns of Ranges, whose `parent` and `owner` are rows as given. `memory` has range (likewise),
    time_ns, address and bytes, or nothing.
    """
    numbers = {text: number for number, text in enumerate(strings)}
    clock = np.array(steps, np.int64).reshape(-1, 2)
    ordered, row_of = _ordered(ranges, clock)
    events = _memory_events(memory, row_of)
    moments = np.concatenate([clock.ravel(), ordered.start_ns, ordered.end_ns, events.time_ns])
    start_ns, end_ns = (int(moments.min()), int(moments.max())) if len(moments) else (0, 0)
    process = Process(
        pid=os.getpid(),
        name=f"{about.framework}: {' and '.join(about.measures)} ({about.source})",
        framework=about.framework,
        start_ns=start_ns,
        end_ns=end_ns,
        clock_error_ns=float(about.clock_error_ns),
    )
    names = [numbers.setdefault(each.name, len(numbers)) if each.name else NONE for each in threads]
    roles = [numbers.setdefault(each.role, len(numbers)) if each.role else NONE for each in threads]
    return Capture(
        path="",
        strings=tuple(numbers),
        processes=(process,),
        threads=Threads(
            process=np.zeros(len(threads), np.int32),
            index=np.arange(len(threads), dtype=np.uint32),
            os_thread_id=np.array([max(each.os_id, 0) for each in threads], np.uint64),
            name=np.array(names, np.int32),
            role=np.array(roles, np.int32),
            start_ns=np.full(len(threads), start_ns, np.int64),
            end_ns=np.full(len(threads), end_ns, np.int64),
        ),
        ranges=ordered,
        steps=Steps(clock[:, 0].copy(), clock[:, 1].copy(), np.zeros(len(clock), np.int32)),
        memory_events=events,
        losses=Losses(about.lost),
        facts=about.facts,
        measures=about.measures,
        recorder=about.source,
        origin_ns=start_ns,
    )


def with_ranges(
    capture: Capture, rows: Sequence[Mapping[str, Any]], threads: Sequence[EventThread], **changes: Any
) -> Capture:
    """A pass with further ranges and all of these threads; texts of the rows may be numbers of its strings already.

    `changes` are fields of PassHeader.
    """
    strings = {text: number for number, text in enumerate(capture.strings)}

    def value(row: Mapping[str, Any], name: str) -> int:
        given = row.get(name)
        return strings.setdefault(given, len(strings)) if isinstance(given, str) else NONE if given is None else given

    before = {name: column for name, column in capture.ranges.columns().items() if name not in _DERIVED}
    columns = {}
    for name in dict.fromkeys([*before, *(name for row in rows for name in row)]):
        old = before.get(name, np.full(len(capture.ranges), NONE))
        columns[name] = np.concatenate([old, np.array([value(row, name) for row in rows], np.int64)])
    events, process = capture.memory_events, capture.processes[0]
    about = PassHeader(process.framework, capture.recorder, capture.measures, int(process.clock_error_ns))
    about = replace(about, lost=capture.losses.records, facts=dict(capture.facts))
    steps = list(zip(capture.steps.start_ns.tolist(), capture.steps.end_ns.tolist()))
    memory = {name: events[name] for name in _MEMORY}
    return capture_of(replace(about, **changes), columns, steps, threads, tuple(strings), memory)


def threads_of(capture: Capture) -> list[EventThread]:
    table = capture.threads
    rows = zip(table.os_thread_id.tolist(), capture.texts(table.role), capture.texts(table.name))
    return [EventThread(os_id, role or "", name or "") for os_id, role, name in rows]


def _ordered(given: Mapping[str, Column], steps: Column) -> tuple[Ranges, Column]:
    """The ranges in the order of a Capture, and the new row of each."""
    columns = {name: np.array(column, _TYPES[name]) for name, column in given.items()}
    rows = len(columns.get("start_ns", ()))
    if not rows:
        return Ranges(), np.zeros(0, np.int32)
    for name in ("parent", "step"):
        columns.setdefault(name, np.full(rows, NONE, np.int32))
    _fill_parents(columns)
    _fill_steps(columns, steps)
    times = (columns["level"], _generations(columns["parent"]), -columns["end_ns"], columns["start_ns"])
    order = np.lexsort((*times, columns["thread"]))
    row_of = np.empty(rows + 1, np.int32)
    row_of[order] = np.arange(rows)
    row_of[-1] = NONE  # that of NONE
    columns = {name: column[order] for name, column in columns.items()}
    for name in ("parent", "owner"):
        if name in columns:
            columns[name] = row_of[columns[name]]
    # A source whose clock is coarse may have a parent that begins after what it holds: there it has no parent.
    parent = columns["parent"]
    parent[parent >= np.arange(rows)] = NONE
    # Work of helper threads takes no part in the tree of its thread.
    kind = np.where(columns["level"] == Level.POOL, RangeKind.SPAN, RangeKind.RANGE).astype(np.uint8)
    columns |= {"kind": kind, "end_thread": columns["thread"], "depth": depths_of(parent)}
    known = {name: column for name, column in columns.items() if name in _ALWAYS or (column != NONE).any()}
    return Ranges(**known), row_of[:-1]


def _fill_parents(ranges: dict[str, Column]) -> None:
    """Set every parent that is NONE: the innermost range of the same thread that encloses this one."""
    parent = ranges["parent"]
    # At equal times the outer level comes first.
    order = np.lexsort((ranges["level"], -ranges["end_ns"], ranges["start_ns"], ranges["thread"]))
    thread, end = ranges["thread"].tolist(), ranges["end_ns"].tolist()
    start, is_pool = ranges["start_ns"].tolist(), (ranges["level"] == Level.POOL).tolist()
    open_rows: list[int] = []
    current = None
    for row in order.tolist():
        if thread[row] != current:
            open_rows, current = [], thread[row]
        while open_rows and end[open_rows[-1]] <= start[row] and not end[open_rows[-1]] == start[row] == end[row]:
            open_rows.pop()
        while open_rows and end[open_rows[-1]] < end[row]:
            open_rows.pop()  # overlaps without nesting: it has no part in this branch
        if parent[row] == NONE and open_rows:
            parent[row] = open_rows[-1]
        if not is_pool[row]:
            open_rows.append(row)


def _fill_steps(ranges: dict[str, Column], steps: Column) -> None:
    """Set every step that is NONE: the one in which the range began."""
    if not len(steps):
        return
    missing = ranges["step"] == NONE
    ranges["step"][missing] = interval_at(steps[:, 0], steps[:, 1], ranges["start_ns"])[missing]


def _generations(parent: Column) -> Column:
    """The number of ancestors of each row, in any order."""
    above, found = parent.copy(), np.zeros(len(parent), np.int32)
    for _ in range(len(parent)):  # ends at the depth of the nesting; a circle of parents is cut off
        has_more = above != NONE
        if not has_more.any():
            break
        found[has_more] += 1
        above[has_more] = parent[above[has_more]]
    return found


def _memory_events(given: Mapping[str, Column], row_of: Column) -> MemoryEvents:
    rows = len(given["time_ns"]) if given else 0
    if not rows:
        return MemoryEvents()
    order = np.argsort(given["time_ns"], kind="stable")
    return MemoryEvents(
        process=np.zeros(rows, np.int32),
        time_ns=given["time_ns"][order],
        address=given["address"][order].astype(np.uint64),
        bytes=given["bytes"][order],
        kind=np.full(rows, MemoryKind.PAGEABLE, np.int8),
        range=np.append(row_of, np.int32(NONE))[given["range"][order]],
    )
