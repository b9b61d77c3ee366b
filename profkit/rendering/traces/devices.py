"""A whole capture as a trace: a Capture goes in, TraceContent with its ranges, calls and GPUs comes out.

Kernels, copies and sets stand on a lane per stream (more where they overlap), arrows lead from a call to what it
launched. Names of categories and arguments are those of torch.profiler.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property

import numpy as np

from profkit.attribution.grouping import titles
from profkit.attribution.kernels.names import parse_kernel
from profkit.capture.schema import NONE, Activities, ActivityKind, Calls, Capture, Column, Level, Ranges
from profkit.rendering.traces.building import Slices, TraceBuilder
from profkit.rendering.traces.content import Arrows, TraceContent, trace_content
from profkit.rendering.traces.device_counters import device_memory_counters
from profkit.rendering.traces.device_queues import Queues, gpus_of, launches_of

_ANNOTATIONS = (Level.STEP, Level.LAYER)
_ACTIVITIES = {
    ActivityKind.KERNEL: "kernel",
    ActivityKind.COPY: "gpu_memcpy",
    ActivityKind.SET: "gpu_memset",
}
_CALL_RANK = len(Level)  # of equal times a range is around a call


def capture_content(capture: Capture, flows: int = 0) -> TraceContent:
    """Everything that was recorded, with arrows for so many of the largest allocations.

    profkit's doors and CUPTI have clocks of their own, so calls stand beside the ranges of a traced program; other
    recorders have one clock, and their calls stand inside the ranges that made them.
    """
    content = trace_content(capture, flows)
    if capture.ranges.has("source"):
        made = _Addition(content, capture)
        return made.with_gpus(made.add_calls()) if capture.has_device else content
    made = _Addition(content, capture)
    return made.with_gpus(made.add_host())


class _Addition:
    """What calls and GPUs add to the trace of a capture's threads."""

    def __init__(self, content: TraceContent, capture: Capture) -> None:
        self._content = content
        self._capture = capture
        self._builder = TraceBuilder(content)
        self._text = np.array([*(self._builder.string(text) for text in capture.strings), NONE], np.int32)
        self._processes = range(len(content.processes)) or [self._builder.add_process(0, "(process not recorded)")]

    # --- The host ---

    def add_host(self) -> Column:
        """Ranges and calls, nested on the tracks of their threads. Gives the event of each call."""
        ranges, calls = self._range_slices(), self._call_slices()
        return self._placed(_both(ranges, calls), list(range(len(self._capture.threads))))[len(ranges) :]

    def add_calls(self) -> Column:
        """Calls alone, on tracks beside the threads that made them. Gives the event of each."""
        calls = self._call_slices()
        callers = set(calls.place.tolist())
        tracks = []
        for row, process in enumerate(self._capture.threads.process.tolist()):
            title = f"{self._content.tracks[row].name} (CUDA calls)"
            # A thread without calls needs no track: row 0 stands for it and stays as it is.
            tracks.append(self._builder.add_track(process, 0, title, row) if row in callers else 0)
        return self._placed(calls, tracks)

    def _placed(self, slices: Slices, tracks: list[int]) -> Column:
        """Puts slices on tracks; those of unknown threads get one of their own."""
        is_lost = slices.place == NONE
        if is_lost.any():
            lost = self._builder.add_track(self._processes[0], 0, "(thread not recorded)")
            slices = replace(slices, place=np.where(is_lost, len(tracks), slices.place))
            tracks = [*tracks, lost]
        return self._builder.add(slices, tracks)

    @cached_property
    def _titles(self) -> Column:
        """The name of each range, with its domain if it has one."""
        of_row, names = titles(self._capture, np.ones(len(self._capture.ranges), np.bool_))
        return np.array([*(self._builder.string(name) for name in names), NONE], np.int32)[of_row]

    def _range_slices(self) -> Slices:
        ranges = self._capture.ranges
        annotation, operator = self._builder.string("user_annotation"), self._builder.string("cpu_op")
        rows = np.arange(len(ranges), dtype=np.int64)
        return Slices(
            place=ranges.thread,
            start_ns=self._starts(ranges),
            end_ns=self._ends(ranges),
            name=self._titles,
            category=np.where(np.isin(ranges.level, _ANNOTATIONS), annotation, operator),
            rank=ranges.level,
            texts={"layer": self._text[ranges.layer], "phase": self._text[ranges.phase]}
            | {"Input Dims": self._text[ranges.shapes]},
            counts={"External id": rows + 1, "Sequence number": ranges.sequence},
        )

    def _call_slices(self) -> Slices:
        calls = self._capture.calls
        runtime, driver = self._builder.string("cuda_runtime"), self._builder.string("cuda_driver")
        return Slices(
            place=calls.thread,
            start_ns=self._starts(calls),
            end_ns=self._ends(calls),
            name=self._named(calls.name),
            category=np.where(calls.is_driver == 1, driver, runtime),
            rank=np.full(len(calls), _CALL_RANK, np.int8),
            counts={"External id": _external(calls.range), "correlation": calls.correlation}
            | {"error": np.where(calls.return_code > 0, calls.return_code, NONE)},
        )

    # --- The GPUs ---

    def with_gpus(self, event_of_call: Column) -> TraceContent:
        """The content with lanes of all streams, and with arrows from the events of the calls."""
        activities = self._capture.activities
        queues = Queues(self._capture, self._processes)
        tracks = queues.add_tracks(self._builder)
        is_kernel = activities.kind == ActivityKind.KERNEL
        launch = np.where(is_kernel, np.cumsum(is_kernel) - 1, NONE)
        event = self._builder.add(self._activity_slices(queues.place, launch), tracks, nests=False)
        launched = np.flatnonzero(activities.call != NONE)
        start, end = event_of_call[activities.call[launched]], event[launched]
        order = np.lexsort((end, start))
        return self._builder.finished(
            gpus=gpus_of(self._capture),
            queues=queues.all(self._builder),
            launches=launches_of(activities, np.flatnonzero(is_kernel)),
            flows=Arrows(start[order].astype(np.int32), end[order].astype(np.int32)),
            counters=(
                *self._content.counters,
                *device_memory_counters(self._capture, self._processes),
            ),
            labels=self._labels(),
            members=_members(self._capture),
        )

    def _activity_slices(self, place: Column, launch: Column) -> Slices:
        activities = self._capture.activities
        categories = np.array([self._builder.string(_ACTIVITIES[kind]) for kind in ActivityKind], np.int32)
        ranges = self._capture.ranges
        around = activities.range
        return Slices(
            place=place,
            start_ns=self._starts(activities),
            end_ns=self._ends(activities),
            name=self._named(activities.name),
            category=categories[activities.kind],
            launch=launch,
            texts={
                name: np.append(column, NONE)[around]
                for name, column in (
                    ("operator", self._titles),
                    ("layer", self._text[ranges.layer]),
                    ("phase", self._text[ranges.phase]),
                )
            },
            counts={
                "External id": _external(around),
                "device": activities.device.astype(np.int64),
                "context": activities.context,
                "stream": activities.stream,
                "correlation": activities.correlation,
                "graph node": activities.graph_node,
                "bytes": activities.bytes,
            },
        )

    def _labels(self) -> dict[int, int]:
        """Short names of kernels for formats that keep the whole one elsewhere."""
        found: dict[int, int] = {}
        for number in np.unique(self._capture.activities.name).tolist():
            text = self._capture.text(number)
            short = parse_kernel(text).short if text else ""
            if short and short != text:
                found[int(self._text[number])] = self._builder.string(short)
        return found

    def _starts(self, table: Ranges | Calls | Activities) -> Column:
        return table.start_ns - self._capture.origin_ns

    def _ends(self, table: Ranges | Calls | Activities) -> Column:
        """Where a source has it before the start, at the start: formats know no negative durations."""
        return np.maximum(table.end_ns, table.start_ns) - self._capture.origin_ns

    def _named(self, names: Column) -> Column:
        return np.where(names == NONE, self._builder.string("(unnamed)"), self._text[names])


