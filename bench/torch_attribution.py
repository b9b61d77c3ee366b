"""What attribution of torch costs at batch 1, and whether it agrees with torch's own profiler on the same steps.

Run: python bench/torch_attribution.py > docs/measured/torch_attribution.md   (needs profkit[torch] and a C++ compiler)
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from measured_page import page_head

from profkit.capture.schema import BACKWARD, FORWARD, Capture
from profkit.data import synthetic_data
from profkit.frameworks.events.layer_shares import mapped_shares, without_layer
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.torch.build import load_recorder
from profkit.frameworks.torch.events import owners_of
from profkit.frameworks.torch.kineto import record_kineto
from profkit.frameworks.torch.native import read_logs, record_native
from profkit.frameworks.torch.raw_events import TorchEvents, spans_around_calls
from profkit.frameworks.torch.spans import torch_capture
from profkit.ops.networks import Cifar10

PLAIN, AGAIN, OURS, TIME_ONLY, KINETO = (
    "unprofiled",
    "unprofiled again (null against null)",
    "profkit: time + memory + layers",
    "profkit: time + layers",
    "Kineto: time + shapes + memory",
)
GOAL, AGREEMENT, BOUNDARY_NS = 1.10, 0.02, 1000


@dataclass
class TorchBench:
    """The network, and how its steps are run and timed."""

    built: Any
    batch: Any
    recorder: Any
    events_per_step: int = 0
    after_ns: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Per step: what a way takes after the steps to hand its events over."""

    def step(self) -> None:
        """Forward and backward, without the optimiser."""
        self.built.optimizer.zero_grad()
        images, labels, _ = self.batch
        self.built.loss(self.built.model(images), labels).backward()

    @property
    def layers(self) -> dict[str, Any]:
        return dict(self.built.model.named_children())

    def timed(self, way: str, steps: int) -> float:
        """Median nanoseconds of a step, recorded in this way; starting and stopping is not part of any step."""
        samples: list[int] = []

        def run() -> None:
            for _ in range(steps):
                begin = time.perf_counter_ns()
                self.step()
                samples.append(time.perf_counter_ns() - begin)
            samples.append(time.perf_counter_ns())

        gc.collect()
        self._ways[way](run)
        self.after_ns[way].append((time.perf_counter_ns() - samples.pop()) / steps)
        return statistics.median(samples)

    @property
    def _ways(self) -> dict[str, Callable[[Callable[[], None]], None]]:
        return {PLAIN: _plain, AGAIN: _plain, OURS: self._ours, TIME_ONLY: self._time_only, KINETO: _kineto}

    def _ours(self, run: Callable[[], None]) -> None:
        record_native(self.recorder, torch, self.layers, run)

    def _time_only(self, run: Callable[[], None]) -> None:
        with spans_around_calls(torch, self.layers, self.recorder.spanned):
            self.recorder.start(False, False, ())
            run()
            self.recorder.stop()

    def at_once(self, steps: int) -> tuple[TorchEvents, TorchEvents, int]:
        """The same steps as profkit and as Kineto see them, both recording at the same time, and when they began."""
        logs: list[dict[str, Any]] = []
        begins: list[int] = []

        def run() -> None:
            self.recorder.start(False, True, ())
            self.step()  # the first events of a profiler take longer
            begins.append(time.perf_counter_ns())
            for _ in range(steps):
                self.step()
            logs.extend(self.recorder.stop())

        theirs = record_kineto(torch, self.layers, run)
        ours = read_logs(logs, self.recorder.names(), threading.get_native_id(), time.perf_counter_ns())
        return ours, theirs, begins[0]

    def capture(self, record: Callable[..., TorchEvents], steps: int) -> Capture:
        """Steps with nothing left over from those before, so that none of their blocks is freed inside."""
        clock: list[tuple[int, int]] = []

        def run() -> None:
            for _ in range(steps):
                begin = time.perf_counter_ns()
                self.step()
                clock.append((begin, time.perf_counter_ns()))

        self.built.optimizer.zero_grad()
        events = record(run)
        return torch_capture(events, clock, owners_of(self.built), ("time", "memory"), {})


