"""Keras over TensorFlow: the tensorflow source's reading with Keras' names; bytes by TensorFlow's BFC allocator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import NONE, Capture
from profkit.frameworks.events import MEMORY, SourceSubject
from profkit.frameworks.events.layer_shares import layer_facts
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.jax.events import Profiled, record_program
from profkit.frameworks.jax.placement import Scope
from profkit.frameworks.keras.names import KerasPlacer, name_scope
from profkit.frameworks.tensorflow.eager_memory import EagerBytes, add_changes, allocator_changes
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.kernels import add_kernels, kernel_events, new_log
from profkit.frameworks.tensorflow.pool import ThreadLine, line_of
from profkit.frameworks.tensorflow.profile import STEP, HostProfile, profile_steps

LOSSES = ("sparse_categorical_crossentropy", "mean_squared_error")


def record_tensorflow_time(watched: SourceSubject, steps: int) -> Capture:
    """Kernels, the executor and the pool."""
    profile = profile_steps(new_log("keras"), watched.step, steps)
    graph = _graph(watched)
    add_kernels(profile, _placer(watched, graph), GraphFacts(graph))
    return _with_layer_facts(profile.log.finish())


def record_tensorflow_memory(watched: SourceSubject, steps: int) -> Capture:
    """Kernels with what they took from the allocator and gave back."""
    profile = profile_steps(EventLog("keras", "xplane", MEMORY), watched.step, steps)
    changes = allocator_changes(profile)
    owners = _owners(profile, changes)
    amounts: dict[int, EagerBytes] = {id(event): EagerBytes() for event in kernel_events(profile)}
    for change, owner in zip(changes, owners):
        if owner is not None:
            amounts[id(owner)].add(change)
    graph = _graph(watched)
    values = {number: amount.columns() for number, amount in amounts.items()}
    rows = add_kernels(profile, _placer(watched, graph), GraphFacts(graph), values)
    add_changes(profile, changes, [NONE if owner is None else rows[id(owner)] for owner in owners])
    built: Any = watched.built
    profile.log.facts["held_bytes"] = built.held_bytes
    return _with_layer_facts(profile.log.finish())


@dataclass(frozen=True)
class _Text:
    """A program of which TensorFlow tells the instructions only."""

    text: str

    def as_text(self) -> str:
        return self.text

    def memory_analysis(self) -> None:
        return None

    def cost_analysis(self) -> None:
        return None


def record_tensorflow_xla(watched: SourceSubject, steps: int) -> Capture:
    """XLA's thunks; TensorFlow's profile has them as JAX's has."""
    built: Any = watched.built
    program = _Text(built.compiled_text(watched.conditions.is_training))
    profile = profile_steps(new_log("keras"), watched.step, steps)
    ran = profile.log.finish()
    profiled = Profiled(
        list(zip(ran.steps.start_ns.tolist(), ran.steps.end_ns.tolist())),
        [event for event in profile.events if event.name != STEP],
        int(ran.clock_error_ns),
        ran.facts["profiler_levels"],
        ran.facts["notes"],
    )
    layers = frozenset(layer.name for layer in watched.network.layers)
    return record_program(watched, program, profiled, lambda name: Scope(*name_scope(name, layers, LOSSES)), "keras")


def _owners(profile: HostProfile, changes: list[XplaneEvent]) -> list[XplaneEvent | None]:
    """For each change the kernel that ran on the same thread at that time; kernels do not nest."""
    running: dict[ThreadLine, XplaneEvent] = {}
    owners: dict[int, XplaneEvent | None] = {}
    kernels = {id(event) for event in kernel_events(profile)}
    wanted = {id(change) for change in changes}
    for event in profile.events:
        if id(event) in kernels:
            running[line_of(event)] = event
        elif id(event) in wanted:
            kernel = running.get(line_of(event))
            owners[id(event)] = kernel if kernel is not None and event.start_ns <= kernel.end_ns else None
    return [owners[id(change)] for change in changes]


def _graph(watched: SourceSubject) -> Any:
    return watched.built.graph(watched.conditions.is_training)  # type: ignore[attr-defined]  # of OverTensorflow


def _placer(watched: SourceSubject, graph: Any) -> KerasPlacer:
    return KerasPlacer(graph, [layer.name for layer in watched.network.layers], LOSSES)


def _with_layer_facts(capture: Capture) -> Capture:
    return replace(capture, facts={**capture.facts, **layer_facts(capture)})
