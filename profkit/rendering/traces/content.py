"""What a trace file shows, the same for every format: columns of events with their tracks, arguments and counters."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.capture.schema import NONE, Column

SLICE, INSTANT = 0, 1


@dataclass(frozen=True)
class TraceProcess:
    """A process; `pid` is unique here even if the system used it twice."""

    pid: int
    name: str
    command: tuple[str, ...]
    is_gpu: bool = False  # represents a GPU in formats that only have processes


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
    """From calls to the GPU work that they launched: rows of the events, in order of `start`."""

    start: Column
    end: Column


@dataclass(frozen=True)
class Counter:
    """A number over time that belongs to a process."""

    process: int
    name: str
    unit: str
    time_ns: Column
    value: Column


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
