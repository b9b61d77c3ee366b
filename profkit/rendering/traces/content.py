"""What a trace file shows, the same for every format: a Capture goes in, TraceContent (columns) comes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from pathlib import PurePath

import numpy as np

from profkit import _core
from profkit.capture.schema import (
    NONE,
    PROFKIT,
    RANGE_COUNTERS,
    AllocationCall,
    Capture,
    Column,
    RangeKind,
    Ranges,
    Source,
)
from profkit.rendering.traces.counters import Counter, memory_counters

SLICE, INSTANT = 0, 1
# Ids that the kernel never gives: its largest process and thread id is 2**22.
FIRST_FREE_ID = 1 << 22
LAST_ID = (1 << 31) - 1  # of the trace formats
NAME_LENGTH = 80


@dataclass(frozen=True)
class TraceProcess:
    """A process; `pid` is unique here even if the system used it twice."""

    pid: int
    name: str
    command: tuple[str, ...]
    is_gpu: bool = False  # stands for a GPU in formats that know nothing but processes


@dataclass(frozen=True)
class Track:
    """A thread, or a lane beside it for what would overlap there."""

    process: int
    tid: int
    name: str
    rank: int
    thread: int = NONE  # of a lane: the track of its thread
    queue: int = NONE  # of a lane of a GPU: its stream


@dataclass(frozen=True)
class Events:
    """Slices and instants: in order of start within a track, parents before children."""

    shape: Column  # uint8, SLICE or INSTANT
    track: Column  # int32
    depth: Column  # int32, slices open around it in its track
    start_ns: Column  # int64
    end_ns: Column  # int64
    name: Column  # int32, index into TraceContent.strings
    category: Column  # int32, likewise; -1 none
    payload_type: Column | None = None  # uint8, PayloadType; None: no event has a payload
    payload: Column | None = None  # uint64
    flow: Column | None = None  # int32, the arrow that starts here, negative: that ends here; 0 none
    launch: Column | None = None  # int32, row of TraceContent.launches; -1: no kernel

    def __len__(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Gpu:
    """A GPU; its id is its place in TraceContent.gpus."""

    id: int
    name: str
    architecture: str
    about: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Queue:
    """A stream of a GPU, as one process uses it."""

    gpu: int
    process: int  # of the host
    name: str


@dataclass(frozen=True)
class Launches:
    """How kernels were launched: int32 columns, -1 where it is not known."""

    grid_x: Column
    grid_y: Column
    grid_z: Column
    block_x: Column
    block_y: Column
    block_z: Column
    registers: Column
    static_shared_bytes: Column
    dynamic_shared_bytes: Column


@dataclass(frozen=True)
class Arrows:
    """From calls to what they asked of a GPU: rows of the events, in order of `start`."""

    start: Column
    end: Column


@dataclass(frozen=True)
class TraceContent:
    """Everything that a trace shows. Times are ns from the start of the capture."""

    base_unix_ns: int
    strings: list[str]
    payload_name: int
    payload_bytes_name: int
    processes: tuple[TraceProcess, ...]
    tracks: tuple[Track, ...]
    events: Events
    texts: list[tuple[int, Column]]  # argument name, string of each event (-1: none)
    counts: list[tuple[int, Column]]  # argument name, number of each event (negative: none)
    counters: tuple[Counter, ...]
    about: tuple[tuple[str, str], ...]
    gpus: tuple[Gpu, ...] = ()
    queues: tuple[Queue, ...] = ()
    launches: Launches | None = None
    flows: Arrows | None = None
    labels: Column | None = None  # int32 of each string: a shorter one for slices of GPUs; -1 none
    members: tuple[tuple[str, str], ...] = ()  # of a Chrome trace's object: name, JSON

    @property
    def flow_count(self) -> int:
        """Arrows from an allocation to its release."""
        return 0 if self.events.flow is None else int(np.count_nonzero(self.events.flow > 0))


def trace_content(capture: Capture, flows: int = 0) -> TraceContent:
    """The trace of a program's ranges and memory, with arrows for so many of its largest allocations.

    Ranges that did not come through profkit's doors are left out: they stand with their calls (capture_content).
    """
    ranges = capture.ranges if capture.ranges.has("source") else Ranges()
    strings = list(capture.strings)
    end_ns = np.maximum(ranges.end_ns, ranges.start_ns)
    lane, depth, lanes_of_thread = _core.lay_out(
        ranges.kind, ranges.thread, ranges.start_ns, end_ns, ranges.parent, len(capture.threads)
    )
    processes, tracks = _tracks(capture, lanes_of_thread)
    first_lane = len(capture.threads) + np.concatenate(([0], np.cumsum(lanes_of_thread)))
    has_payload = ranges.has("payload_type") and bool(np.any(ranges.payload_type))
    events = Events(
        shape=np.where(ranges.kind == RangeKind.MARK, INSTANT, SLICE).astype(np.uint8),
        track=np.where(lane == 0, ranges.thread, first_lane[ranges.thread] + lane - 1).astype(np.int32),
        depth=depth,
        start_ns=ranges.start_ns,
        end_ns=end_ns,
        name=ranges.name,
        category=_categories(ranges, strings),
        payload_type=ranges.payload_type if has_payload else None,
        payload=ranges.payload if has_payload else None,
    )
    content = TraceContent(
        base_unix_ns=capture.created_unix_ns,
        strings=strings,
        payload_name=_add(strings, "payload"),
        payload_bytes_name=_add(strings, "payload_bytes"),
        processes=processes,
        tracks=tracks,
        events=events,
        texts=_texts(ranges, strings),
        counts=_counts(ranges, strings),
        counters=memory_counters(capture),
        about=_about(capture),
    )
    return _with_flows(content, capture, lane, flows) if flows > 0 else content


def _add(strings: list[str], text: str) -> int:
    strings.append(text)
    return len(strings) - 1


# --- Processes and tracks ---


def _tracks(capture: Capture, lanes_of_thread: Column) -> tuple[tuple[TraceProcess, ...], tuple[Track, ...]]:
    """Threads first, as many as the capture has, then their lanes."""
    free = count(FIRST_FREE_ID)
    pids: set[int] = set()
    tids: set[int] = set()
    processes = []
    for process in capture.processes:
        pid = unused_id(process.pid, pids, free)
        name = process.name or _program(process.command) or f"process {process.pid}"
        processes.append(TraceProcess(pid, name, process.command))
    threads, lanes = [], []
    rank = count()
    for row, owner in enumerate(capture.threads.process.tolist()):
        tid = int(capture.threads.os_thread_id[row])
        if tid == capture.processes[owner].pid:
            tid = processes[owner].pid  # viewers know the main thread by that
        name = _thread_name(capture, row, owner)
        threads.append(Track(owner, unused_id(tid, tids, free), name, next(rank)))
        for lane in range(1, int(lanes_of_thread[row]) + 1):
            lanes.append(Track(owner, unused_id(0, tids, free), f"{name} (spans {lane})", next(rank), row))
    return tuple(processes), tuple(threads + lanes)


def unused_id(wanted: int, taken: set[int], free: count[int]) -> int:
    """The system's id; another one if it has none, or gave it twice: viewers would merge the two."""
    is_usable = 0 < wanted < LAST_ID and wanted not in taken
    chosen = wanted if is_usable else next(number for number in free if number not in taken)
    taken.add(chosen)
    return chosen


