"""What recording a TensorFlow training step costs, and whether its numbers are TensorFlow's own; one interleaved run.

Run: python bench/tensorflow_attribution.py > docs/measured/tensorflow_attribution.md   (needs profkit[tensorflow])
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from measured_page import page_head
from rounds import CaseSamples, interleaved

from profkit.capture.event_log import EventLog
from profkit.capture.schema import BACKWARD, FORWARD, Capture, Level
from profkit.data import synthetic_data
from profkit.frameworks.events import MEMORY, TIME, SourceSubject, load_source
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks
from profkit.frameworks.lazy import tf
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.events import add_kernels
from profkit.frameworks.tensorflow.graph import GraphFacts
from profkit.frameworks.tensorflow.names import placer
from profkit.frameworks.tensorflow.networks import SessionNetwork
from profkit.frameworks.tensorflow.profile import profile_steps
from profkit.frameworks.tensorflow.stepstats import RawMetadata, StepStatsContext, add_step_stats
from profkit.measurement.cores import cores_for
from profkit.ops.networks import Cifar10

SOURCE = load_source("tensorflow")
FUNCTION, SESSION = "tf.function", "Session"
LONG_NS = 50_000
"""Operators below this are so short that the two profilers' own microsecond around each decides their ratio."""


@dataclass(frozen=True)
class TensorFlowBench:
    """One network, as a tf.function and in a Session, ready to be stepped."""

    function: SourceSubject
    session: SourceSubject
    steps: int

    @property
    def built_session(self) -> SessionNetwork:
        built = self.session.built
        assert isinstance(built, SessionNetwork)
        return built

    @property
    def layers(self) -> list[str]:
        return [layer.name for layer in self.session.network.layers]

    def facts(self) -> GraphFacts:
        """Of the Session's graph."""
        return GraphFacts(self.built_session.graph(is_training=True))

    @contextlib.contextmanager
    def traced(self, level: str, metadata: Any) -> Iterator[None]:
        """Session runs inside write StepStats."""
        options = tf.compat.v1.RunOptions(trace_level=getattr(tf.compat.v1.RunOptions, level))
        self.built_session.run_arguments = {"options": options, "run_metadata": metadata}
        try:
            yield
        finally:
            self.built_session.run_arguments = {}


def bench_of(batch: int, threads: int, steps: int) -> TensorFlowBench:
    """Both forms with the same weights, warmed up."""
    builder, network = load_builder("tensorflow"), Cifar10(batch=batch)
    images, labels = synthetic_data(network, train=batch, test=batch).batch(batch)

    def watched(mode: str) -> SourceSubject:
        conditions = NetworkConditions(threads, mode, is_training=True)
        built = builder.build(network, network.initial_weights(), conditions)
        data = built.put(images, labels)
        for _ in range(3):
            built.train(data)
        return SourceSubject(network, built, conditions, lambda: built.train(data))

    return TensorFlowBench(watched("graph"), watched("session"), steps)


def milliseconds(durations_ns: Sequence[int]) -> float:
    return statistics.median(durations_ns) / 1e6


def timed(step: Callable[[], Any], steps: int) -> float:
    """The median step."""
    durations = []
    for _ in range(steps):
        begin = time.perf_counter_ns()
        step()
        durations.append(time.perf_counter_ns() - begin)
    return milliseconds(durations)


def recorded(watched: SourceSubject, name: str, steps: int) -> float:
    """The median step under a pass of profkit's."""
    capture = SOURCE.record(watched, name, steps)
    return milliseconds((capture.steps["end_ns"] - capture.steps["start_ns"]).tolist())


def together(bench: TensorFlowBench) -> float:
    """The Session's step with both: the profile for time, StepStats for memory."""
    with bench.traced("SOFTWARE_TRACE", RawMetadata()):
        capture = profile_steps(EventLog("tensorflow", "xplane", TIME), bench.session.step, bench.steps).log.finish()
    return milliseconds((capture.steps["end_ns"] - capture.steps["start_ns"]).tolist())


