"""What an event source saw of a network's steps, as columns. Worker side: standard library and NumPy 1.23 only.

Times are CLOCK_MONOTONIC nanoseconds (time.perf_counter_ns on Linux), whatever clock the source itself has. In every
column NONE (-1) means "not observable"; it is shown as a dash, never as 0. docs/network-captures.md has the schema
in words.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, Column, Level

_TABLES = ("spans", "steps", "allocations")
EXACT, AGGREGATE, INFERRED = "exact", "aggregate", "inferred"
"""quality: observed one by one; only sums were observed, and the source placed them one after another; derived."""

# Columns of numbers and their type; those of text hold indices into Recording.strings.
NUMBERS: Mapping[str, Any] = {
    "level": np.int8,
    "step": np.int32,  # row of Recording.steps; NONE outside
    "thread": np.int32,  # row of Recording.threads
    "start_ns": np.int64,
    "end_ns": np.int64,
    "parent": np.int32,  # the enclosing span of the same thread; filled in by SpanLog.finish
    "owner": np.int32,  # the operator that a POOL span, or a PRIMITIVE on another thread, works for; NONE: unknown
    "pool_cpu_ns": np.int64,  # CPU time of helper threads for this span, its insides included
    "sequence": np.int64,  # joins a backward operator with its forward one
    "requested_bytes": np.int64,  # allocated by this span itself, not inside it; 0: works in place
    "temporary_bytes": np.int64,  # of these: given back before the span ended
    "peak_bytes": np.int64,  # most live at once while the span was open, of what it and its insides allocated
    "live_bytes": np.int64,  # the allocator's total when the span ended
    "output_bytes": np.int64,
}
TEXTS = (
    "name",  # as the source has it
    "type",  # the framework's operator type: Conv2D, aten::addmm, MaxPool
    "layer",  # a Layer's name; NONE: not known
    "phase",  # one of PHASES
    "implementation",  # jit:avx2, the kernel's key
    "shapes",  # input shapes as text
    "fused",  # types that this one operator does together, joined by "+"
    "quality",
)
ALLOCATIONS = ("span", "time_ns", "address", "bytes")
"""Columns of Recording.allocations, all int64; bytes are negative where memory was given back."""


@dataclass(frozen=True)
class Recording:
    """One pass of a source over some steps."""

    framework: str
    source: str  # record_function, kineto, xplane, stepstats, hlo, onnxruntime, scopes, theano, opencv
    measures: tuple[str, ...]  # of time, memory, primitives: what this pass is good for
    strings: tuple[str, ...]
    spans: Mapping[str, Column]  # every name of NUMBERS and TEXTS
    steps: Mapping[str, Column]  # start_ns, end_ns: int64; the clock around each step, read outside the framework
    threads: tuple[Mapping[str, Any], ...]  # id (OS), role (main, pool, autograd, device), name
    allocations: Mapping[str, Column] = field(default_factory=dict)  # ALLOCATIONS
    clock_error_ns: int = 0  # of converting the source's clock; 0: it is ours
    facts: Mapping[str, Any] = field(default_factory=dict)  # JSON: peak_bytes, notes, lost records, source settings

    def __len__(self) -> int:
        return len(self.spans["start_ns"])

    def text(self, column: str) -> list[str | None]:
        """A column of text; None where it is not known."""
        return [None if number == NONE else self.strings[number] for number in self.spans[column].tolist()]


class SpanLog:
    """Collects spans one by one and leaves a Recording. Not for hot paths: sources with columns make one directly."""

    def __init__(self, framework: str, source: str, *measures: str) -> None:
        self._about: dict[str, Any] = {"framework": framework, "source": source, "measures": measures}
        self._numbers: dict[str, list[int]] = {name: [] for name in NUMBERS}
        self._texts: dict[str, list[int]] = {name: [] for name in TEXTS}
        self._strings: dict[str, int] = {}
        self._threads: dict[tuple[int, str], int] = {}
        self._thread_rows: list[dict[str, Any]] = []
        self._steps: list[tuple[int, int]] = []
        self._allocations: list[tuple[int, int, int, int]] = []
        self.facts: dict[str, Any] = {}
        self.clock_error_ns = 0

    def step(self, start_ns: int, end_ns: int) -> int:
        """A step of the network; returns its number."""
        self._steps.append((start_ns, end_ns))
        return len(self._steps) - 1

    def thread(self, os_id: int, role: str = "main", name: str = "") -> int:
        """The number of a thread; the same for the same id and name."""
        if (os_id, name) not in self._threads:
            self._threads[os_id, name] = len(self._thread_rows)
            self._thread_rows.append({"id": os_id, "role": role, "name": name or role})
        return self._threads[os_id, name]

    def span(self, level: Level, name: str, start_ns: int, end_ns: int, thread: int = 0, **values: Any) -> int:
        """Add a span; further columns by their names, None and what is left out is NONE. Returns its number."""
        row = {"level": int(level), "name": name, "start_ns": start_ns, "end_ns": end_ns, "thread": thread, **values}
        unknown = row.keys() - NUMBERS.keys() - set(TEXTS)
        if unknown:
            raise TypeError(f"a span has no column {', '.join(sorted(unknown))}")
        for column, numbers in self._numbers.items():
            value = row.get(column)
            numbers.append(NONE if value is None else int(value))
        for column, numbers in self._texts.items():
            text = row.get(column)
            numbers.append(NONE if text is None else self._strings.setdefault(str(text), len(self._strings)))
        return len(self._numbers["level"]) - 1

    def allocation(self, span: int, time_ns: int, address: int, size: int) -> None:
        """Memory taken (or, with a negative size, given back) while this span was innermost; NONE: outside all."""
        self._allocations.append((span, time_ns, address, size))

    def finish(self) -> Recording:
        """The columns; parents and steps that were not given follow from times and threads."""
        spans = {name: np.array(values, NUMBERS[name]) for name, values in self._numbers.items()}
        spans.update({name: np.array(values, np.int32) for name, values in self._texts.items()})
        steps = np.array(self._steps, np.int64).reshape(-1, 2)
        fill_parents(spans)
        fill_steps(spans, steps)
        allocations = np.array(self._allocations, np.int64).reshape(-1, 4)
        return Recording(
            strings=tuple(self._strings),
            spans=spans,
            steps={"start_ns": steps[:, 0].copy(), "end_ns": steps[:, 1].copy()},
            threads=tuple(self._thread_rows),
            allocations={name: allocations[:, place].copy() for place, name in enumerate(ALLOCATIONS)},
            clock_error_ns=self.clock_error_ns,
            facts=self.facts,
            **self._about,
        )


def fill_parents(spans: dict[str, Column]) -> None:
    """Set every parent that is NONE: the innermost span of the same thread that encloses this one."""
    parent = spans["parent"]
    # At equal times the outer level comes first.
    order = np.lexsort((spans["level"], -spans["end_ns"], spans["start_ns"], spans["thread"]))
    thread, end = spans["thread"].tolist(), spans["end_ns"].tolist()
    start, is_pool = spans["start_ns"].tolist(), (spans["level"] == Level.POOL).tolist()
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


def fill_steps(spans: dict[str, Column], steps: Column) -> None:
    """Set every step that is NONE: the one in which the span began."""
    if not len(steps):
        return
    found = np.searchsorted(steps[:, 0], spans["start_ns"], side="right") - 1
    inside = (found >= 0) & (spans["start_ns"] < steps[np.maximum(found, 0), 1])
    missing = spans["step"] == NONE
    spans["step"][missing] = np.where(inside, found, NONE)[missing]


def save(recording: Recording, path: str | Path) -> None:
    """Write a recording for the parent process: a zip of arrays with its facts as JSON."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        put(recording, archive, "")


