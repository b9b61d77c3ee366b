"""TensorFlow's event source: tf.profiler for time; for memory a Session's StepStats, or eagerly its BFC allocator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.eager import record_eager_memory, record_eager_time
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.names import Placer, kernel_of, placer_in, split_event
from profkit.frameworks.tensorflow.networks import EAGER, GRAPH, SessionNetwork, TensorflowNetwork
from profkit.frameworks.tensorflow.profile import HostProfile, profile_steps
from profkit.frameworks.tensorflow.stepstats import record_step_stats

FRAMEWORK = "tensorflow"
CHEAP_NOTE = (
    "operators that TensorFlow calls cheap (Reshape, Shape, constants) are not in its profile: their time is in the "
    "remainder"
)
SESSION_NOTE = (
    "memory was recorded in a Session (its StepStats) that runs the same operators with the same names as the "
    "tf.function: a tf.function does not say who allocates"
)
BFC_NOTE = (
    "memory was recorded with TF_CPU_ALLOCATOR_USE_BFC=1, an allocator that TensorFlow does not use by default: "
    "requested bytes are the same, what the system gives may differ"
)


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """Time and memory apart: StepStats cost microseconds per operator."""
    if conditions.mode == EAGER:
        memory = Pass(MEMORY, (MEMORY,), {"TF_CPU_ALLOCATOR_USE_BFC": "1"}, BFC_NOTE)
    else:
        memory = Pass(MEMORY, (MEMORY,), note=SESSION_NOTE if conditions.mode == GRAPH else "")
    return Pass(TIME, (TIME,)), memory


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    is_eager = watched.conditions.mode == EAGER
    if name == TIME:
        return (record_eager_time if is_eager else _graph_time)(watched, steps)
    capture = (record_eager_memory if is_eager else _graph_memory)(watched, steps)
    return replace(capture, facts={**capture.facts, "held_bytes": watched.built.model.held_bytes})


def _graph_time(watched: SourceSubject, steps: int) -> Capture:
    built = watched.built
    assert isinstance(built, (TensorflowNetwork, SessionNetwork))
    profile = profile_steps(EventLog(FRAMEWORK, "xplane", TIME), watched.step, steps)
    graph = built.graph(watched.conditions.is_training)
    add_kernels(profile, _placer(watched, graph), GraphFacts(graph))
    return profile.log.finish()


def _graph_memory(watched: SourceSubject, steps: int) -> Capture:
    built, conditions = watched.built, watched.conditions
    if isinstance(built, SessionNetwork):
        return _session_memory(watched, built, watched.step, steps)
    assert isinstance(built, TensorflowNetwork)
    session = SessionNetwork(watched.network, built.weights(), conditions)
    try:
        batch = session.put(*built.last_batch)
        run = session.train if conditions.is_training else session.infer
        run(batch)  # describes the graph, and lets TensorFlow optimise it
        return _session_memory(watched, session, lambda: run(batch), steps)
    finally:
        session.close()


def _session_memory(watched: SourceSubject, session: SessionNetwork, step: Callable[[], Any], steps: int) -> Capture:
    graph = session.graph(watched.conditions.is_training)
    return record_step_stats(FRAMEWORK, session, step, steps, _placer(watched, graph), GraphFacts(graph))


def _placer(watched: SourceSubject, graph: Any) -> Placer:
    return placer_in(graph, [layer.name for layer in watched.network.layers])


def add_kernels(
    profile: HostProfile,
    place: Placer,
    graph: GraphFacts,
    values: Callable[[XplaneEvent], Mapping[str, Any]] = lambda _: {},
) -> dict[int, int]:
    """Operators, executor and pool of every step; returns the operators' spans by the identity of their events.

    `values` gives further columns of an operator.
    """

    def columns(event: XplaneEvent) -> dict[str, Any]:
        node, kernel = split_event(event.name) or ("", "")
        kind = kernel_of(kernel)
        facts = {**place(graph.first(node, kind.type))._asdict(), **values(event)}
        return {"name": node, **kind._asdict(), **graph.of(node, kind.type)._asdict(), **facts}

    profile.log.facts["notes"].append(CHEAP_NOTE)
    profile.add_runtime()
    return profile.add_operators([(event, columns(event)) for event in kernel_events(profile)])


def kernel_events(profile: HostProfile) -> list[XplaneEvent]:
    return [event for event in profile.events if split_event(event.name)]