def classic(bench: TensorFlowBench, *, adds_step: bool) -> float:
    """As tfprof is used: FULL_TRACE into a RunMetadata, and the profiler takes each step."""
    graph = bench.built_session.graph(is_training=True)
    profiler = tf.compat.v1.profiler.Profiler(graph) if adds_step else None
    durations = []
    for number in range(bench.steps):
        metadata = tf.compat.v1.RunMetadata()
        with bench.traced("FULL_TRACE", metadata):
            begin = time.perf_counter_ns()
            bench.session.step()
            if profiler:
                profiler.add_step(number, metadata)
            durations.append(time.perf_counter_ns() - begin)
    return milliseconds(durations)


def cases_of(bench: TensorFlowBench) -> dict[str, Callable[[], float]]:
    """Every row by its name; the first word is what it is compared with."""
    plain, session, steps = bench.function.step, bench.session.step, bench.steps
    return {
        f"{FUNCTION}, nothing recorded": lambda: timed(plain, steps),
        f"{FUNCTION}, nothing recorded, again": lambda: timed(plain, steps),
        f"{FUNCTION}, profkit: time": lambda: recorded(bench.function, TIME, steps),
        f"{SESSION}, nothing recorded": lambda: timed(session, steps),
        f"{SESSION}, nothing recorded, again": lambda: timed(session, steps),
        f"{SESSION}, profkit: time": lambda: recorded(bench.session, TIME, steps),
        f"{SESSION}, profkit: memory": lambda: recorded(bench.session, MEMORY, steps),
        f"{SESSION}, profkit: time and memory at once": lambda: together(bench),
        f"{SESSION}, FULL_TRACE with RunMetadata": lambda: classic(bench, adds_step=False),
        f"{SESSION}, FULL_TRACE and tfprof's add_step": lambda: classic(bench, adds_step=True),
    }


GOALS = {
    f"{FUNCTION}, profkit: time": 1.05,
    f"{SESSION}, profkit: memory": 1.25,
    f"{SESSION}, profkit: time and memory at once": 1.25,
}


def print_costs(results: Mapping[str, CaseSamples]) -> None:
    print("| step | ms | times nothing recorded | goal |\n|---|---|---|---|")
    for name, result in results.items():
        base = results[f"{name.partition(',')[0]}, nothing recorded"]
        ratios = CaseSamples(tuple(a / b for a, b in zip(result.samples, base.samples)))
        ratio = "1" if result is base else ratios.spread(".2f")
        goal = f"<= {GOALS[name]:g}" if name in GOALS else ""
        print(f"| {name} | {result.spread('.2f')} | {ratio} | {goal} |")


def operators(capture: Capture) -> Iterator[tuple[int, str, str, int]]:
    """Step, node, type and duration."""
    spans = capture.ranges
    is_operator = spans["level"] == Level.OPERATOR
    durations = (spans["end_ns"] - spans["start_ns"]).tolist()
    rows = zip(
        is_operator.tolist(),
        spans["step"].tolist(),
        capture.texts(capture.ranges.name),
        capture.texts(capture.ranges.type),
        durations,
    )
    for is_kept, step, name, kind, duration in rows:
        if is_kept:
            yield step, name or "", kind or "", duration


def same_steps(bench: TensorFlowBench) -> tuple[Capture, Capture]:
    """The same steps seen by TensorFlow's profile and by its StepStats."""
    kept: list[RawMetadata] = []

    def step() -> None:
        kept.append(RawMetadata())
        with bench.traced("SOFTWARE_TRACE", kept[-1]):
            bench.session.step()

    before = read_clocks()
    profile = profile_steps(EventLog("tensorflow", "xplane", TIME), step, bench.steps)
    place, facts = placer(bench.layers), bench.facts()
    add_kernels(profile, place, facts)
    log = EventLog("tensorflow", "stepstats", MEMORY)
    reading = StepStatsContext(RealtimeClock(before, read_clocks()), place, facts)
    add_step_stats(log, [raw.data for raw in kept[1:]], reading)  # the first step of a profile is not kept
    return profile.log.finish(), log.finish()


