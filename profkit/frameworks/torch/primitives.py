"""oneDNN's primitives and its helper threads, through the ITT door of profkit's tracer, beside torch's own events.

A capture of the tracer enters, with that of the same steps by torch; it leaves with PRIMITIVE and POOL rows. What
oneDNN itself says of its primitives, when it is asked to be verbose in a step of its own, is added to them.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from profkit.capture.event_log import EventThread, threads_of, with_ranges
from profkit.capture.schema import EXACT, NONE, Capture, Level
from profkit.frameworks.scratch import temporary_folder

T = TypeVar("T")
ANCHOR, ANCHORS = "profkit clock anchor", 20
DOMAINS = ("dnnl::primitive::execute", "dnnl::primitive::create")
_EXEC = "onednn_verbose,v1,primitive,exec,"


class IttTask(NamedTuple):
    """An ITT task, on our clock."""

    thread: int
    name: str
    """dnnl::primitive::execute:reorder"""
    start_ns: int
    end_ns: int

    @property
    def middle_ns(self) -> int:
        return (self.start_ns + self.end_ns) // 2

    @property
    def type(self) -> str:
        """dnnl::reorder; what prepares one is dnnl::create_reorder."""
        domain, _, kind = self.name.rpartition(":")
        return f"dnnl::{'create_' if domain == DOMAINS[1] else ''}{kind}"


class Tasks(NamedTuple):
    """What came through the door."""

    tasks: Sequence[IttTask]
    clock_error_ns: int
    notes: Sequence[str]


def watch_tasks(run: Callable[[], T]) -> tuple[T, Tasks]:
    """Run with the tracer's door open; without it (its library or its door is missing) the notes say why."""
    try:
        record = importlib.import_module("profkit.capture.session").record
    except ImportError as error:
        return run(), Tasks((), 0, [f"no primitives: profkit's tracer is not part of this interpreter ({error})"])
    anchors: list[tuple[int, int]] = []
    with temporary_folder("itt") as folder:
        path = os.path.join(folder, "tasks.profkit")
        with record(path, children=False) as tracing:
            closed = [str(door) for door in tracing.doors if door.name == "itt" and not door.is_open]
            anchors += _drop_anchors()
            result = run()
            anchors += _drop_anchors()
        capture = importlib.import_module("profkit.capture.reading").read(path)
    tasks, error_ns = read_tasks(capture, anchors)
    notes = [f"no primitives: the door of {text}" for text in closed] + list(capture.warnings)
    if capture.losses.records:
        notes.append(f"{capture.losses.records} records of primitives were lost")
    return result, Tasks(tasks, error_ns, notes)


def _drop_anchors() -> list[tuple[int, int]]:
    """Marks in the capture, each between two readings of our clock."""
    mark = importlib.import_module("profkit._core").mark
    anchors = []
    for _ in range(ANCHORS):
        before = time.perf_counter_ns()
        mark(ANCHOR)
        anchors.append((before, time.perf_counter_ns()))
    return anchors


def read_tasks(capture: Any, anchors: Sequence[tuple[int, int]]) -> tuple[list[IttTask], int]:
    """oneDNN's tasks of a capture, and how well their times are known."""
    ranges = capture.ranges
    titles = [capture.range_title(row) for row in range(len(ranges))]
    marks = sorted(int(ranges.start_ns[row]) for row, title in enumerate(titles) if title == ANCHOR)
    if len(marks) != len(anchors):
        return [], 0
    # The capture's clock starts with it: every anchor bounds by how much ours is ahead.
    low = max(before - mark for (before, _), mark in zip(anchors, marks))
    high = min(after - mark for (_, after), mark in zip(anchors, marks))
    ahead_ns, error_ns = (low + high) // 2, abs(high - low) // 2 + 1
    os_ids = capture.threads.os_thread_id.tolist()
    tasks = [
        IttTask(
            os_ids[int(ranges.thread[row])],
            title,
            int(ranges.start_ns[row]) + ahead_ns,
            int(ranges.end_ns[row]) + ahead_ns,
        )
        for row, title in enumerate(titles)
        if title.startswith(DOMAINS)
    ]
    return tasks, error_ns