def _program(command: Sequence[str]) -> str:
    """`python train.py --fast`: the command without the folders of its program."""
    if not command:
        return ""
    text = " ".join((PurePath(command[0]).name, *command[1:]))
    return text if len(text) <= NAME_LENGTH else text[: NAME_LENGTH - 1] + "…"


def _thread_name(capture: Capture, row: int, owner: int) -> str:
    name = capture.strings[capture.threads.name[row]] if capture.threads.name[row] != NONE else ""
    is_main = int(capture.threads.os_thread_id[row]) == capture.processes[owner].pid
    return name or ("main" if is_main else f"thread {capture.threads.os_thread_id[row] or capture.threads.index[row]}")


# --- Arguments ---


def _categories(ranges: Ranges, strings: list[str]) -> Column:
    """The door and, if given, the program's own category: `nvtx`, `nvtx,loading`."""
    width = len(strings) + 1
    key = ranges.source.astype(np.int64) * width + ranges.category + 1
    is_used = np.zeros(width * 256, np.bool_)
    is_used[key] = True
    place = np.zeros(len(is_used), np.int32)
    for used in np.flatnonzero(is_used).tolist():
        source, category = divmod(used, width)
        door = Source(source).name.lower() if source in set(Source) else f"source {source}"
        place[used] = _add(strings, f"{door},{strings[category - 1]}" if category else door)
    return place[key]


def _texts(ranges: Ranges, strings: list[str]) -> list[tuple[int, Column]]:
    found = []
    if np.any(ranges.domain != NONE):
        found.append((_add(strings, "domain"), ranges.domain))
    if np.any(ranges.colour):
        colours, place = np.unique(ranges.colour, return_inverse=True)
        ids = [NONE if c == 0 else _add(strings, f"#{c & 0xFFFFFF:06x}") for c in colours.tolist()]
        found.append((_add(strings, "colour"), np.array(ids, np.int32)[place]))
    if np.any(ranges.is_open):
        text = _add(strings, "not recorded")
        found.append((_add(strings, "end"), np.where(ranges.is_open, text, NONE).astype(np.int32)))
    elsewhere = ranges.end_thread != ranges.thread
    if np.any(elsewhere):
        text = _add(strings, "another thread")
        found.append((_add(strings, "ended by"), np.where(elsewhere, text, NONE).astype(np.int32)))
    return found


