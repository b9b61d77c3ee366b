"""Captures of networks as traces: a NetworkCapture goes in, TraceContent comes out.

One process per recording; its first track shows steps, phases and layers, the others the framework's threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from profkit import _core
from profkit.attribution.networks.operators import operators_in
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.recording import AGGREGATE, EXACT, Recording
from profkit.capture.schema import NONE, Column, Level, RangeKind
from profkit.rendering.traces.content import FIRST_FREE_ID, SLICE, Events, TraceContent, TraceProcess, Track, unused_id
from profkit.rendering.traces.counters import Counter
from profkit.rendering.traces.network_memory_counters import memory_counters
from profkit.rendering.traces.network_outline import outline

OUTLINE = "steps, phases, layers"
PLACED = "placed"
"""In the category of what was not observed one by one: the source knew sums only, and put them one after another."""
_COUNTS = (
    "step",
    "requested_bytes",
    "temporary_bytes",
    "peak_bytes",
    "live_bytes",
    "output_bytes",
    "pool_cpu_ns",
    "sequence",
)
_OWN_TEXTS = ("type", "layer", "phase", "implementation", "fused", "shapes", "quality")
_TEXTS = ("kind", *_OWN_TEXTS)
_LANES = 1000  # ranks between two threads, for the lanes of the first
_Table = dict[str, Column]


def network_trace(capture: NetworkCapture) -> TraceContent:
    """All recordings on their common clock, from the first moment of any."""
    strings = _Strings()
    origin_ns = min((_first_moment(each) for each in capture.recordings), default=0)
    tables = [_table(0)]
    processes: list[TraceProcess] = []
    counters: list[Counter] = []
    tracks = _Tracks()
    for number, recording in enumerate(capture.recordings):
        processes.append(TraceProcess(tracks.next_id(), process_name(capture, recording), ()))
        tables.append(_outline_table(recording, strings, len(tracks.all)))
        tracks.add(number, 0, OUTLINE)
        tables.append(_span_table(recording, operators_in(capture, recording).span_kinds(), strings, len(tracks.all)))
        for thread in recording.threads:
            tracks.add(number, int(thread["id"]), _thread_name(thread))
        counters += memory_counters(recording, number, origin_ns)
    table = _joined(tables, origin_ns)
    texts = [(strings.add(name), table[name]) for name in _TEXTS if np.any(table[name] != NONE)]
    counts = [(strings.add(name), table[name]) for name in _COUNTS if np.any(table[name] != NONE)]
    return TraceContent(
        base_unix_ns=0,  # the time of day is not recorded
        payload_name=strings.add("payload"),
        payload_bytes_name=strings.add("payload_bytes"),
        processes=tuple(processes),
        events=_events(table, tracks),
        tracks=tuple(tracks.all),
        texts=texts,
        counts=counts,
        counters=tuple(counters),
        about=_about(capture),
        strings=strings.all,
    )


def process_name(capture: NetworkCapture, recording: Recording) -> str:
    """`torch eager: time and memory (record_function)`."""
    return f"{recording.framework} {capture.mode}: {' and '.join(recording.measures)} ({recording.source})"


class _Strings:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def add(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self.all))
        if number == len(self.all):
            self.all.append(text)
        return number

    def column(self, recording: Recording, name: str) -> Column:
        """A column of text of a recording, renumbered."""
        numbers = np.array([*(self.add(text) for text in recording.strings), NONE], np.int32)
        return numbers[recording.spans[name]]  # -1 is the last one: none


class _Tracks:
    """Threads in order; lanes behind them."""

    def __init__(self) -> None:
        self.all: list[Track] = []
        self._free = count(FIRST_FREE_ID)
        self._taken: set[int] = set()

    def next_id(self) -> int:
        """A process id that no system gives: what the recordings' processes had is not known."""
        return unused_id(0, self._taken, self._free)

    def add(self, process: int, os_id: int, name: str) -> None:
        tid = unused_id(os_id, self._taken, self._free)
        self.all.append(Track(process, tid, name, len(self.all) * _LANES))

    def add_lanes(self, lanes_of_thread: Sequence[int]) -> None:
        for thread, lanes in enumerate(lanes_of_thread):
            for place in range(1, lanes + 1):
                beside = self.all[thread]
                name = f"{beside.name} (overlapping {place})"
                tid = unused_id(0, self._taken, self._free)
                self.all.append(Track(beside.process, tid, name, beside.rank + place, thread))


def _table(rows: int) -> _Table:
    """Columns of events, all unknown."""
    numbers = ("track", "rank", "parent", "name", "category", *_TEXTS)
    columns: _Table = {name: np.full(rows, NONE, np.int32) for name in numbers}
    return columns | {name: np.full(rows, NONE, np.int64) for name in ("start_ns", "end_ns", *_COUNTS)}


