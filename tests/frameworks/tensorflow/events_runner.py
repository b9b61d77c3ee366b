"""Run by test_events.py in a fresh interpreter: recordings into a folder, TensorFlow's own numbers as JSON.

Arguments: the folder, and which parts (graph, eager_time, eager_memory, reading).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.archive import save
from profkit.data import synthetic_data
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks, read_xspace, recorded_levels
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.names import placer
from profkit.frameworks.tensorflow.networks import SessionNetwork
from profkit.frameworks.tensorflow.stepstats import record_step_stats
from profkit.ops.networks import Cifar10
from profkit.ops.networks.reference import network_tolerance, reference_logits
from profkit.ops.spec import max_error

FOLDER = Path(sys.argv[1])
STEPS = 2
NETWORK = Cifar10(batch=4, crop=24, filters=8)
IMAGES, LABELS = synthetic_data(NETWORK, train=8, test=8).batch(4)
BUILDER, SOURCE = load_builder("tensorflow"), load_source("tensorflow")


def watched(mode: str, is_training: bool) -> SourceSubject:
    conditions = NetworkConditions(2, mode, is_training)
    built = BUILDER.build(NETWORK, NETWORK.initial_weights(), conditions)
    batch = built.put(IMAGES, LABELS)
    run = built.train if is_training else built.infer
    for _ in range(2):
        run(batch)
    return SourceSubject(NETWORK, built, conditions, lambda: run(batch))


def record(what: SourceSubject, *passes: str) -> None:
    for each in passes:
        phase = "training" if what.conditions.is_training else "inference"
        capture = SOURCE.record(what, each, STEPS)
        save(capture, FOLDER / f"{what.conditions.mode} {phase} {each}")


def graph() -> dict[str, Any]:
    inference = watched("graph", is_training=False)
    record(inference, "time")
    record(watched("graph", is_training=True), "time", "memory")
    session = watched("session", is_training=True)
    record(session, "time", "memory")
    record_not_optimised()
    return {
        "error": error_of(inference.built),
        "stepstats": {level: step_stats(session, level) for level in ("FULL_TRACE", "SOFTWARE_TRACE")},
    }


def error_of(built: BuiltNetwork) -> list[float]:
    logits = built.to_numpy(built.infer(built.put(IMAGES, LABELS)))
    reference = reference_logits(NETWORK, NETWORK.initial_weights(), IMAGES)
    return [max_error(np.asarray(logits), reference), network_tolerance(NETWORK, is_training=False)]


def step_stats(what: SourceSubject, level: str) -> list[list[Any]]:
    """What RunMetadata says of a step, read with TensorFlow's own classes: name, label, bytes, temporaries, outputs."""
    import tensorflow as tf

    session = what.built
    assert isinstance(session, SessionNetwork)
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(trace_level=getattr(tf.compat.v1.RunOptions, level))
    session.run_arguments = {"options": options, "run_metadata": metadata}
    what.step()
    session.run_arguments = {}
    return [
        [
            node.node_name,
            node.timeline_label,
            sum(used.total_bytes for used in node.memory),
            node.memory_stats.temp_memory_size,
            [[size.size for size in output.tensor_description.shape.dim] for output in node.output],
        ]
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    ]


def record_not_optimised() -> None:
    """The graph as it was described: BiasAdd and Relu are separate operators there."""
    conditions = NetworkConditions(2, "session", False)
    session = SessionNetwork(NETWORK, NETWORK.initial_weights(), conditions, is_optimised=False)
    batch = session.put(IMAGES, LABELS)
    step: Callable[[], Any] = lambda: session.infer(batch)  # noqa: E731 - typed
    step()
    place = placer([layer.name for layer in NETWORK.layers])
    facts = GraphFacts(session.graph(is_training=False))
    save(record_step_stats("tensorflow", session, step, 1, place, facts), FOLDER / "not optimised memory")


def reading() -> dict[str, Any]:
    """One profile read by us and by TensorFlow's classes, made with options that ask for more."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    what = watched("graph", is_training=True)
    wanted = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3, python_tracer_level=1)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options=wanted)
        what.step()
        tf.profiler.experimental.stop()
        [path] = Path(folder).rglob("*.xplane.pb")
        data = path.read_bytes()
    clock = RealtimeClock(read_clocks(), read_clocks())
    space = read_xspace(data, clock)
    theirs = xplane_pb2.XSpace.FromString(data)
    events = []
    for plane in theirs.planes:
        names = {key: value.name for key, value in plane.stat_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                stats = {}
                for stat in event.stats:
                    kind = stat.WhichOneof("value")
                    value = getattr(stat, kind)
                    stats[names[stat.metadata_id]] = names[value] if kind == "ref_value" else value
                start = line.timestamp_ns + event.offset_ps // 1000
                events.append([plane.event_metadata[event.metadata_id].name, start, event.duration_ps // 1000, stats])
    begin = space.plane_stats["Task Environment"]["profile_start_time"] - clock.ahead_ns
    ours = [[each.name, each.start_ns - begin, each.end_ns - each.start_ns, each.stats] for each in space.events]
    return {"is_equal": ours == events, "events": len(events), "levels": recorded_levels(space)}


def eager_time() -> None:
    record(watched("eager", is_training=True), "time")


def eager_memory() -> None:
    record(watched("eager", is_training=True), "memory")


BUILDER.start(NetworkConditions(threads=2))
PARTS: dict[str, Callable[[], Any]] = {
    "graph": graph,
    "reading": reading,
    "eager_time": eager_time,
    "eager_memory": eager_memory,
}
print(json.dumps({name: PARTS[name]() for name in sys.argv[2:]}))
