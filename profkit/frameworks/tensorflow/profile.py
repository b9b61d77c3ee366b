"""Steps under tf.profiler: the profile read without xprof, its threads, the spans that graph and eager runs share."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import EXACT, HOST, NONE, Level
from profkit.errors import CaptureError
from profkit.frameworks.events.xplane import (
    RealtimeClock,
    Space,
    XplaneEvent,
    read_clocks,
    read_xspace,
    recorded_levels,
)
from profkit.frameworks.scratch import temporary_folder
from profkit.frameworks.tensorflow.pool import EXECUTOR, STOP, Region, ThreadLine, line_of

STEP = "profkit step"
"""Our own mark around every step: it finds the calling thread, and shows that the clocks agree."""
_HOST = "/host:CPU"
_RUNTIME = ("EagerExecute", "SessionRun", *EXECUTOR)
_SETTLE_S = 0.02
"""The executor closes its last events after it has given the result; a profile that ends at once loses them."""
POOL_NOTE = (
    "pool CPU time is the time between begin and end of tasks on pool threads, but not after the end of their "
    "operator; preemption before that counts as work"
)


class HostProfile:
    """The events of the host's threads within the steps."""

    def __init__(self, log: EventLog, space: Space, clock: RealtimeClock, steps: Sequence[tuple[int, int]]) -> None:
        self.log = log
        log.about.clock_error_ns = clock.error_ns
        host = [event for event in space.events if event.plane == _HOST]
        marks = sorted((event for event in host if event.name == STEP), key=lambda each: each.start_ns)
        self.events = _within(host, steps)
        self.main = line_of(marks[0]) if marks else ("", 0)
        self._rows: dict[ThreadLine, int] = {}
        log.facts.update(
            notes=[*_clock_notes(marks, steps, clock), *space.warnings],
            profiler_levels=recorded_levels(space),
        )

    def thread(self, event: XplaneEvent) -> int:
        """The row of an event's thread."""
        return self.thread_of(line_of(event))

    def thread_of(self, line: ThreadLine) -> int:
        """TensorFlow's own threads get short names and no id of the system: the profile has none."""
        if line not in self._rows:
            if line == self.main:
                self._rows[line] = self.log.thread(threading.get_native_id(), "main")
            else:
                pool = line[0].partition("/")[0].removeprefix("tf_")
                role = "executor" if pool == "Compute" else "pool"
                number = 1 + sum(name.startswith(f"{pool}/") for name, _ in self._short(line))
                self._rows[line] = self.log.thread(NONE, role, f"{pool} {number}")
        return self._rows[line]

    def _short(self, line: ThreadLine) -> list[ThreadLine]:
        return [(name.removeprefix("tf_"), number) for name, number in self._rows if (name, number) != line]

    def add_runtime(self) -> None:
        """TensorFlow's own code: the eager runtime on the calling thread, the executor on its own."""
        for event in self.events:
            if event.name in _RUNTIME:
                self.log.range(
                    Level.RUNTIME, event.name, event.start_ns, event.end_ns, self.thread(event), phase=HOST,
                    quality=EXACT,
                )  # fmt: skip

    def add_pool(
        self, regions: Iterable[Region], rows: dict[int, int], columns: Callable[[XplaneEvent], dict[str, Any]]
    ) -> None:
        """Tasks of pool threads; `rows` are the spans of operators by the identity of their events."""
        linked = unlinked = after = 0
        for region in regions:
            duration = region.end_ns - region.start_ns
            owner = None if region.owner is None else rows.get(id(region.owner))
            about = columns(region.owner) if region.owner is not None and owner is not None else {}
            thread = self.thread_of(region.line)
            name = about.pop("name", "task")
            self.log.range(Level.POOL, name, region.start_ns, region.end_ns, thread, owner=owner, **about)
            linked, unlinked = (linked + duration, unlinked) if owner is not None else (linked, unlinked + duration)
            after += region.after_ns
        self.log.facts["pool"] = {"linked_ns": linked, "unlinked_ns": unlinked, "after_operators_ns": after}
        if linked or unlinked:
            self.log.facts["notes"].append(POOL_NOTE)


def profile_steps(log: EventLog, step: Callable[[], Any], steps: int) -> HostProfile:
    """Run the steps under the profiler, after one that is not kept: the first fills the profiler's own buffers."""
    tf = importlib.import_module("tensorflow")
    brackets: list[tuple[int, int]] = []
    with temporary_folder("tensorflow") as folder:
        before = read_clocks()
        tf.profiler.experimental.start(folder)
        try:
            step()
            for _ in range(steps):
                begin = time.perf_counter_ns()
                with tf.profiler.experimental.Trace(STEP):
                    step()
                brackets.append((begin, time.perf_counter_ns()))
            time.sleep(_SETTLE_S)
        finally:
            tf.profiler.experimental.stop()
        clock = RealtimeClock(before, read_clocks())
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise CaptureError("TensorFlow's profiler wrote no .xplane.pb file")
        space = read_xspace(files[-1].read_bytes(), clock)
    for begin, end in brackets:
        log.step(begin, end)
    return HostProfile(log, space, clock, brackets)


def _within(events: Iterable[XplaneEvent], steps: Sequence[tuple[int, int]]) -> list[XplaneEvent]:
    """Events that begin in a step, in order of time, outer ones first; and the ends of tasks, which may lie behind."""
    ordered = sorted(events, key=lambda each: (each.start_ns, -each.end_ns))
    kept: list[XplaneEvent] = []
    place = 0
    for event in ordered:
        while place < len(steps) and event.start_ns >= steps[place][1]:
            place += 1
        if event.name == STOP or (place < len(steps) and event.start_ns >= steps[place][0]):
            kept.append(event)
    return kept


def _clock_notes(marks: Sequence[XplaneEvent], steps: Sequence[tuple[int, int]], clock: RealtimeClock) -> list[str]:
    """Each mark must lie between the readings of our clock around it."""
    if len(marks) != len(steps):
        return [f"{len(steps)} steps were marked, {len(marks)} marks are in the profile: it may be incomplete"]
    outside = sum(
        mark.start_ns < begin - clock.error_ns or mark.end_ns > end + clock.error_ns
        for mark, (begin, end) in zip(marks, steps)
    )
    if not outside:
        return []
    return [f"the marks of {outside} of {len(steps)} steps lie outside our clock's: the wall clock was set meanwhile"]
