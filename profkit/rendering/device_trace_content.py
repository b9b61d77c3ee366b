"""What GPUs did as a trace: a DeviceTrace goes in, TraceContent comes out; or its lanes are added to a capture's trace.

Host ranges and CUDA calls stand on their threads, kernels, copies and sets on a lane per stream (more where they
overlap), arrows lead from a call to what it launched. Names of categories and arguments are those of torch.profiler.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.attribution.kernel_names import parse_kernel
from profkit.capture.device_trace import ActivityKind, DeviceTrace, RangeLevel
from profkit.capture.tables import NONE, Column
from profkit.rendering.device_counters import device_memory_counters
from profkit.rendering.device_queues import Queues, gpus_of, launches_of
from profkit.rendering.trace_building import Slices, TraceBuilder
from profkit.rendering.trace_content import LAST_ID, Arrows, Events, TraceContent

_RANGES = {
    RangeLevel.STEP: "user_annotation",
    RangeLevel.LAYER: "user_annotation",
    RangeLevel.OPERATOR: "cpu_op",
    RangeLevel.RUNTIME: "cpu_op",
}
_ACTIVITIES = {
    ActivityKind.KERNEL: "kernel",
    ActivityKind.COPY: "gpu_memcpy",
    ActivityKind.SET: "gpu_memset",
}
_CALL_RANK = len(RangeLevel)  # of equal times a range is around a call


def device_trace_content(trace: DeviceTrace) -> TraceContent:
    """The trace of a foreign recording: host and GPUs, from its first moment on."""
    made = _Addition(_empty(trace), trace, trace.start_ns)
    return made.with_gpus(made.add_host())


def with_device_lanes(content: TraceContent, trace: DeviceTrace, threads: int) -> TraceContent:
    """A capture's trace with its CUDA calls beside the threads, and with its GPUs.

    Both are of the same capture: on one clock, with the same processes and so many first threads.
    """
    made = _Addition(content, trace, 0)
    return made.with_gpus(made.add_calls(threads))


def _empty(trace: DeviceTrace) -> TraceContent:
    numbers, times = np.zeros(0, np.int32), np.zeros(0, np.int64)
    base = trace.facts.get("base_unix_ns")
    return TraceContent(
        base_unix_ns=int(base) + trace.start_ns if isinstance(base, int) else 0,
        strings=["payload", "payload_bytes"],
        payload_name=0,
        payload_bytes_name=1,
        processes=(),
        tracks=(),
        events=Events(np.zeros(0, np.uint8), numbers, numbers, times, times, numbers, numbers),
        texts=[],
        counts=[],
        counters=(),
        about=_about(trace),
        members=_members(trace),
    )


class _Addition:
    """What a device trace adds to a content."""

    def __init__(self, content: TraceContent, trace: DeviceTrace, origin_ns: int) -> None:
        self._content = content
        self._trace = trace
        self._origin_ns = origin_ns
        self._builder = TraceBuilder(content)
        self._text = np.array([*(self._builder.string(text) for text in trace.strings), NONE], np.int32)
        self._process = self._rows_of_processes()

    def _rows_of_processes(self) -> list[int]:
        """The content's row of each process of the trace; at least one."""
        rows = list(range(len(self._content.processes)))
        told = self._trace.processes or ({"pid": 0, "name": "(process not recorded)"},)
        for process in told[len(rows) :]:
            name = str(process.get("name") or "") or f"process {process.get('pid')}"
            rows.append(self._builder.add_process(usable_id(process.get("pid")), name))
        return rows

    # --- The host ---

    def add_host(self) -> Column:
        """Ranges and calls, nested on the tracks of their threads. Gives the event of each call."""
        tracks = [
            self._builder.add_track(self._process_of(thread), usable_id(thread.get("id")), _thread_name(thread))
            for thread in self._trace.threads
        ]
        ranges, calls = self._range_slices(), self._call_slices()
        return self._placed(_both(ranges, calls), tracks)[len(ranges) :]

    def add_calls(self, threads: int) -> Column:
        """Calls alone, on tracks beside the threads that made them. Gives the event of each."""
        calls = self._call_slices()
        callers = set(calls.place.tolist())
        tracks = []
        for row, thread in enumerate(self._trace.threads):
            beside = row if row < threads else NONE
            name = _thread_name(thread) if beside == NONE else self._content.tracks[beside].name
            title = f"{name} (CUDA calls)"
            # A thread without calls needs no track: row 0 stands for it and stays as it is.
            made = self._builder.add_track(self._process_of(thread), 0, title, beside) if row in callers else 0
            tracks.append(made)
        return self._placed(calls, tracks)

    def _placed(self, slices: Slices, tracks: list[int]) -> Column:
        """Puts slices on tracks; those of unknown threads get one of their own."""
        is_lost = slices.place == NONE
        if is_lost.any():
            lost = self._builder.add_track(self._process[0], 0, "(thread not recorded)")
            slices = replace(slices, place=np.where(is_lost, len(tracks), slices.place))
            tracks = [*tracks, lost]
        return self._builder.add(slices, tracks)

    def _process_of(self, thread: Mapping[str, Any]) -> int:
        return self._process[int(thread["process"])]

    def _range_slices(self) -> Slices:
        ranges = self._trace.ranges
        categories = np.array([self._builder.string(_RANGES[level]) for level in RangeLevel], np.int32)
        rows = np.arange(len(ranges["level"]), dtype=np.int64)
        return Slices(
            place=ranges["thread"],
            start_ns=self._starts(ranges),
            end_ns=self._ends(ranges),
            name=self._named(ranges["name"]),
            category=categories[ranges["level"]],
            rank=ranges["level"],
            texts={"layer": self._text[ranges["layer"]], "phase": self._text[ranges["phase"]]}
            | {"Input Dims": self._text[ranges["shapes"]]},
            counts={"External id": rows + 1, "Sequence number": ranges["sequence"]},
        )

    def _call_slices(self) -> Slices:
        calls = self._trace.calls
        runtime, driver = self._builder.string("cuda_runtime"), self._builder.string("cuda_driver")
        return Slices(
            place=calls["thread"],
            start_ns=self._starts(calls),
            end_ns=self._ends(calls),
            name=self._named(calls["name"]),
            category=np.where(calls["is_driver"] == 1, driver, runtime),
            rank=np.full(len(calls["thread"]), _CALL_RANK, np.int8),
            counts={"External id": _external(calls["range"]), "correlation": calls["correlation"]}
            | {"error": np.where(calls["return_code"] > 0, calls["return_code"], NONE)},
        )

    # --- The GPUs ---

    def with_gpus(self, event_of_call: Column) -> TraceContent:
        """The content with lanes of all streams, and with arrows from the events of the calls."""
        activities = self._trace.activities
        queues = Queues(self._trace, self._process)
        tracks = queues.add_tracks(self._builder)
        is_kernel = activities["kind"] == ActivityKind.KERNEL
        launch = np.where(is_kernel, np.cumsum(is_kernel) - 1, NONE)
        event = self._builder.add(self._activity_slices(queues.place, launch), tracks, nests=False)
        launched = np.flatnonzero(activities["call"] != NONE)
        start, end = event_of_call[activities["call"][launched]], event[launched]
        order = np.lexsort((end, start))
        return self._builder.finished(
            gpus=gpus_of(self._trace),
            queues=queues.all(self._builder),
            launches=launches_of(activities, np.flatnonzero(is_kernel)),
            flows=Arrows(start[order].astype(np.int32), end[order].astype(np.int32)),
            counters=(
                *self._content.counters,
                *device_memory_counters(self._trace, self._process, self._origin_ns),
            ),
            labels=self._labels(),
        )

    def _activity_slices(self, place: Column, launch: Column) -> Slices:
        activities = self._trace.activities
        categories = np.array([self._builder.string(_ACTIVITIES[kind]) for kind in ActivityKind], np.int32)
        ranges = self._trace.ranges
        around = activities["range"]
        return Slices(
            place=place,
            start_ns=self._starts(activities),
            end_ns=self._ends(activities),
            name=self._named(activities["name"]),
            category=categories[activities["kind"]],
            launch=launch,
            texts={
                name: self._text[np.append(ranges[column], NONE)[around]]
                for name, column in (("operator", "name"), ("layer", "layer"), ("phase", "phase"))
            },
            counts={
                "External id": _external(around),
                "device": activities["device"].astype(np.int64),
                "context": activities["context"],
                "stream": activities["stream"],
                "correlation": activities["correlation"],
                "graph node": activities["graph_node"],
                "bytes": activities["bytes"],
            },
        )

    def _labels(self) -> dict[int, int]:
        """Short names of kernels for formats that keep the whole one elsewhere."""
        found: dict[int, int] = {}
        for number in np.unique(self._trace.activities["name"]).tolist():
            text = self._trace.text(number)
            short = parse_kernel(text).short if text else ""
            if short and short != text:
                found[int(self._text[number])] = self._builder.string(short)
        return found

    def _starts(self, table: Mapping[str, Column]) -> Column:
        return table["start_ns"] - self._origin_ns

    def _ends(self, table: Mapping[str, Column]) -> Column:
        """Where a source has it before the start, at the start: formats know no negative durations."""
        return np.maximum(table["end_ns"], table["start_ns"]) - self._origin_ns

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


