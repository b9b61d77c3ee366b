"""Traces of torch.profiler (Kineto's Chrome JSON, plain or gzip): a path in, a Capture out.

Read event by event, times exact to the nanosecond. Unusable events are counted and reported, never dropped silently.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from profkit.capture.checked_json import shortened
from profkit.capture.importers.json_stream import DamagedError, JsonStream, exact_ns
from profkit.capture.importers.kineto_fields import (
    args_of,
    copy_ends,
    correlation_and_external,
    devices_of,
    facts_of,
    identity,
    integer,
    messages_of,
    small,
    triple,
)
from profkit.capture.importers.range_levels import (
    MODULE_PREFIX,
    level_of_annotation,
    level_of_operator,
    with_hook_layers,
)
from profkit.capture.importers.unzipping import unzipped
from profkit.capture.schema import KINETO, NONE, ActivityKind, Capture, Column, Level, MemoryKind
from profkit.capture.trace_tables import LARGEST, MOST_PLACES, GrowingTable, Strings, ThreadIds, linked_capture
from profkit.errors import TraceError

EVENTS = "traceEvents"
_GPU_MEMORY = 1  # the profiler's number for CUDA in "Device Type"
MOST_STRANGE, STRANGE_SHARE = 100_000, 0.9
"""From this number of invalid events on, if they are more than this share of all so far, the file is not a trace."""
MOST_KINDS = 1000
"""Categories and phases that are counted separately."""
LONGEST_NAME = 60  # in a sentence
_INSTANT, _HOST_MEMORY = "instant", "[memory] of the host"
_UNUSED = (
    "gpu_user_annotation", "cuda_sync", "trace", "overhead", "python_function", "ac2g", "fwdbwd", "profkit", _INSTANT,
    _HOST_MEMORY,
)  # fmt: skip
"""Known categories that repeat others, or do not concern operators; they are counted in the facts."""


def read_kineto(path: str | os.PathLike[str]) -> Capture:
    """The trace; TraceError when the file is not a trace."""
    reader = _KinetoReader()
    trouble = ""
    with unzipped(path) as stream:
        try:
            for key, value in JsonStream(stream).walk(EVENTS):
                if key == EVENTS:
                    reader.add(value)
                else:
                    reader.about[key] = value
        except DamagedError as error:
            trouble = str(error)
        except OSError as error:
            raise TraceError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from None
    return reader.finished(os.fspath(path), stream.trouble or trouble)


class _KinetoReader:
    def __init__(self) -> None:
        self.about: dict[str, Any] = {}
        self._strings = Strings()
        self._places = ThreadIds()
        self._ranges = GrowingTable(
            "level", "thread", "start_ns", "end_ns", "name", "layer", "shapes", "sequence", "forward_thread"
        )
        self._arrow_begins: dict[tuple[Any, Any], int] = {}  # thread, by process and id of the arrow (fwdbwd)
        self._arrow_ends: dict[tuple[Any, Any], tuple[int, int]] = {}  # thread and time
        self._calls = GrowingTable("thread", "start_ns", "end_ns", "name", "correlation", "external", "is_driver")
        self._activities = GrowingTable(
            "kind", "device", "context", "stream", "start_ns", "end_ns", "name", "correlation", "external",
            "graph_node", "queued_ns", "bytes", "direction", "source_kind", "target_kind", "grid_x", "grid_y", "grid_z",
            "block_x", "block_y", "block_z", "registers", "dynamic_shared_bytes",
        )  # fmt: skip
        self._memory = GrowingTable("thread", "device", "time_ns", "address", "bytes", "kind")
        self._range_of: dict[int, dict[Any, int]] = {}  # by External id, which each process counts for itself
        self._events = 0
        self._strange = 0
        self._left_out: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._has_fractions = False
        self._allocator_peaks: dict[str, dict[str, int]] = {}  # by GPU, as reported by the allocator
        self._handlers: Mapping[str, Callable[[Mapping[str, Any], int, int], None]] = {
            "cpu_op": partial(self._named_range, level_of_operator),
            # As torch 1.8 wrote it, like runtime, memcpy and memset.
            "operator": partial(self._named_range, level_of_operator),
            "user_annotation": partial(self._named_range, level_of_annotation),
            "cuda_runtime": self._call,
            "runtime": self._call,
            "cuda_driver": partial(self._call, is_driver=1),
            "kernel": self._kernel,
            "gpu_memcpy": self._copy,
            "memcpy": self._copy,
            "gpu_memset": self._set,
            "memset": self._set,
        }

    def add(self, event: Any) -> None:
        self._events += 1
        if not isinstance(event, dict):
            self._left_out["no object"] += 1
            self._count_strange()
            return
        phase, category = event.get("ph"), str(event.get("cat", "")).lower()
        if phase == "X":
            handler = self._handlers.get(category)
            if handler is None and category == "python_function" and str(event.get("name")).startswith(MODULE_PREFIX):
                handler = self._module
            if handler is None:
                self._count_other(category)
                return
            times = self._times(event)
            if times is not None:
                handler(event, *times)
        elif phase == "M":
            self._name(event)
        elif phase == "i" and event.get("name") == "[memory]":
            self._allocation(event)
        elif phase in ("s", "f", "t", "i", "I"):
            if category == "fwdbwd" and (time_ns := exact_ns(event.get("ts"))) is not None:
                arrow = identity(event.get("pid")), identity(event.get("id"))
                if phase == "s":
                    self._arrow_begins[arrow] = self._thread(event)
                else:
                    self._arrow_ends[arrow] = (self._thread(event), time_ns)
            self._count_other(category or _INSTANT)
        else:
            self._count_other(f"of phase {shortened(phase)}")
            self._count_strange()

    def _count_other(self, kind: str) -> None:
        self._others[kind if kind in self._others or len(self._others) < MOST_KINDS else "others"] += 1

    def _count_strange(self) -> None:
        """DamagedError if there was hardly anything else: a small file can hold millions of such events."""
        self._strange += 1
        if self._strange >= MOST_STRANGE and self._strange > STRANGE_SHARE * self._events:
            raise DamagedError(f"{self._strange:,} of its first {self._events:,} events are not those of a trace")

    def _times(self, event: Mapping[str, Any]) -> tuple[int, int] | None:
        begin, length = event.get("ts"), event.get("dur")
        start_ns, duration_ns = exact_ns(begin), exact_ns(length)
        self._has_fractions |= type(begin) is str or type(length) is str
        if start_ns is None or duration_ns is None:
            self._left_out["without a number as time or duration"] += 1
        elif duration_ns < 0:
            self._left_out["with a negative duration"] += 1
        elif abs(start_ns) > LARGEST or duration_ns > LARGEST:
            self._left_out["with a time that is too large"] += 1
        else:
            return start_ns, start_ns + duration_ns
        return None

    def _thread(self, event: Mapping[str, Any]) -> int:
        return self._places.thread(identity(event.get("pid")), identity(event.get("tid")))

    def _range(self, event: Mapping[str, Any], start_ns: int, end_ns: int, level: Level, layer: str = "") -> None:
        args = args_of(event)
        external, shapes = integer(args, "External id"), args.get("Input Dims")
        forward = integer(args, "Fwd thread id")
        if external != NONE and level != Level.STEP:
            self._range_of.setdefault(external, {})[identity(event.get("pid"))] = len(self._ranges)
        self._ranges.append(
            level, self._thread(event), start_ns, end_ns, self._strings.number(layer or str(event.get("name", ""))),
            self._strings.number(layer) if layer else NONE,
            self._strings.number(json.dumps(shapes)) if shapes else NONE, integer(args, "Sequence number"),
            forward if forward > 0 else NONE,
        )  # fmt: skip

    def _named_range(
        self, level_of: Callable[[str], Level], event: Mapping[str, Any], start_ns: int, end_ns: int
    ) -> None:
        self._range(event, start_ns, end_ns, level_of(str(event.get("name", ""))))

    def _module(self, event: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        name = str(event["name"]).removeprefix(MODULE_PREFIX)
        self._range(event, start_ns, end_ns, Level.LAYER, name)

    def _call(self, event: Mapping[str, Any], start_ns: int, end_ns: int, is_driver: int = 0) -> None:
        name = self._strings.number(str(event.get("name", "")))
        self._calls.append(
            self._thread(event), start_ns, end_ns, name, *correlation_and_external(args_of(event)), is_driver
        )

    def _kernel(self, event: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        args = args_of(event)
        geometry = (*triple(args.get("grid")), *triple(args.get("block")))
        resources = (small(args, "registers per thread"), small(args, "shared memory"))
        self._activity(event, start_ns, end_ns, ActivityKind.KERNEL, (NONE, NONE, NONE, NONE), (*geometry, *resources))

    def _copy(self, event: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        moved = (integer(args_of(event), "bytes"), *copy_ends(str(event.get("name", ""))))
        self._activity(event, start_ns, end_ns, ActivityKind.COPY, moved)

    def _set(self, event: Mapping[str, Any], start_ns: int, end_ns: int) -> None:
        self._activity(event, start_ns, end_ns, ActivityKind.SET, (integer(args_of(event), "bytes"), NONE, NONE, NONE))

    def _activity(
        self,
        event: Mapping[str, Any],
        start_ns: int,
        end_ns: int,
        kind: ActivityKind,
        moved: tuple[int, int, int, int],
        geometry: tuple[int, ...] = (NONE,) * 8,
    ) -> None:
        args = args_of(event)
        device = small(args, "device")
        queued = integer(args, "queued")
        self._activities.append(
            kind, device if device != NONE else small(event, "pid"), integer(args, "context"),
            integer(args, "stream") if "stream" in args else integer(event, "tid"), start_ns, end_ns,
            self._strings.number(str(event.get("name", ""))), *correlation_and_external(args),
            integer(args, "graph node id"), queued if queued > 0 else NONE, *moved, *geometry,
        )  # fmt: skip

    def _allocation(self, event: Mapping[str, Any]) -> None:
        args = args_of(event)
        time_ns, size = exact_ns(event.get("ts")), args.get("Bytes")
        if time_ns is None or abs(time_ns) > LARGEST or type(size) is not int or abs(size) > LARGEST:
            self._left_out["of memory without a number as time or size"] += 1
        elif args.get("Device Type") == _GPU_MEMORY:
            address = args.get("Addr")
            address = address % (1 << 63) if type(address) is int else 0
            device = small(args, "Device Id")
            self._memory.append(self._thread(event), device, time_ns, address, size, MemoryKind.DEVICE)
            for name, kind in (("Total Allocated", "allocated"), ("Total Reserved", "reserved")):
                if (told := integer(args, name)) >= 0:
                    peaks = self._allocator_peaks.setdefault(str(device), {})
                    peaks[kind] = max(told, peaks.get(kind, 0))
        else:
            self._others[_HOST_MEMORY] += 1

    def _name(self, event: Mapping[str, Any]) -> None:
        name, pid = args_of(event).get("name"), identity(event.get("pid"))
        if max(len(self._places.process_names), len(self._places.thread_names)) > 2 * MOST_PLACES:
            self._count_strange()  # they can be of nothing in the trace
        elif event.get("name") == "process_name" and name:
            self._places.process_names[pid] = str(name)
        elif event.get("name") == "thread_name" and name:
            self._places.thread_names[pid, identity(event.get("tid"))] = str(name)

    def finished(self, path: str, trouble: str) -> Capture:
        """Every table linked; TraceError when there was nothing of a trace."""
        if not (len(self._ranges) or len(self._calls) or len(self._activities)):
            raise TraceError(self._refusal(path, trouble))
        activities = self._activities.columns()
        named = {number: next(iter(rows.values())) for number, rows in self._range_of.items() if len(rows) == 1}
        activities["range"] = np.array(
            [named.get(number, NONE) for number in activities["external"].tolist()], np.int64
        )
        activities["process"] = np.full(len(activities["kind"]), 0 if len(self._places) == 1 else NONE, np.int64)
        memory = self._memory.columns()
        memory["process"] = np.full(len(memory["bytes"]), NONE, np.int64)
        ranges = self._ranges.columns()
        ranges["forward_thread"] = self._forward_threads(ranges, ranges["forward_thread"])
        ranges = with_hook_layers(ranges, self._strings.all(), self._strings)
        tables = (ranges, self._calls.columns(), activities, memory)
        tables[1]["process"] = self._places.processes_of_threads()[tables[1]["thread"]].astype(np.int64)
        self._set_base(path, tables)
        return linked_capture(
            *tables,
            self._places,
            self._strings,
            # Starts and durations are truncated to whole microseconds, not rounded.
            slack_ns=0 if self._has_fractions else 2000,
            recorder=KINETO,
            path=path,
            devices=devices_of(self.about),
            warnings=self._warnings(trouble),
            facts=facts_of(self.about)
            | {"resolution_ns": 1 if self._has_fractions else 1000, "other_events": dict(self._others)}
            | ({"allocator_peak_bytes": self._allocator_peaks} if self._allocator_peaks else {}),
        )

    def _forward_threads(self, ranges: dict[str, Column], number: Column) -> Column:
        """For each range the row of its forward operator's thread; `number` is torch's number of it, or NONE.

        Sequence numbers are counted by each thread alone. A backward operator has torch's number of the forward thread
        ("Fwd thread id"), which appears nowhere else; an arrow (fwdbwd) shows which thread of the trace that is.
        """
        rows = np.flatnonzero(number != NONE).tolist()
        processes = self._places.processes_of_threads()
        number_at = {(int(ranges["thread"][row]), int(ranges["start_ns"][row])): int(number[row]) for row in rows}
        thread_of: dict[tuple[int, int], int] = {}  # by process and torch's number
        for arrow, end in self._arrow_ends.items():
            if end in number_at and arrow in self._arrow_begins:
                thread_of[int(processes[end[0]]), number_at[end]] = self._arrow_begins[arrow]
        found = np.full(len(number), NONE, np.int64)
        for row in rows:
            found[row] = thread_of.get((int(processes[ranges["thread"][row]]), int(number[row])), NONE)
        return found

    def _set_base(self, path: str, tables: tuple[dict[str, Any], ...]) -> None:
        base = self.about.get("baseTimeNanoseconds", 0)
        if type(base) is not int or abs(base) > LARGEST:
            raise TraceError(f"{path}: baseTimeNanoseconds must be a time in nanoseconds, not {str(base)[:40]!r}")
        for table in tables:
            for name in ("start_ns", "end_ns", "time_ns"):
                if name not in table or not len(table[name]):
                    continue
                if max(abs(int(table[name].min()) + base), abs(int(table[name].max()) + base)) > 2 * LARGEST:
                    raise TraceError(
                        f"{path}: times after baseTimeNanoseconds ({base:,}) are too large: they are damaged"
                    )
                table[name] = table[name] + base

    def _warnings(self, trouble: str) -> tuple[str, ...]:
        lines = []
        if trouble:
            lines.append(f"the file is incomplete: {trouble}; the {self._events:,} events before that were read")
        if self._left_out:
            lines.append(f"{sum(self._left_out.values()):,} events are left out: {self._reasons()}")
        odd = {name: count for name, count in self._others.items() if name not in _UNUSED and "::" not in name}
        if odd:
            named = ", ".join(
                f"{name[:LONGEST_NAME] or 'no category'} ({count:,})" for name, count in list(odd.items())[:5]
            )
            lines.append(f"{sum(odd.values()):,} events are of kinds that are in no table: {named}")
        return (*lines, *messages_of(self.about))

    def _reasons(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in self._left_out.most_common())

    def _refusal(self, path: str, trouble: str) -> str:
        if self._left_out:
            return f"{path}: no event of this trace can be used: {self._reasons()}"
        if self._events and not trouble:
            return (
                f"{path} is a Chrome trace, but none of its {self._events:,} events is of a kind that torch.profiler "
                "writes (cpu_op, user_annotation, cuda_runtime, kernel, ...): there is nothing to attribute. "
                "Perfetto (ui.perfetto.dev) shows such traces"
            )
        if trouble:
            return f"{path} cannot be read as a trace: {trouble}"
        return f"{path} is JSON without events: a trace of torch.profiler has them under {EVENTS!r}"
