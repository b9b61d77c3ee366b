"""A profile of XLA's CPU runtime in (events of xplane.py), spans of operators, runtime and pool out.

XLA runs a program as thunks, one per instruction, on several threads at once. A thunk may hand parts of its work to the
pool and return before they are done; `ThreadpoolListener` events show which thread then worked for which.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from profkit.capture.event_log import EventLog
from profkit.capture.schema import EXACT, HOST, NONE, Level
from profkit.frameworks.events.xplane import ThreadLine, TimeInterval, XplaneEvent
from profkit.frameworks.jax.placement import Placement

_HOST_PLANE = "/host:CPU"
_PYTHON = "python"
_EXECUTE = "ThunkExecutor::Execute"
_DONE = "end: "
"""With an instruction's name: the moment at which a thunk's result is there."""
_RECORD, _START, _STOP = (f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion"))


@dataclass
class Thunk:
    """One run of one instruction, and the pieces of it that other threads did."""

    event: XplaneEvent
    line: ThreadLine
    pieces: list[tuple[ThreadLine, TimeInterval]] = field(default_factory=list)
    done: int | None = None
    """When its result was available; None: not reported."""

    def settle(self) -> None:
        """Cut pieces where all was done: a thread that leaves one later was preempted."""
        if self.done is not None:
            cut = [(line, (start, min(end, self.done))) for line, (start, end) in self.pieces]
            self.pieces = [piece for piece in cut if piece[1][0] < piece[1][1]]


@dataclass
class _OpenThunks:
    """What is open on a thread while its events are read in order of time."""

    thunk: Thunk | None = None
    thunk_end: int = 0
    region: _ThunkTask | None = None

    def go_on(self, now: int) -> None:
        """The executor runs here from now on: a task that this thread is in has done its own work."""
        if self.region and self.region.end is None:
            self.region.end = now


@dataclass
class _ThunkTask:
    """A task of the pool, and for whom it works.

    Whoever finishes the last piece of a thunk runs the thunks that waited for it, inside the same task: from then on
    the time is theirs. Behind them the task has nothing left to do (in real profiles it ends within microseconds).
    """

    start: int
    owner: Thunk | None
    end: int | None = None
    """End of the work for the owner; None while it continues."""


@dataclass
class Thunks:
    """What a profile holds of XLA's runtime."""

    thunks: list[Thunk] = field(default_factory=list)
    runtime: list[tuple[ThreadLine, XplaneEvent]] = field(default_factory=list)

    def within(self, steps: Sequence[TimeInterval]) -> Thunks:
        """What began in a step; pieces that began after the step of their thunk find nothing left to do."""
        starts = [start for start, _ in steps]

        def step_of(time_ns: int) -> int:
            place = bisect_right(starts, time_ns) - 1
            return place if place >= 0 and time_ns < steps[place][1] else NONE

        def kept(thunk: Thunk) -> Thunk:
            own = step_of(thunk.event.start_ns)
            pieces = [piece for piece in thunk.pieces if step_of(piece[1][0]) == own]
            return Thunk(thunk.event, thunk.line, pieces)

        return Thunks(
            [kept(thunk) for thunk in self.thunks if step_of(thunk.event.start_ns) != NONE],
            [(line, event) for line, event in self.runtime if step_of(event.start_ns) != NONE],
        )