def _plain(run: Callable[[], None]) -> None:
    run()


def _kineto(run: Callable[[], None]) -> None:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True, profile_memory=True):
        run()


def prepared(batch: int, threads: int) -> TorchBench:
    """A built network that has run."""
    network = Cifar10(batch=batch)
    conditions = NetworkConditions(threads, "eager", True)
    builder = load_builder("torch")
    builder.start(conditions)
    built = builder.build(network, network.initial_weights(), conditions)
    bench = TorchBench(built, built.put(*synthetic_data(network).batch(batch)), load_recorder())
    for _ in range(20):
        bench.step()
    return bench


def rounds_of(bench: TorchBench, rounds: int, steps: int) -> dict[str, list[float]]:
    """Every way twice per round, in an order and back again (ABBA), so that a drift hits all alike."""
    found: dict[str, list[float]] = defaultdict(list)
    shuffle = random.Random(1).shuffle
    ways = [PLAIN, AGAIN, OURS, TIME_ONLY, KINETO]
    for turn in range(rounds):
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
        shuffle(ways)
        taken: dict[str, list[float]] = defaultdict(list)
        for way in (*ways, *reversed(ways)):
            taken[way].append(bench.timed(way, steps))
        for way, values in taken.items():
            found[way].append(statistics.mean(values))
    return found


def print_cost(bench: TorchBench, found: dict[str, list[float]], events: int) -> None:
    """Ratios to the unprofiled step."""
    plain = found[PLAIN]
    print("| recorded by | ms per step | median paired ratio | 10 to 90 % | min/min | us per event | afterwards |")
    print("|---|---|---|---|---|---|---|")
    for way in (PLAIN, AGAIN, OURS, TIME_ONLY, KINETO):
        ratios = sorted(ours / base for ours, base in zip(found[way], plain))
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        added = statistics.median(ours - base for ours, base in zip(found[way], plain)) / events / 1e3
        after = f"{statistics.median(bench.after_ns[way]) / events / 1e3:.2f}" if way in (OURS, KINETO) else ""
        goal = f" (goal: <= {GOAL:.2f})" if way == OURS else ""
        print(
            f"| {way} | {statistics.median(found[way]) / 1e6:.3f} | {statistics.median(ratios):.3f}{goal} "
            f"| {low:.3f} to {high:.3f} | {min(found[way]) / min(plain):.3f} "
            f"| {'' if way in (PLAIN, AGAIN) else f'{added:.2f}'} | {after} |"
        )
    print("\n`us per event` is what a step takes longer, divided by its events; `afterwards` is what handing them")
    print("over takes, also per event, when the steps are done (profkit: columns; Kineto: its event tree).")


def own_times(events: TorchEvents, begin_ns: int) -> dict[str, list[tuple[int, int]]]:
    """By operator: of every call its own nanoseconds, and how many spans lie directly inside."""
    duration = events.spans["end_ns"] - events.spans["start_ns"]
    own, children = duration.copy(), [0] * len(duration)
    for row, parent in enumerate(events.spans["parent"].tolist()):
        if parent >= 0:
            own[parent] -= duration[row]
            children[parent] += 1
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    starts = events.spans["start_ns"].tolist()
    for number, start_ns, ns, count in zip(events.spans["name"].tolist(), starts, own.tolist(), children):
        name = events.names[number]
        if start_ns >= begin_ns and name.startswith("aten::"):
            found[name].append((ns, count))
    return found