def print_agreement(bench: TensorFlowBench) -> None:
    """Per operator: how much longer one is in StepStats than in the profile of the same step."""
    profile, stats = same_steps(bench)
    seen = {(step, name): duration for step, name, _, duration in operators(stats)}
    ratios: dict[str, list[float]] = {}
    added: list[int] = []
    times: dict[str, list[int]] = {}
    for step, name, kind, duration in operators(profile):
        added.append(seen[step, name] - duration)
        times.setdefault(kind, []).append(duration)
        if duration >= LONG_NS:
            ratios.setdefault(kind, []).append(seen[step, name] / duration)
    print(
        f"{len(added)} operators of {bench.steps} steps are in both; StepStats has each longer by "
        f"{CaseSamples(tuple(value / 1e3 for value in added)).spread('.2f')} us, likely because its clock "
        f"readings are outside those of the profile (not tested). "
        f"Ratio of operators of at least {LONG_NS // 1000} us:\n"
    )
    print("| type | operators | us, in the profile | StepStats / profile | within 2 % |\n|---|---|---|---|---|")
    for kind, found in sorted(ratios.items(), key=lambda item: -sum(times[item[0]])):
        within = sum(abs(ratio - 1) <= 0.02 for ratio in found)
        typical = statistics.median(times[kind]) / 1e3
        print(f"| {kind} | {len(found)} | {typical:.0f} | {CaseSamples(tuple(found)).spread('.3f')} | {within} |")