def add_tasks(capture: Capture, found: Tasks, listed: Sequence[Primitive]) -> Capture:
    """The capture with a PRIMITIVE per task of its main thread and a POOL span per task of any other."""
    operators = _OperatorFinder(capture)
    threads = threads_of(capture)
    main_id = next(thread.os_id for thread in threads if thread.role == "main")
    numbers = {thread.os_id: number for number, thread in enumerate(threads)}
    rows: list[dict[str, Any]] = []
    for task in sorted(found.tasks, key=lambda each: each.start_ns):
        owner = operators.at(task.middle_ns)
        if task.thread not in numbers:
            numbers[task.thread] = len(threads)
            threads.append(EventThread(task.thread, "pool", f"pool {len(threads)}"))
        row = {"name": task.name, "type": task.type, "thread": numbers[task.thread], "quality": EXACT}
        row.update(start_ns=task.start_ns, end_ns=task.end_ns, **operators.place(owner))
        if task.thread == main_id:
            # Its operator encloses it; what sticks out is the clock's error.
            row.update(level=Level.PRIMITIVE, **operators.clipped(owner, task))
        else:
            row.update(level=Level.POOL, owner=owner)
        rows.append(row)
    facts = dict(capture.facts)
    facts["notes"] = [*facts.get("notes", ()), *found.notes]
    if not _add_implementations(capture, rows, listed):
        facts["notes"].append("the list of primitives of one step does not fit the steps recorded: no implementations")
    error_ns = max(int(capture.clock_error_ns), found.clock_error_ns)
    return with_ranges(capture, rows, threads, clock_error_ns=error_ns, facts=facts)


class _OperatorFinder:
    """Finds the innermost operator of the main thread at a moment."""

    def __init__(self, capture: Capture) -> None:
        ranges = self._ranges = capture.ranges
        main = next(number for number, thread in enumerate(threads_of(capture)) if thread.role == "main")
        self._rows = np.flatnonzero((ranges.level == Level.OPERATOR) & (ranges.thread == main))
        self._starts = ranges.start_ns[self._rows]

    def at(self, time_ns: int) -> int:
        """Its row; NONE between operators."""
        place = int(np.searchsorted(self._starts, time_ns, side="right")) - 1
        row = int(self._rows[place]) if place >= 0 else NONE
        while row != NONE and self._ranges["end_ns"][row] < time_ns:
            row = int(self._ranges["parent"][row])
        return row if row != NONE and self._ranges["level"][row] == Level.OPERATOR else NONE

    def place(self, row: int) -> dict[str, int]:
        """Layer and phase of an operator, as numbers of strings."""
        return {name: int(self._ranges[name][row]) if row != NONE else NONE for name in ("layer", "phase")}

    def clipped(self, row: int, task: IttTask) -> dict[str, int]:
        if row == NONE:
            return {}
        start, end = (int(self._ranges[name][row]) for name in ("start_ns", "end_ns"))
        return {"start_ns": min(max(task.start_ns, start), end), "end_ns": max(min(task.end_ns, end), start)}


def _add_implementations(capture: Capture, rows: Sequence[dict[str, Any]], listed: Sequence[Primitive]) -> bool:
    """Give each executed primitive what oneDNN said of it: the same step runs the same primitives in the same order."""
    if not listed:
        return True
    expected = [f"dnnl::{each.kind}" for each in listed]
    pairs: list[tuple[dict[str, Any], Primitive]] = []
    for begin, end in zip(capture.steps.start_ns.tolist(), capture.steps.end_ns.tolist()):
        executed = [
            row
            for row in rows
            if row["level"] == Level.PRIMITIVE and row["name"].startswith(DOMAINS[0]) and begin <= row["start_ns"] < end
        ]
        if [row["type"] for row in executed] != expected:
            return False
        pairs += zip(executed, listed)
    for row, primitive in pairs:  # once all steps fit
        row.update(implementation=primitive.implementation, shapes=primitive.shapes)
    return True


class Primitive(NamedTuple):
    """One execution, in the order in which they ran."""

    kind: str
    """convolution, reorder, inner_product"""
    implementation: str
    """jit:avx512_core"""
    shapes: str
    """Layouts of its tensors and the size of the problem: src:abcd dst:aBcd16b 4x64x16x16."""


def listed_primitives(torch: Any, step: Callable[[], Any]) -> list[Primitive]:
    """Run a step for its list of primitives; it takes longer than others, because every line is printed."""
    mkldnn = torch.backends.mkldnn
    if not hasattr(mkldnn, "verbose"):
        return []
    with tempfile.TemporaryFile("w+") as file:
        _flush()
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            with mkldnn.verbose(mkldnn.VERBOSE_ON):
                step()
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return parse_lines(file)


def parse_lines(lines: Iterable[str]) -> list[Primitive]:
    """Executions among the lines of oneDNN's log; other lines are skipped."""
    found = []
    for line in lines:
        if not line.startswith(_EXEC):
            continue
        # engine, primitive, implementation, prop_kind, memory descriptors, attributes, auxiliary, problem, time
        fields = line[len(_EXEC) :].rstrip().split(",")
        if len(fields) >= 9:
            layouts = " ".join(filter(None, map(_layout, fields[4].split())))
            found.append(Primitive(fields[1], fields[2], f"{layouts} {fields[-2]}"))
    return found


def _layout(descriptor: str) -> str:
    """src:f32:a:blocked:abcd::f0 -> src:abcd"""
    parts = descriptor.split(":")
    return f"{parts[0]}:{parts[4]}" if len(parts) > 4 and parts[4] else ""


def _flush() -> None:
    """What C and Python hold back of standard output."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