def _outline_table(recording: Recording, strings: _Strings, track: int) -> _Table:
    slices = outline(recording)
    table = _table(len(slices))
    table["track"][:] = track
    table["rank"][:] = [made.depth for made in slices]
    table["name"][:] = [strings.add(made.name) for made in slices]
    table["category"][:] = strings.add("outline")
    table["start_ns"][:] = [made.start_ns for made in slices]
    table["end_ns"][:] = [made.end_ns for made in slices]
    return table


def _span_table(recording: Recording, kinds: Sequence[str | None], strings: _Strings, first_track: int) -> _Table:
    spans = recording.spans
    table = _table(len(recording))
    table["track"][:] = first_track + spans["thread"]
    table["rank"][:] = spans["level"]
    table["start_ns"][:] = spans["start_ns"]
    table["end_ns"][:] = np.maximum(spans["end_ns"], spans["start_ns"])
    for name in ("name", *_OWN_TEXTS):
        table[name] = strings.column(recording, name)
    table["kind"][:] = [NONE if kind is None else strings.add(kind) for kind in kinds]
    table["name"][table["name"] == NONE] = strings.add("(unnamed)")
    for name in _COUNTS:
        table[name][:] = spans[name]
    levels = np.array([strings.add(level.name.lower()) for level in Level], np.int32)
    placed = np.array([strings.add(f"{level.name.lower()},{PLACED}") for level in Level], np.int32)
    is_placed = table["quality"] == strings.add(AGGREGATE)
    table["category"] = np.where(is_placed, placed[spans["level"]], levels[spans["level"]]).astype(np.int32)
    table["quality"][table["quality"] == strings.add(EXACT)] = NONE  # the usual: only its absence is worth a line
    return table


def _joined(tables: Sequence[_Table], origin_ns: int) -> _Table:
    """One table in the order that traces need: by track, then by begin, what encloses first."""
    table = {name: np.concatenate([part[name] for part in tables]) for name in tables[0]}
    order = np.lexsort((table["rank"], -table["end_ns"], table["start_ns"], table["track"]))
    table = {name: column[order] for name, column in table.items()}
    for name in ("start_ns", "end_ns"):
        table[name] -= origin_ns
    return table


def _events(table: _Table, tracks: _Tracks) -> Events:
    """Slices; what overlaps others of its thread without lying in them stands in a lane beside it."""
    kinds = np.full(len(table["track"]), RangeKind.RANGE, np.uint8)
    times = (table["start_ns"], table["end_ns"])
    lane, depth, lanes_of_thread = _core.lay_out(kinds, table["track"], *times, table["parent"], len(tracks.all))
    first_lane = len(tracks.all) + np.concatenate(([0], np.cumsum(lanes_of_thread)))
    tracks.add_lanes(lanes_of_thread.tolist())
    return Events(
        shape=np.full(len(lane), SLICE, np.uint8),
        track=np.where(lane == 0, table["track"], first_lane[table["track"]] + lane - 1).astype(np.int32),
        depth=depth,
        start_ns=table["start_ns"],
        end_ns=table["end_ns"],
        name=table["name"],
        category=table["category"],
    )


def _first_moment(recording: Recording) -> int:
    columns = (recording.spans["start_ns"], recording.steps["start_ns"], recording.allocations.get("time_ns", ()))
    return min((int(np.min(column)) for column in columns if len(column)), default=0)


def _thread_name(thread: Mapping[str, Any]) -> str:
    name, role = str(thread.get("name") or ""), str(thread.get("role") or "")
    return f"{name} ({role})" if role and role not in name else name or "thread"


def _about(capture: NetworkCapture) -> tuple[tuple[str, str], ...]:
    """What a reader of the trace must know: what ran, how it was recorded, how exact it is."""
    from profkit import __version__

    network = dict(capture.network)
    told = [
        ("network", str(network.pop("network", ""))),
        ("parameters", ", ".join(f"{name} {value}" for name, value in network.items())),
        ("framework", f"{capture.framework} {capture.mode}, {capture.threads} threads"),
        ("step", "training" if capture.is_training else "inference"),
        ("versions", ", ".join(f"{name} {version}" for name, version in capture.versions.items())),
        ("data", capture.data),
        ("status", capture.status + (f": {capture.reason}" if capture.reason else "")),
        ("exported by", f"profkit {__version__}"),
    ]
    for recording in capture.recordings:
        name = process_name(capture, recording)
        told.append((f"clock error ns, {name}", str(recording.clock_error_ns)))
        told += [(f"note, {name}", str(note)) for note in recording.facts.get("notes", ())]
    told += [(f"note {number}", note) for number, note in enumerate(capture.notes, 1)]
    return tuple(told)
