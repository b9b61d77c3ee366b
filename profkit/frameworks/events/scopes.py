"""Networks that profkit runs call by call: our own clock around every operator, and NumPy's allocations inside it.

Serves native, numpy, numba and (with its own clock and hook) cupy. A Program enters
(networks/layer_program.py), which hands every operation to `watch` while one is set; a Capture leaves.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from profkit.capture.event_log import EventLog
from profkit.capture.schema import EXACT, NONE, Capture, Level
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.helper_threads import cpu_clock, helper_threads, pool_notes
from profkit.frameworks.events.numpy_allocations import AllocationEvent, numpy_allocations
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import CallWatcher, LayerProgram, Operation

MEMORY_NOTE = (
    "memory: every block that NumPy allocates (weights and batch were there before), in a separate pass, "
    "whose times are not used"
)
_OF_OPERATION = ("type", "layer", "phase", "implementation", "fused")
"""What a span has of its operation."""


class RecordedCall(NamedTuple):
    operation: Operation
    start_ns: int
    end_ns: int
    pool_cpu_ns: int = NONE
    events: tuple[int, int] = (0, 0)
    """Which of the pass's allocations were made inside."""


class CallFacts(NamedTuple):
    """What is the same in every step: shapes of the inputs, and bytes of the result."""

    shapes: str
    output_bytes: int


