"""Captures of networks made by hand, an event per line: times in ns go in, a Capture or a Run comes out.

recording_of(
    layer("conv1", 0, 90),
    op("aten::convolution", 10, 80, layer="conv1", phase="forward"),
    steps=[(0, 100)],
)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.run import Run
from profkit.capture.schema import LAYER_KINDS, Capture, Level
from profkit.ops.networks import Cifar10, Network

MAIN = "main"


@dataclass(frozen=True)
class Event:
    """One span; `values` are further columns of the recording."""

    level: Level
    name: str
    start_ns: int
    end_ns: int
    thread: str
    values: Mapping[str, Any]


def op(name: str, start_ns: int, end_ns: int, thread: str = MAIN, **values: Any) -> Event:
    """An operator; its type is its name unless given."""
    return Event(Level.OPERATOR, name, start_ns, end_ns, thread, {"type": name, **values})


def primitive(name: str, start_ns: int, end_ns: int, thread: str = MAIN, **values: Any) -> Event:
    """What an operator calls."""
    return Event(Level.PRIMITIVE, name, start_ns, end_ns, thread, {"type": name, **values})


def layer(name: str, start_ns: int, end_ns: int, thread: str = MAIN, **values: Any) -> Event:
    """A layer's Python code."""
    return Event(Level.LAYER, name, start_ns, end_ns, thread, {"layer": name, **values})


def runtime(name: str, start_ns: int, end_ns: int, thread: str = MAIN, **values: Any) -> Event:
    """The framework's own code."""
    return Event(Level.RUNTIME, name, start_ns, end_ns, thread, values)


def step(start_ns: int, end_ns: int, thread: str = MAIN) -> Event:
    """The span of a whole step, which some sources leave besides Recording.steps."""
    return Event(Level.STEP, "step", start_ns, end_ns, thread, {})


def pool(start_ns: int, end_ns: int, thread: str, owner: int | None = None, **values: Any) -> Event:
    """Work of a helper thread for the operator that stands at this place of the events."""
    return Event(Level.POOL, "pool", start_ns, end_ns, thread, {"owner": owner, **values})


def recording_of(
    *events: Event,
    steps: Sequence[tuple[int, int]] = ((0, 1000),),
    framework: str = "torch",
    source: str = "by hand",
    measures: Sequence[str] = ("time", "memory"),
    facts: Mapping[str, Any] | None = None,
) -> Capture:
    """The events as a source would leave them; threads are known by their names, `main` is thread 0."""
    log = EventLog(framework, source, *measures)
    log.facts.update(facts or {})
    for start_ns, end_ns in steps:
        log.step(start_ns, end_ns)
    names = list(dict.fromkeys([MAIN, *(event.thread for event in events)]))
    numbers = {name: log.thread(100 + place, "main" if not place else "pool", name) for place, name in enumerate(names)}
    for event in events:
        log.range(event.level, event.name, event.start_ns, event.end_ns, numbers[event.thread], **event.values)
    return log.finish()


def network_capture(*recordings: Capture, network: Network | None = None, **changes: Any) -> Run:
    """A checked run of a small CIFAR-10 network with these recordings."""
    chosen = network or Cifar10(batch=4, crop=24, filters=8)
    first = recordings[0] if recordings else None
    values: dict[str, Any] = {
        "framework": first.framework if first else "torch",
        "mode": "eager",
        "threads": 1,
        "is_training": False,
        "error": 1.5e-7,
        "tolerance": 4e-4,
        "data": "synthetic data (patterns under noise, seed 0)",
        "first_step_ns": 5000,
        "step_ns": [980, 1000, 1020, 990, 1010, 1000],
        "recorded_step_ns": {"time": (first.steps["end_ns"] - first.steps["start_ns"]).tolist()} if first else {},
        "versions": {"version": "1.2.3"},
        "environment": {"cpu": "a machine"},
    }
    kinds = {each.name: each.kind for each in chosen.layers}
    captures = [replace(each, facts={LAYER_KINDS: kinds, **each.facts}) for each in recordings]
    return Run(chosen.to_dict(), captures=captures, **{**values, **changes})