def _both(first: Slices, second: Slices) -> Slices:
    """Rows of one, then of the other."""

    def arguments(kind: str, dtype: type) -> dict[str, Column]:
        left, right = getattr(first, kind), getattr(second, kind)
        no_left: Column = np.full(len(first), NONE, dtype)
        no_right: Column = np.full(len(second), NONE, dtype)
        return {
            name: np.concatenate((left.get(name, no_left), right.get(name, no_right)))
            for name in dict.fromkeys((*left, *right))
        }

    names = ("place", "start_ns", "end_ns", "name", "category", "rank")
    return Slices(
        **{name: np.concatenate((getattr(first, name), getattr(second, name))) for name in names},
        texts=arguments("texts", np.int32),
        counts=arguments("counts", np.int64),
    )


def _external(ranges: Column) -> Column:
    """The id by which ranges, calls and activities of torch.profiler's traces belong together."""
    return np.where(ranges == NONE, NONE, ranges.astype(np.int64) + 1)


def _members(capture: Capture) -> tuple[tuple[str, str], ...]:
    """What tools for torch.profiler's traces look for beside the events."""
    named = {
        "id": "id",
        "name": "name",
        "compute_major": "computeMajor",
        "compute_minor": "computeMinor",
        "multiprocessors": "numSms",
        "memory_bytes": "totalGlobalMem",
    }
    devices = [
        {named[name]: value for name, value in each.known().items() if name in named} for each in capture.devices
    ]
    rank = capture.facts.get("rank")
    return (
        ("schemaVersion", "1"),
        ("deviceProperties", json.dumps(devices)),
        ("distributedInfo", json.dumps({"rank": rank if isinstance(rank, int) else 0})),
    )
