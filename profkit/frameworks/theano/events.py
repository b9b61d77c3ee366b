"""Theano's own clock around every operator of its virtual machine, and NumPy's allocations inside each of them.

Time: the default (C) machine sums per operator and step; the order inside a step is known, the moments are not.
Memory: the same graph on Theano's Python virtual machine, with a watch around every operator.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from profkit.capture.event_log import EventLog
from profkit.capture.schema import AGGREGATE, EXACT, Capture, Level
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.numpy_allocations import AllocationEvent, numpy_allocations
from profkit.frameworks.events.scopes import add_allocations, add_summed_steps, memory_of
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.theano.origins import OperatorOrigin, mark_of_node

CLOCK_GRAIN_NS = 1000
"""Theano's C machine reads gettimeofday."""
TIME_NOTE = (
    "Theano measures how long each operator ran in each step, not when: operators follow one another from the "
    "step's start, in the order of the compiled graph; its clock counts microseconds"
)
MEMORY_NOTE = (
    "memory: every block that NumPy allocates for Theano (weights and batch were there before), the same graph on "
    "Theano's Python machine in a separate pass, whose times are not used"
)


class TheanoCall(NamedTuple):
    """One operator that ran while recording."""

    place: int
    """In the list of nodes."""
    start_ns: int
    end_ns: int
    events: tuple[int, int]
    """Which of the pass's allocations were made inside."""


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """Apart, since the Python machine is slower, but in one process: what is timed without capture is recorded."""
    return [Pass("time", (TIME,)), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    log = EventLog("theano", "theano", name)
    return (_record_time if name == TIME else _record_memory)(log, watched, steps)


def _record_time(log: EventLog, watched: SourceSubject, steps: int) -> Capture:
    model = watched.built.model
    machine = model.function(watched.conditions.is_training).fn
    nodes = _described(machine)

    def operators() -> list[tuple[dict[str, Any], int]]:
        seconds = list(machine.call_times)
        _forget(machine)
        return [({**about, "quality": AGGREGATE}, round(1e9 * each)) for about, each in zip(nodes, seconds)]

    log.about.clock_error_ns = CLOCK_GRAIN_NS
    log.facts.update(notes=[TIME_NOTE, *_mapping_notes(machine)], **model.compile_seconds)
    with _timing(machine):
        add_summed_steps(log, watched, steps, "theano.function", operators)
    return log.finish()


def _record_memory(log: EventLog, watched: SourceSubject, steps: int) -> Capture:
    model, is_training = watched.built.model, watched.conditions.is_training
    function = model.compiled(is_training, mode=_python_mode())
    nodes = _described(function.fn)
    calls: list[TheanoCall] = []
    seen: dict[int, dict[str, Any]] = {}
    with model.using(function, is_training):
        watched.step()  # what is allocated once is not part of any step
        with numpy_allocations() as events:
            function.fn.thunks[:] = [
                _watched_thunk(place, thunk, calls, seen, events) for place, thunk in enumerate(function.fn.thunks)
            ]
            log.steps(watched.run(steps))
    thread = log.thread(threading.get_native_id(), "main")
    rows = []
    for call in calls:
        inside = events[slice(*call.events)]
        about = {**nodes[call.place], **seen[call.place], **memory_of(inside)}
        row = log.range(
            Level.OPERATOR, start_ns=call.start_ns, end_ns=call.end_ns, thread=thread, quality=EXACT, **about
        )
        rows.append((row, call.events, inside))
    log.facts.update(peak_bytes=add_allocations(log, rows, events), held_bytes=model.held_bytes)
    log.facts["notes"] = _mapping_notes(function.fn)
    return log.finish()


def _python_mode() -> Any:
    """FAST_RUN's optimisations on the machine that is written in Python and frees as the C one does."""
    vm = importlib.import_module("theano.gof.vm")
    # A callback keeps Theano from giving one variable the memory of another, which the C machine does not do either.
    linker = vm.VM_Linker(use_cloop=False, allow_gc=True, callback=lambda **_: None)
    return importlib.import_module("theano.compile.mode").Mode(linker, "fast_run")


def _watched_thunk(
    place: int, thunk: Any, calls: list[TheanoCall], seen: dict[int, dict[str, Any]], events: list[AllocationEvent]
) -> Callable[[], Any]:
    now = time.perf_counter_ns

    def run() -> Any:
        first, start = len(events), now()
        result = thunk()
        calls.append(TheanoCall(place, start, now(), (first, len(events))))
        if place not in seen:
            seen[place] = _shapes(thunk)
        return result

    # The machine asks thunks for these.
    run.lazy, run.inputs, run.outputs = thunk.lazy, thunk.inputs, thunk.outputs  # type: ignore[attr-defined]
    return run


def _shapes(thunk: Any) -> dict[str, Any]:
    inputs = [cell[0] for cell in thunk.inputs if hasattr(cell[0], "shape")]
    return {
        "shapes": ", ".join("x".join(map(str, value.shape)) or "scalar" for value in inputs),
        "output_bytes": sum(int(getattr(cell[0], "nbytes", 0)) for cell in thunk.outputs),
    }


def _described(machine: Any) -> list[dict[str, Any]]:
    """Columns of every operator of the compiled graph, in its order."""
    rows = []
    for node, thunk in zip(machine.nodes, machine.thunks):
        mark = mark_of_node(node)
        rows.append(
            {
                "name": str(node.op),
                "type": type(node.op).__name__,
                "layer": mark.origin.layer or None if mark else None,
                "phase": mark.origin.phase if mark else None,
                "implementation": "C" if hasattr(thunk, "cthunk") else "Python",
                "fused": _scalar_operations(node.op),
            }
        )
    return rows


def _scalar_operations(op: Any) -> str | None:
    """What one fused elementwise operator does."""
    graph = getattr(getattr(op, "scalar_op", None), "fgraph", None)
    if graph is None:
        return None
    return "+".join(type(node.op).__name__.lower() for node in graph.toposort())


def _mapping_notes(machine: Any) -> list[str]:
    """Operators that belong to no layer, and those that do work of several."""
    marks = [(node, mark_of_node(node)) for node in machine.nodes]
    unknown = sorted({type(node.op).__name__ for node, mark in marks if mark is None})
    notes = [f"not mapped to a layer: {', '.join(unknown)}"] if unknown else []
    fused = [
        f"{type(node.op).__name__} counted as {_words(mark.origin)} does also "
        + ", ".join(_words(origin) for origin in sorted(mark.also))
        for node, mark in marks
        if mark and mark.also
    ]
    if fused:
        notes.append(f"Theano fused work of several layers or phases, each is counted once: {'; '.join(fused)}")
    return notes


def _words(origin: OperatorOrigin) -> str:
    return f"{origin.phase} of {origin.layer or 'the loss'}"


@contextmanager
def _timing(machine: Any) -> Iterator[None]:
    _forget(machine)
    machine.time_thunks = True
    try:
        yield
    finally:
        machine.time_thunks = False
        _forget(machine)


def _forget(machine: Any) -> None:
    for place in range(len(machine.call_times)):
        machine.call_times[place], machine.call_counts[place] = 0.0, 0