def tfprof_nodes(bench: TensorFlowBench, metadata: Any) -> dict[str, tuple[int, int]]:
    """Microseconds and requested bytes of every node as the classic profiler has them."""
    profiler = tf.compat.v1.profiler.Profiler(bench.built_session.graph(is_training=True))
    profiler.add_step(0, metadata)
    options = tf.compat.v1.profiler.ProfileOptionBuilder.time_and_memory(min_micros=0, min_bytes=0)
    options["output"] = "none"
    with contextlib.redirect_stdout(io.StringIO()):
        root = profiler.profile_name_scope(options)
    nodes: dict[str, tuple[int, int]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        nodes[node.name] = node.exec_micros, node.requested_bytes
        waiting += node.children
    return nodes


def print_tfprof(bench: TensorFlowBench) -> None:
    """One step's RunMetadata read by tfprof and by profkit."""
    raw = RawMetadata()
    before = read_clocks()
    with bench.traced("FULL_TRACE", raw):
        bench.session.step()
    metadata = tf.compat.v1.RunMetadata.FromString(raw.data)
    stats = {node.node_name: node for device in metadata.step_stats.dev_stats for node in device.node_stats}
    theirs = tfprof_nodes(bench, metadata)
    log = EventLog("tensorflow", "stepstats", MEMORY)
    log.step(0, 1)
    reading = StepStatsContext(RealtimeClock(before, read_clocks()), placer(bench.layers), bench.facts())
    add_step_stats(log, [raw.data], reading)
    capture = log.finish()
    times = {name: duration for _, name, _, duration in operators(capture)}
    sizes = dict(zip(capture.texts(capture.ranges.name), capture.ranges["requested_bytes"].tolist()))
    totals = {name: sum(used.total_bytes for used in node.memory) for name, node in stats.items()}
    both = sorted(times.keys() & theirs.keys(), key=lambda name: -times[name])
    long = [name for name in both if times[name] >= LONG_NS]
    within = sum(abs(theirs[name][0] * 1000 / times[name] - 1) <= 0.02 for name in long)
    again = {
        name: stats[name].memory_stats.temp_memory_size + stats[name].memory_stats.persistent_memory_size
        for name in both
    }
    explained = [name for name in both if again[name] and theirs[name][1] == totals[name] + again[name]]
    same = sum(theirs[name][1] == totals[name] for name in both)
    print(f"- time: {within} of {len(long)} operators of at least {LONG_NS // 1000} us within 2 % of tfprof's")
    print(
        f"- bytes: profkit equal to StepStats' total_bytes in {sum(sizes[name] == totals[name] for name in totals)} ",
        end="",
    )
    print(f"of {len(totals)} nodes, tfprof in {same} of the {len(both)} nodes it has")
    print(f"- {len(explained)} nodes are larger in tfprof, which adds temporaries and constants to the total:\n")
    print("| node | tfprof | profkit | added again |\n|---|---|---|---|")
    for name in sorted(explained, key=lambda each: -again[each])[:8]:
        print(f"| {name} | {theirs[name][1]:,} | {sizes[name]:,} | {again[name]:,} |")
    print(f"| the whole step | {sum(theirs[name][1] for name in both):,} | {sum(sizes.values()):,} | |")


def print_layers(bench: TensorFlowBench) -> None:
    """How much forward and backward time has a layer."""
    capture = SOURCE.record(bench.function, TIME, bench.steps)
    spans = capture.ranges
    durations = ((spans["end_ns"] - spans["start_ns"]) * (spans["level"] == Level.OPERATOR)).tolist()
    texts = (capture.texts(capture.ranges[column]) for column in ("phase", "layer", "name"))
    rows = [row for row in zip(*texts, durations) if row[3]]
    print("| phase | mapped to layers | operators without a layer |\n|---|---|---|")
    for title, phases in ((FORWARD, {FORWARD}), (BACKWARD, {BACKWARD}), ("both", {FORWARD, BACKWARD})):
        inside = [row for row in rows if row[0] in phases]
        nameless = [row for row in inside if row[1] is None]
        share = 1 - sum(row[3] for row in nameless) / max(sum(row[3] for row in inside), 1)
        print(f"| {title} | {100 * share:.2f} % | {', '.join(sorted({str(row[2]) for row in nameless}))} |")


def report(batch: int, arguments: argparse.Namespace) -> None:
    steps, rounds = (arguments.steps, arguments.rounds) if batch < 64 else (3, max(arguments.rounds // 4, 3))
    bench = bench_of(batch, arguments.threads, steps)
    results = interleaved(cases_of(bench), rounds)
    print(
        f"\n## Batch {batch}\n\nMedian (least to most) of {rounds} rounds of {steps} steps in changing order; ratios of"
    )
    print("each round. The row `again` is the noise: what is not clearly above it was not measured.\n")
    print_costs(results)
    print("\n### The same step in TensorFlow's profile and in its StepStats\n")
    print_agreement(bench)
    print("\n### The same RunMetadata in tfprof and in profkit\n")
    print_tfprof(bench)
    print("\n### Layers of the tf.function\n")
    print_layers(bench)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=10, help="per round and row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 128])
    arguments = parser.parse_args()
    builder = load_builder("tensorflow")
    os.environ.update(builder.environment(NetworkConditions()))
    os.sched_setaffinity(0, cores_for(arguments.threads))
    with tempfile.TemporaryFile() as noise:
        # TensorFlow writes its start-up messages past Python.
        kept = os.dup(2)
        os.dup2(noise.fileno(), 2)
        versions = builder.start(NetworkConditions(threads=arguments.threads))
        os.dup2(kept, 2)
    title = "TensorFlow: what recording costs, and whether the numbers are TensorFlow's"
    print(page_head(title, "python bench/tensorflow_attribution.py"))
    print(f"One training step of cifar10 in TensorFlow {versions['version']} (oneDNN {versions['onednn']}), ", end="")
    print(f"{arguments.threads} thread on as many cores, as profkit runs it.")
    for batch in arguments.batch:
        report(batch, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
