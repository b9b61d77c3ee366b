"""Steps under tf.profiler: the profile read without xprof, its threads, the spans that graph and eager runs share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import EXACT, HOST, NONE, Level
from profkit.frameworks.events.xplane import (
    Profiled,
    RealtimeClock,
    ThreadLine,
    TimeInterval,
    XplaneEvent,
    profiled_steps,
    recorded_levels,
)
from profkit.frameworks.lazy import tf
from profkit.frameworks.tensorflow.pool import EXECUTOR, STOP, pool_regions

STEP = "profkit step"
"""Our own mark around every step: it finds the calling thread, and shows that the clocks agree."""
_HOST = "/host:CPU"
_RUNTIME = ("EagerExecute", "SessionRun", *EXECUTOR)
_POOL_COLUMNS = ("name", "type", "implementation", "layer", "phase", "quality")
"""What the tasks of an operator have of it."""
POOL_NOTE = (
    "pool CPU time is the time between begin and end of tasks on pool threads, but not after the end of their "
    "operator; preemption before that counts as work"
)
Operator = tuple[XplaneEvent, Mapping[str, Any]]
"""Its event, and its columns, `name` among them."""


class HostProfile:
    """The events of the host's threads within the steps."""

    def __init__(self, log: EventLog, profiled: Profiled) -> None:
        self.log = log
        steps, space, clock = profiled
        log.steps(steps)
        log.about.clock_error_ns = clock.error_ns
        host = [event for event in space.events if event.plane == _HOST]
        marks = sorted((event for event in host if event.name == STEP), key=lambda each: each.start_ns)
        self.events = _within(host, steps)
        self.main = marks[0].thread if marks else ("", 0)
        self._rows: dict[ThreadLine, int] = {}
        log.facts.update(
            notes=[*_clock_notes(marks, steps, clock), *space.warnings],
            profiler_levels=recorded_levels(space),
        )

    def add(self, level: Level, event: XplaneEvent, columns: Mapping[str, Any]) -> int:
        """A span of this event; `name` is among the columns."""
        thread = self._thread(event.thread)
        return self.log.range(level, start_ns=event.start_ns, end_ns=event.end_ns, thread=thread, **columns)

    def _thread(self, line: ThreadLine) -> int:
        """TensorFlow's own threads get short names and no id of the system: the profile has none."""
        if line not in self._rows:
            if line == self.main:
                self._rows[line] = self.log.thread(threading.get_native_id(), "main")
            else:
                pool = _pool_of(line)
                role = "executor" if pool == "Compute" else "pool"
                number = 1 + sum(_pool_of(each) == pool and "/" in each[0] for each in self._rows)
                self._rows[line] = self.log.thread(NONE, role, f"{pool} {number}")
        return self._rows[line]

    def add_runtime(self) -> None:
        """TensorFlow's own code: the eager runtime on the calling thread, the executor on its own."""
        for event in self.events:
            if event.name in _RUNTIME:
                self.add(Level.RUNTIME, event, {"name": event.name, "phase": HOST, "quality": EXACT})

    def add_operators(self, operators: Sequence[Operator]) -> dict[int, int]:
        """Operators, and what pool threads did for them; the operators' spans by the identity of their events."""
        regions = pool_regions(self.events, [event for event, _ in operators])
        helped: Counter[int] = Counter()
        for region in regions:
            helped[id(region.owner)] += region.end_ns - region.start_ns
        rows, known = {}, {}
        for event, columns in operators:
            rows[id(event)] = self.add(Level.OPERATOR, event, {"pool_cpu_ns": helped[id(event)], **columns})
            known[id(event)] = {name: columns[name] for name in _POOL_COLUMNS if name in columns}
        linked = unlinked = after = 0
        for region in regions:
            duration, owner = region.end_ns - region.start_ns, rows.get(id(region.owner))
            about = {"name": "task", **known.get(id(region.owner), {}), "owner": owner}
            self.log.range(
                Level.POOL, start_ns=region.start_ns, end_ns=region.end_ns, thread=self._thread(region.line), **about
            )
            linked, unlinked = (linked + duration, unlinked) if owner is not None else (linked, unlinked + duration)
            after += region.after_ns
        self.log.facts["pool"] = {"linked_ns": linked, "unlinked_ns": unlinked, "after_operators_ns": after}
        if linked or unlinked:
            self.log.facts["notes"].append(POOL_NOTE)
        return rows


def _pool_of(line: ThreadLine) -> str:
    return line[0].partition("/")[0].removeprefix("tf_")


def profile_steps(log: EventLog, step: Callable[[], Any], steps: int) -> HostProfile:
    """Run the steps under the profiler, each marked."""
    return HostProfile(log, profile_marked(step, steps))


def profile_marked(step: Callable[[], Any], steps: int) -> Profiled:
    """Steps with a mark around each."""
    profiler = tf.profiler.experimental

    def marked() -> None:
        with profiler.Trace(STEP):
            step()

    return profiled_steps("TensorFlow", profiler.start, profiler.stop, step, steps, marked)


def _within(events: Iterable[XplaneEvent], steps: Sequence[TimeInterval]) -> list[XplaneEvent]:
    """Events that begin in a step, in order of time, outer ones first; and the ends of tasks, which may be later."""
    ordered = sorted(events, key=lambda each: (each.start_ns, -each.end_ns))
    kept: list[XplaneEvent] = []
    place = 0
    for event in ordered:
        while place < len(steps) and event.start_ns >= steps[place][1]:
            place += 1
        if event.name == STOP or (place < len(steps) and event.start_ns >= steps[place][0]):
            kept.append(event)
    return kept


def _clock_notes(marks: Sequence[XplaneEvent], steps: Sequence[TimeInterval], clock: RealtimeClock) -> list[str]:
    """Each mark must be between profkit's clock readings around it."""
    if len(marks) != len(steps):
        return [f"{len(steps)} steps were marked, {len(marks)} marks are in the profile: it may be incomplete"]
    outside = sum(
        mark.start_ns < begin - clock.error_ns or mark.end_ns > end + clock.error_ns
        for mark, (begin, end) in zip(marks, steps)
    )
    if not outside:
        return []
    return [
        f"the marks of {outside} of {len(steps)} steps are outside profkit's clock readings: the wall clock was set"
    ]