def print_agreement(ours: TorchEvents, theirs: TorchEvents, begin_ns: int, steps: int) -> None:
    """Own time by operator, both profilers on the same executions."""
    mine, kineto = own_times(ours, begin_ns), own_times(theirs, begin_ns)
    both = set(mine) & set(kineto)
    missing = sorted(set(mine) ^ set(kineto))
    unequal = [name for name in both if len(mine[name]) != len(kineto[name])]
    print(f"Operators that only one of them has: {', '.join(missing) or 'none'}; ", end="")
    print(f"with another number of calls: {', '.join(unequal) or 'none'}.\n")
    print("| operator | calls per step | profkit us | Kineto us | difference | per boundary | |")
    print("|---|---|---|---|---|---|---|")
    agreeing = total = 0.0
    for name in sorted(both, key=lambda each: -sum(ns for ns, _ in kineto[each])):
        own, reference = (sum(ns for ns, _ in table[name]) for table in (mine, kineto))
        difference = (own - reference) / max(reference, 1)
        per_boundary = (own - reference) / sum(1 + inside for _, inside in mine[name])
        total += reference
        agreeing += reference if abs(difference) <= AGREEMENT else 0
        reason = "boundaries" if abs(per_boundary) < BOUNDARY_NS else "NOT EXPLAINED"
        verdict = "" if abs(difference) <= AGREEMENT else reason
        print(
            f"| {name} | {len(mine[name]) / steps:g} | {own / steps / 1e3:.1f} | {reference / steps / 1e3:.1f} "
            f"| {difference:+.1%} | {per_boundary:+.0f} ns | {verdict} |"
        )
    print(f"\n{agreeing / total:.2%} of the time is in operators that agree within {AGREEMENT:.0%}.")
    print("`boundaries`: the two read their clocks one after the other, so one's span encloses the other's and")
    print(f"its work; each call, and each span inside it, moves less than {BOUNDARY_NS} ns from one operator to the")
    print("next. Where calls are short that is more than the limit; recorded alone, neither has the other's work")
    print("in its spans.")


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=20, help="per block")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    bench = prepared(arguments.batch, arguments.threads)
    ours, theirs, begin_ns = bench.at_once(arguments.steps)
    native = bench.capture(lambda run: record_native(bench.recorder, torch, bench.layers, run), arguments.steps)
    kineto = bench.capture(lambda run: record_kineto(torch, bench.layers, run), arguments.steps)
    events = len(ours.spans["name"]) // (arguments.steps + 1)
    found = rounds_of(bench, arguments.rounds, arguments.steps)
    print(page_head("Attribution of torch", "python bench/torch_attribution.py"))
    print(
        f"torch {torch.__version__}, cifar10, batch {arguments.batch}, forward + backward, {arguments.threads} thread,"
    )
    print(
        f"{events} events per step. {arguments.rounds} rounds; in each every way runs two blocks of {arguments.steps}"
    )
    print("steps, in an order and back again; ratios are between blocks of the same round.\n")
    print_cost(bench, found, events)
    print("\n## Agreement with Kineto\n")
    print(f"{arguments.steps} steps, recorded by both at the same time: the same executions.\n")
    print_agreement(ours, theirs, begin_ns, arguments.steps)
    peaks = native.facts["peak_bytes"], kineto.facts["peak_bytes"]
    verdict = "equal" if peaks[0] == peaks[1] else "NOT equal"
    print(f"\nPeak of memory, one after the other: profkit {peaks[0]:,} B, Kineto {peaks[1]:,} B: {verdict}.")
    print("\n## Layers\n")
    print("| phase | mapped | of this inferred | goal |\n|---|---|---|---|")
    shares = mapped_shares(native)
    for phase in (FORWARD, BACKWARD):
        share = shares[phase]
        print(f"| {phase} | {1 - share['none']:.2%} | {share['inferred']:.2%} | >= 99 % |")
    print("\nWithout a layer (the loss and its gradient): ", end="")
    rest = [
        f"{row['type']} ({row['ns'] / arguments.steps / 1e3:.1f} us, {row['phase']})" for row in without_layer(native)
    ]
    print(", ".join(rest) + ".")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