class ScopeSource:
    """One framework whose steps are Programs."""

    def __init__(self, framework: str) -> None:
        self._framework = framework

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Time and memory apart: noting an allocation costs microseconds."""
        return [Pass("time", (TIME,)), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        log = EventLog(self._framework, "scopes", name)
        program: LayerProgram = watched.built.model
        calls: list[RecordedCall] = []
        seen: dict[str, CallFacts] = {}
        if name == TIME:
            with self.timing(log, calls, seen) as watch, _watching(program, watch):
                log.steps(watched.run(steps))
            add_spans(log, calls, seen)
        else:
            with self.allocations() as events, _watching(program, _noter(calls, seen, events)):
                log.steps(watched.run(steps))
            first = add_spans(log, calls, seen, [memory_of(_events_of(call, events)) for call in calls])
            inside = [(row, call.events, _events_of(call, events)) for row, call in enumerate(calls, first)]
            log.facts.update(peak_bytes=add_allocations(log, inside, events), held_bytes=program.held_bytes)
        return log.finish()

    @contextmanager
    def timing(self, log: EventLog, calls: list[RecordedCall], seen: dict[str, CallFacts]) -> Iterator[CallWatcher]:
        """A watch that fills `calls`. System calls that read the pool's clocks do not count as the operator's time."""
        helpers = helper_threads()
        now, pool_clock, no_clock = time.perf_counter_ns, cpu_clock(helpers), cpu_clock([])

        def watch(operation: Operation, *arguments: Any) -> Any:
            pool = pool_clock if operation.uses_threads else no_clock
            helped = pool()
            start = now()
            result = operation.run(*arguments)
            end = now()
            calls.append(RecordedCall(operation, start, end, pool() - helped))
            see(seen, operation, arguments, result)
            return result

        yield watch
        log.facts["notes"] = pool_notes(helpers)

    def allocations(self) -> AbstractContextManager[list[AllocationEvent]]:
        """A list that grows while memory is allocated and freed."""
        return numpy_allocations()


def add_summed_steps(
    log: EventLog,
    watched: SourceSubject,
    steps: int,
    runtime: str,
    operators: Callable[[], Iterable[tuple[dict[str, Any], int]]],
) -> None:
    """Steps of a framework that reports how long each operator ran in a step, not when: they follow one another.

    `operators` gives columns and nanoseconds of all that ran in the last step. What would end after the step is cut.
    """
    thread = log.thread(threading.get_native_id(), "main")
    lost_ns = 0
    for _ in range(steps):
        [(begin, end)] = watched.run(1)
        step = log.step(begin, end)
        parent = log.range(Level.RUNTIME, runtime, begin, end, thread, step=step, quality=EXACT)
        at = begin
        for columns, duration_ns in operators():
            after = min(at + duration_ns, end)
            lost_ns += at + duration_ns - after
            where: dict[str, Any] = {"start_ns": at, "end_ns": after, "thread": thread, "step": step, "parent": parent}
            log.range(Level.OPERATOR, **where, **columns)
            at = after
    log.facts.update(observes_dispatch=False)
    if lost_ns:
        log.facts["notes"].append(f"{lost_ns} ns of operators would end after their step: left out")


@contextmanager
def _watching(program: LayerProgram, watch: CallWatcher) -> Iterator[None]:
    program.watch = watch
    try:
        yield
    finally:
        program.watch = None


def _noter(calls: list[RecordedCall], seen: dict[str, CallFacts], events: list[AllocationEvent]) -> CallWatcher:
    now = time.perf_counter_ns

    def watch(operation: Operation, *arguments: Any) -> Any:
        first, start = len(events), now()
        result = operation.run(*arguments)
        calls.append(RecordedCall(operation, start, now(), events=(first, len(events))))
        see(seen, operation, arguments, result)
        return result

    return watch


def see(seen: dict[str, CallFacts], operation: Operation, arguments: Sequence[Any], result: Any) -> None:
    """Shapes, once: every step has the same."""
    if operation.name not in seen:
        shapes = ", ".join("x".join(map(str, each.shape)) for each in arguments)
        results = result if isinstance(result, tuple) else (result,)
        seen[operation.name] = CallFacts(shapes, sum(int(each.nbytes) for each in results))


def add_spans(
    log: EventLog,
    calls: Sequence[RecordedCall],
    seen: dict[str, CallFacts],
    more: Sequence[dict[str, int]] | None = None,
) -> int:
    """A span of every call; returns the number of the first."""
    thread = log.thread(threading.get_native_id(), "main")
    rows = []
    for place, call in enumerate(calls):
        operation, about = call.operation, seen[call.operation.name]._asdict() | (more[place] if more else {})
        about.update((name, getattr(operation, name) or None) for name in _OF_OPERATION)
        about.update(pool_cpu_ns=call.pool_cpu_ns, quality=EXACT)
        rows.append(log.range(Level.OPERATOR, operation.name, call.start_ns, call.end_ns, thread, **about))
    return rows[0] if rows else 0


def _events_of(call: RecordedCall, events: Sequence[AllocationEvent]) -> list[AllocationEvent]:
    """What was allocated and freed inside; a workspace that is lent to the call (address 0) is around it all."""
    lent = call.operation.workspace_bytes
    inside = list(events[slice(*call.events)])
    return [(call.start_ns, 0, lent), *inside, (call.end_ns, 0, -lent)] if lent else inside


def memory_of(events: Sequence[AllocationEvent]) -> dict[str, int]:
    """Sums over one call's own blocks."""
    mine: dict[int, int] = {}
    requested = temporary = live = peak = 0
    for _, address, size in events:
        if size > 0:
            mine[address] = size
            requested += size
            live += size
            peak = max(peak, live)
        elif address in mine:
            temporary += mine[address]
            live -= mine.pop(address)
    return {"requested_bytes": requested, "temporary_bytes": temporary, "peak_bytes": peak}


Inside = tuple[int, tuple[int, int], Sequence[AllocationEvent]]
"""A span, which events of the pass were made inside it, and these events (with a workspace that was lent to it)."""


def add_allocations(log: EventLog, inside: Sequence[Inside], events: Sequence[AllocationEvent]) -> int:
    """Fill the table from spans in their order; returns the most that was live at once."""
    rows: list[tuple[int, AllocationEvent]] = []
    done = 0
    for span, (first, last), own in inside:
        rows += [(NONE, event) for event in events[done:first]]
        rows += [(span, event) for event in own]
        done = last
    rows += [(NONE, event) for event in events[done:]]
    live = peak = 0
    for span, (time_ns, address, size) in rows:
        log.memory(span, time_ns, address, size)
        live += size
        peak = max(peak, live)
    return peak