def read_thunks(events: Iterable[XplaneEvent]) -> Thunks:
    """All thunks with their pieces, and the runtime's own code on every thread."""
    found = Thunks()
    threads: dict[ThreadLine, _OpenThunks] = {}
    owners: dict[int, Thunk | None] = {}
    latest: dict[str, Thunk] = {}
    host = (event for event in events if event.plane == _HOST_PLANE)
    for event in sorted(host, key=lambda each: (each.start_ns, -each.end_ns)):
        line = event.thread
        thread = threads.setdefault(line, _OpenThunks())
        if "hlo_op" in event.stats:
            thread.go_on(event.start_ns)
            thread.thunk, thread.thunk_end = Thunk(event, line), event.end_ns
            found.thunks.append(thread.thunk)
            latest[str(event.stats["hlo_op"])] = thread.thunk
        elif event.name.startswith(_DONE):
            if ended := latest.pop(event.name[len(_DONE) :], None):
                ended.done = event.start_ns
        elif event.name == _EXECUTE:
            thread.go_on(event.start_ns)
            found.runtime.append((line, event))
        elif event.name == _RECORD:
            owners[event.stats.get("_p", NONE)] = _owner(thread, event.start_ns)
        elif event.name == _START:
            thread.region = _ThunkTask(event.start_ns, owners.get(event.stats.get("_c", NONE)))
        elif event.name == _STOP:
            region, thread.region = thread.region, None
            if region and region.owner:
                end = event.start_ns if region.end is None else region.end
                region.owner.pieces.append((line, (region.start, end)))
        elif event.line == _PYTHON and event.end_ns > event.start_ns and not event.name.startswith("$"):
            found.runtime.append((line, event))
    for each in found.thunks:
        each.settle()
    return found


def _owner(thread: _OpenThunks, now: int) -> Thunk | None:
    """The owner of a task that this thread enqueues: its thunk, or the owner for which it works itself."""
    if thread.thunk and now < thread.thunk_end:
        return thread.thunk
    return thread.region.owner if thread.region and thread.region.end is None else None


def add_thunks(log: EventLog, found: Thunks, placement: Placement, main_thread_id: int) -> None:
    """Operators with what the program says about them; pieces that outlast their thunk are operator time too."""
    threads = _threads(log, found, main_thread_id)
    for line, event in found.runtime:
        log.range(Level.RUNTIME, event.name, event.start_ns, event.end_ns, threads[line], phase=HOST, quality=EXACT)
    for thunk in found.thunks:
        name = str(thunk.event.stats["hlo_op"])
        start, end = thunk.event.start_ns, thunk.event.end_ns
        columns = _columns(name, placement)
        helped = sum(stop - begin for _, (begin, stop) in thunk.pieces)
        operator = log.range(
            Level.OPERATOR, name, start, end, threads[thunk.line], pool_cpu_ns=helped, **columns
        )  # fmt: skip
        for line, (begin, stop) in thunk.pieces:
            if begin < end:
                log.range(Level.POOL, name, begin, min(stop, end), threads[line], owner=operator, **columns)
            if stop > end:
                log.range(Level.PRIMITIVE, name, max(begin, end), stop, threads[line], owner=operator, **columns)


def _columns(name: str, placement: Placement) -> dict[str, str | int | None]:
    work = placement.work(name)
    if work is None:  # of another program that the step also runs
        return {"type": re.sub(r"\.\d+$", "", name), "quality": EXACT}
    columns = ("type", "layer", "phase", "quality", "fused", "implementation", "shapes", "output_bytes")
    return {column: getattr(work, column) or None for column in columns}


def _threads(log: EventLog, found: Thunks, main_thread_id: int) -> dict[ThreadLine, int]:
    """Rows of the threads; XLA's own get short names, and no id of the system: the profile has none."""
    lines: Iterable[ThreadLine] = {line for line, _ in found.runtime}
    lines = {*lines, *(thunk.line for thunk in found.thunks)}
    lines = {*lines, *(line for thunk in found.thunks for line, _ in thunk.pieces)}
    rows: dict[ThreadLine, int] = {}
    counts: dict[str, int] = {}
    for line in sorted(lines, key=lambda each: (each[0] != _PYTHON, each)):
        if line[0] == _PYTHON and _PYTHON not in counts:
            counts[_PYTHON] = 1
            rows[line] = log.thread(main_thread_id, "main")
            continue
        pool = line[0].partition("/")[0].removeprefix("tf_")
        counts[pool] = counts.get(pool, 0) + 1
        rows[line] = log.thread(NONE, "pool", f"{pool} {counts[pool]}")
    return rows