def usable_id(value: Any) -> int:
    """A process or thread id as a number; 0 where the source has another name for it."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        return 0
    return number if 0 < number < LAST_ID else 0


def _thread_name(thread: Mapping[str, Any]) -> str:
    return str(thread.get("name") or "") or f"thread {thread.get('id')}"


def _about(trace: DeviceTrace) -> tuple[tuple[str, str], ...]:
    from profkit import __version__

    told = [
        ("trace", trace.path),
        ("recorded by", trace.source),
        ("exported by", f"profkit {__version__}"),
        ("records lost", str(trace.dropped)),
    ]
    told += [(name, str(value)) for name, value in trace.facts.items() if isinstance(value, (str, int, float))]
    told += [(f"warning {number}", text) for number, text in enumerate(trace.warnings, 1)]
    return tuple(told)


def _members(trace: DeviceTrace) -> tuple[tuple[str, str], ...]:
    """What tools for torch.profiler's traces look for beside the events."""
    devices = [
        {
            "id": device.get("id"),
            "name": device.get("name"),
            "computeMajor": device.get("compute_major"),
            "computeMinor": device.get("compute_minor"),
            "numSms": device.get("multiprocessors"),
            "totalGlobalMem": device.get("memory_bytes"),
        }
        for device in trace.devices
    ]
    rank = trace.facts.get("rank")
    return (
        ("schemaVersion", "1"),
        ("deviceProperties", json.dumps([{k: v for k, v in each.items() if v is not None} for each in devices])),
        ("distributedInfo", json.dumps({"rank": rank if isinstance(rank, int) else 0})),
    )