def _counts(ranges: Ranges, strings: list[str]) -> list[tuple[int, Column]]:
    recorded = [name for name in filter(ranges.has, RANGE_COUNTERS) if np.any(ranges[name] != NONE)]
    return [(_add(strings, name), ranges[name]) for name in recorded]


def _about(capture: Capture) -> tuple[tuple[str, str], ...]:
    """What a reader of the trace must know: where it comes from, how exact it is, and what is missing."""
    from profkit import __version__

    told: list[tuple[str, str]] = [("capture", capture.path), ("exported by", f"profkit {__version__}")]
    if capture.recorder != PROFKIT:
        told.append(("recorded by", capture.recorder))
    elif capture.processes:
        first = capture.processes[0]
        told += [
            ("program", " ".join(first.command)),
            ("recorded by", f"profkit {first.description.get('profkit', '(version unknown)')}"),
            ("clock", first.clock),
            ("clock error ns", f"{max(p.clock_error_ns for p in capture.processes):.0f}"),
            ("cost of an empty range ns", f"{first.empty_range_ns:.1f}"),
        ]
    told.append(("processes", str(len(capture.processes))))
    told.append(("records lost", str(capture.losses.records)))
    told += [(name, str(value)) for name, value in capture.facts.items() if isinstance(value, (str, int, float))]
    told += [(f"warning {number}", text) for number, text in enumerate(capture.warnings, 1)]
    return tuple(told)


# --- Arrows from allocation to release ---


def _with_flows(content: TraceContent, capture: Capture, lane: Column, flows: int) -> TraceContent:
    """Adds an instant for each end of an arrow. Both must lie in slices: arrows of Chrome traces bind to those."""
    taken = capture.allocations
    pairs = np.flatnonzero((taken.free_time_ns != NONE) & (taken.range != NONE) & (taken.free_range != NONE))
    pairs = pairs[(lane[taken.range[pairs]] == 0) & (lane[taken.free_range[pairs]] == 0)]
    pairs = pairs[taken.range[pairs] != taken.free_range[pairs]]
    largest = np.sort(pairs[np.argsort(-taken.bytes[pairs].astype(np.int64), kind="stable")[:flows]])
    ids = np.arange(1, len(largest) + 1, dtype=np.int32)
    names = np.full(256, _add(content.strings, "unknown"), np.int32)
    for call in AllocationCall:
        names[call] = _add(content.strings, call.name.lower())
    released = np.full(len(largest), _add(content.strings, "release"), np.int32)
    ends = _Ends(
        row=np.concatenate((taken.range[largest], taken.free_range[largest])),
        time_ns=np.concatenate((taken.time_ns[largest], taken.free_time_ns[largest])),
        name=np.concatenate((names[taken.call[largest]], released)),
        flow=np.concatenate((ids, -ids)),
        bytes=np.tile(taken.bytes[largest].astype(np.int64), 2),
    )
    return _insert(content, ends, _add(content.strings, "memory"), _add(content.strings, "bytes"))


@dataclass(frozen=True)
class _Ends:
    """Both ends of arrows, as events to be."""

    row: Column  # the slice in which it happened
    time_ns: Column
    name: Column
    flow: Column
    bytes: Column


def _insert(content: TraceContent, ends: _Ends, category: int, bytes_name: int) -> TraceContent:
    events = content.events
    order = np.argsort(ends.time_ns, kind="stable")
    ends = _Ends(**{field.name: getattr(ends, field.name)[order] for field in fields(ends)})
    track = events.track[ends.row]
    at = _places(events, ends, track)

    def put(column: Column, values: Column | int) -> Column:
        return np.insert(column, at, values)

    kinds = events.payload_type
    payloads = events.payload
    return replace(
        content,
        events=Events(
            shape=put(events.shape, INSTANT),
            track=put(events.track, track),
            depth=put(events.depth, events.depth[ends.row] + 1),
            start_ns=put(events.start_ns, ends.time_ns),
            end_ns=put(events.end_ns, ends.time_ns),
            name=put(events.name, ends.name),
            category=put(events.category, category),
            payload_type=None if kinds is None else put(kinds, 0),
            payload=None if payloads is None else put(payloads, 0),
            flow=put(np.zeros(len(events), np.int32), ends.flow),
        ),
        texts=[(name, put(values, NONE)) for name, values in content.texts],
        counts=[
            *((name, put(values, NONE)) for name, values in content.counts),
            (bytes_name, put(np.full(len(events), NONE, np.int64), ends.bytes)),
        ],
    )


def _places(events: Events, ends: _Ends, track: Column) -> Column:
    """Before which event each end belongs: after its slice, and before what began at its time or later."""
    at = ends.row.astype(np.int64) + 1
    for thread in np.unique(track).tolist():
        rows = np.flatnonzero(events.track == thread)
        mine = track == thread
        following = np.searchsorted(events.start_ns[rows], ends.time_ns[mine], side="left")
        bounded = np.append(rows, rows[-1] + 1)[following]
        at[mine] = np.maximum(at[mine], bounded)
    return at
