"""TensorFlow's event source: tf.profiler for time; for memory a Session's StepStats, or eagerly its BFC allocator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from profkit.capture.schema import Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.eager import record_eager_time
from profkit.frameworks.tensorflow.eager_memory import record_eager_memory
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.kernels import add_kernels, new_log
from profkit.frameworks.tensorflow.names import placer
from profkit.frameworks.tensorflow.networks import EAGER, GRAPH, SessionNetwork, TensorflowNetwork
from profkit.frameworks.tensorflow.profile import profile_steps
from profkit.frameworks.tensorflow.stepstats import record_step_stats

FRAMEWORK = "tensorflow"
SESSION_NOTE = (
    "memory was recorded in a Session (its StepStats) that runs the same operators with the same names as the "
    "tf.function: a tf.function does not say who allocates"
)
BFC_NOTE = (
    "memory was recorded with TF_CPU_ALLOCATOR_USE_BFC=1, an allocator that TensorFlow does not use by default: "
    "requested bytes are the same, what the system gives may differ"
)


class TensorflowSource:
    """Follows Source."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Time and memory apart: StepStats cost microseconds per operator."""
        if conditions.mode == EAGER:
            memory = Pass(MEMORY, (MEMORY,), {"TF_CPU_ALLOCATOR_USE_BFC": "1"}, BFC_NOTE)
        else:
            memory = Pass(MEMORY, (MEMORY,), note=SESSION_NOTE if conditions.mode == GRAPH else "")
        return Pass(TIME, (TIME,)), memory

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run the steps under this pass."""
        is_eager = watched.conditions.mode == EAGER
        if name == TIME:
            return (record_eager_time if is_eager else _graph_time)(watched, steps)
        capture = (record_eager_memory if is_eager else _graph_memory)(watched, steps)
        return replace(capture, facts={**capture.facts, "held_bytes": watched.built.model.held_bytes})


def _graph_time(watched: SourceSubject, steps: int) -> Capture:
    built = watched.built
    assert isinstance(built, (TensorflowNetwork, SessionNetwork))
    profile = profile_steps(new_log(FRAMEWORK), watched.step, steps)
    place = placer([layer.name for layer in watched.network.layers])
    add_kernels(profile, place, GraphFacts(built.graph(watched.conditions.is_training)))
    return profile.log.finish()


def _graph_memory(watched: SourceSubject, steps: int) -> Capture:
    built, conditions = watched.built, watched.conditions
    place = placer([layer.name for layer in watched.network.layers])
    if isinstance(built, SessionNetwork):
        graph = GraphFacts(built.graph(conditions.is_training))
        return record_step_stats(FRAMEWORK, built, watched.step, steps, place, graph)
    assert isinstance(built, TensorflowNetwork)
    session = SessionNetwork(watched.network, built.weights(), conditions)
    try:
        batch = session.put(*built.last_batch)
        run = session.train if conditions.is_training else session.infer
        run(batch)  # describes the graph, and lets TensorFlow optimise it
        graph = GraphFacts(session.graph(conditions.is_training))
        return record_step_stats(FRAMEWORK, session, lambda: run(batch), steps, place, graph)
    finally:
        session.close()


SOURCE = TensorflowSource()