def load(path: str | Path) -> Recording:
    """What `save` wrote."""
    with zipfile.ZipFile(path) as archive:
        return take(archive, "")


def put(recording: Recording, archive: zipfile.ZipFile, folder: str) -> None:
    """Write a recording into a folder of an archive; the folder's name is empty or ends in a slash."""
    about = {item.name: getattr(recording, item.name) for item in fields(Recording) if item.name not in _TABLES}
    archive.writestr(f"{folder}recording.json", json.dumps(about))
    for table in _TABLES:
        for name, column in getattr(recording, table).items():
            data = io.BytesIO()
            np.lib.format.write_array(data, np.ascontiguousarray(column), allow_pickle=False)
            archive.writestr(f"{folder}{table}/{name}.npy", data.getvalue())


def take(archive: zipfile.ZipFile, folder: str) -> Recording:
    """What `put` wrote into that folder."""
    about = json.loads(archive.read(f"{folder}recording.json"))
    tables: dict[str, dict[str, Column]] = {table: {} for table in _TABLES}
    for entry in archive.namelist():
        table, _, name = entry[len(folder) :].partition("/")
        if entry.startswith(folder) and table in tables:
            data = io.BytesIO(archive.read(entry))
            tables[table][name[: -len(".npy")]] = np.lib.format.read_array(data, allow_pickle=False)
    for name in ("measures", "strings", "threads"):
        about[name] = tuple(about[name])
    return Recording(**{**about, **tables})
