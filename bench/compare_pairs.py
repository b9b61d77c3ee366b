"""Captures of one network on one machine, compared in pairs: how many tables have a row that is wrongly told?

Nothing differs between the captures but what the machine did, so that every `faster` and `slower` is false. While they
are made, a neighbour takes a core at random times (`--quiet`: none). Captures are kept in the folder of --results: a
second call continues, and only compares when all are there.
Run: python bench/compare_pairs.py --results DIR   (it prints a page; about 20 minutes on a quiet machine)
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from measured_page import page_head

from profkit.attribution.comparison import FASTER, SLOWER, Comparison, Judge, compare
from profkit.attribution.profiles import ComparableProfile, ProfileRow, profile_of
from profkit.capture.output_files import open_output
from profkit.capture.run import Run, load_run, save_run
from profkit.measurement.network_run import NetworkRequest, run_networks
from profkit.measurement.statistics.estimates import Estimate, log_interval, middle_mean, verdict
from profkit.measurement.statistics.judging import Judgement, Processes, judge_tables
from profkit.measurement.statistics.noise_floor import machine_time_floor
from profkit.ops.networks import Cifar10

NETWORK = Cifar10(batch=16)
FRAMEWORKS = ("torch", "numpy")
RUNS, STEPS, MARGIN = 3, 10, 0.02
MOST_FALSE = 1
"""Tables of 100."""
SLOWDOWNS = (1.05, 1.10, 1.25, 1.50)
BURST_S, PAUSE_S = 3.0, 6.0
"""Means of how long the neighbour takes a core, and does not."""
NEIGHBOURS = f"a neighbour takes a core for {BURST_S:g} s, then none for {PAUSE_S:g} s (means of exponential times)"
NEIGHBOUR = """
import os, random, sys, time
chance = random.Random(int(sys.argv[1]))
cores = sorted(os.sched_getaffinity(0))
while os.getppid() == int(sys.argv[2]):
    os.sched_setaffinity(0, [chance.choice(cores)])
    end = time.monotonic() + chance.expovariate(1 / float(sys.argv[3]))
    while time.monotonic() < end:
        sum(range(10_000))
    time.sleep(chance.expovariate(1 / float(sys.argv[4])))
"""


@dataclass(frozen=True)
class Way:
    """How two captures are compared."""

    name: str
    prepared: Callable[[Run], Run]
    judge: Judge
    is_profkits: bool = False


def main() -> int:
    """Make what is missing, compare, print the page; exit 1 when too many tables are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="folder of the captures")
    parser.add_argument("--captures", type=int, default=40, help="how many in all [40]")
    parser.add_argument("--pairs", type=int, default=100, help="how many pairs are compared [100]")
    parser.add_argument("--quiet", action="store_true", help="without a neighbour")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    make_captures(given.results, given.captures, given.quiet)
    runs = {name: read_captures(given.results, name, given.captures, given.quiet) for name in FRAMEWORKS}
    print(
        page_head("The same network compared with itself", f"python bench/compare_pairs.py{' --quiet' * given.quiet}")
    )
    floor, source = machine_time_floor()
    neighbour = "no neighbour" if given.quiet else NEIGHBOURS
    print(PREFACE.format(captures=len(runs[FRAMEWORKS[0]]), runs=RUNS, steps=STEPS, floor=100 * floor, source=source,
                         neighbour=neighbour, network=NETWORK.name, margin=100 * MARGIN,
                         others=others_text(runs)))  # fmt: skip
    return int(print_ways(runs, pairs_of(given), ways(floor)))


PREFACE = """{captures} captures of {runs} processes of {steps} recorded steps (and as many unrecorded ones before and
behind) of {network} in each framework, frameworks in turns, inference on 1 thread; {neighbour}.
Other programs, this one included, took {others} of the processors' time (median, and most, of all processes).
Half of the pairs are of one framework, half of the other. Floor of times: {floor:.2g} % ({source}); margin
{margin:g} %.

- *too busy*: tables without any verdict, because more than half of the processes of a side met a busy machine.
- *false*: tables in which a row or a total is called faster or slower; of all pairs.
- *told at*: share of the judged tables in which the step is called slower after every time of b was multiplied.
- *forced*: busy or not, everything counts, as with `--force` and no process dropped.
- *bootstrap*: steps of one process resampled as if they were independent, rows not corrected for their number: what
  profkit did before, without its allowance for drift.
"""


def others_text(runs: dict[str, list[Run]]) -> str:
    """What others took while steps were timed."""
    machines = [process["machine"] for found in runs.values() for run in found for process in run.processes]
    shares = [100.0 * machine["others_share"] for machine in machines if "others_share" in machine]
    return f"{np.median(shares):.0f} and {max(shares):.0f} %" if shares else "an unknown share"


def ways(floor: float) -> list[Way]:
    """profkit's, and what it would be without its parts."""
    judge = partial(judge_tables, floor=floor)
    return [
        Way(f"{RUNS} processes", lambda run: run, judge, is_profkits=True),
        Way("1 process", first_process, judge, is_profkits=True),
        Way(f"{RUNS} processes, forced", as_if_quiet, judge),
        Way("1 process, forced", lambda run: as_if_quiet(first_process(run)), judge),
        Way("1 process, bootstrap, forced", lambda run: as_if_quiet(first_process(run)), judge_by_bootstrap),
    ]


# --- Captures ---


def path_of(folder: Path, framework: str, number: int, is_quiet: bool) -> Path:
    """Of one capture."""
    return folder / f"{'quiet' if is_quiet else 'busy'}-{framework}-{number:02}.profkit"


def make_captures(folder: Path, count: int, is_quiet: bool) -> None:
    """Those that are missing, both frameworks of one number together."""
    for number in range(count):
        paths = [path_of(folder, framework, number, is_quiet) for framework in FRAMEWORKS]
        if all(path.exists() for path in paths):
            continue
        print(f"capture {number + 1} of {count}", file=sys.stderr)
        requests = [NetworkRequest(NETWORK, name, steps=STEPS, runs=RUNS) for name in FRAMEWORKS]
        with neighbour(number, is_quiet):
            runs = run_networks(requests)
        for run, path in zip(runs, paths):
            if run.status != "ok" or len(run.processes) != RUNS:
                raise SystemExit(f"{run.framework}: {run.status} {run.reason} {' '.join(run.notes)}")
            with open_output(str(path)) as stream:
                save_run(run, stream)


@contextmanager
def neighbour(seed: int, is_quiet: bool) -> Iterator[None]:
    """A process that takes a core at random times; it ends with this one, however that ends."""
    if is_quiet:
        yield
        return
    words = [str(seed), str(os.getpid()), str(BURST_S), str(PAUSE_S)]
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR, *words])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def read_captures(folder: Path, framework: str, count: int, is_quiet: bool) -> list[Run]:
    """All of one framework."""
    return [load_run(path_of(folder, framework, number, is_quiet)) for number in range(count)]


def first_process(run: Run) -> Run:
    """As if only one had been recorded."""
    return replace(
        run,
        step_ns=run.process_steps()[0],
        recorded_step_ns={name: processes[0] for name, processes in run.process_recorded().items()},
        processes=run.processes[:1],
        captures=run.process_captures()[0],
    )


def as_if_quiet(run: Run) -> Run:
    """Nothing is known of the machine."""
    processes = [{**process, "machine": {}} for process in run.processes]
    return replace(run, processes=processes)  # type: ignore[arg-type]


# --- Comparison ---


def pairs_of(given: argparse.Namespace) -> dict[str, list[tuple[int, int]]]:
    """Half of them of each framework, drawn once and for all."""
    every = list(itertools.combinations(range(given.captures), 2))
    share = math.ceil(given.pairs / len(FRAMEWORKS))
    return {
        framework: random.Random(seed).sample(every, min(share, len(every)))
        for seed, framework in enumerate(FRAMEWORKS)
    }


def judge_by_bootstrap(rows: Sequence[tuple[Processes, Processes]], _: bool, margin: float) -> list[Judgement]:
    """Every row for itself, steps as if they were independent."""
    found = []
    for a, b in rows:
        sides = [log_interval(np.maximum(side[0], 1.0), middle_mean) for side in (a, b)]
        reach = math.hypot(*(math.log((each.high or 1.0) / (each.low or 1.0)) / 2.0 for each in sides))
        value = sides[0].value / sides[1].value
        ratio = Estimate(value, value * math.exp(-reach), value * math.exp(reach))
        found.append(Judgement(sides[0].value, sides[1].value, ratio, verdict(ratio, margin)))
    return found


def slowed(profile: ComparableProfile, factor: float) -> ComparableProfile:
    """Every time multiplied."""

    def longer(processes: Sequence[Sequence[float]]) -> list[list[float]]:
        return [[factor * sample for sample in samples] for samples in processes]

    return replace(
        profile,
        rows={name: ProfileRow(longer(row.samples_ns), row.calls, row.share) for name, row in profile.rows.items()},
        totals={name: longer(processes) for name, processes in profile.totals.items()},
    )


def is_false(comparison: Comparison) -> bool:
    """Whether anything is reported."""
    return any(row.verdict in (FASTER, SLOWER) for row in (*comparison.rows, *comparison.totals))


def print_ways(runs: dict[str, list[Run]], pairs: dict[str, list[tuple[int, int]]], chosen: Sequence[Way]) -> bool:
    """A line per way; whether profkit's ways told too much."""
    count = sum(map(len, pairs.values()))
    heads = " | ".join(f"told at +{100 * (factor - 1):.0f} %" for factor in SLOWDOWNS)
    print(
        f"| compared by | tables | rows | too busy | false | {heads} |\n|---|---|---|---|---|{'---|' * len(SLOWDOWNS)}"
    )
    is_wrong = False
    for way in chosen:
        profiles = {name: [profile_of(way.prepared(run), "operator") for run in runs[name]] for name in pairs}
        sides = [(profiles[name][a], profiles[name][b]) for name, listed in pairs.items() for a, b in listed]
        found = [compare(a, b, way.judge, MARGIN) for a, b in sides]
        judged = [pair for pair, each in zip(sides, found) if not any(each.troubles)]
        wrong = sum(map(is_false, found))
        told = [_told(judged, way.judge, factor) for factor in SLOWDOWNS]
        rows = np.mean([each.corrected_for for each in found])
        print(
            f"| {way.name} | {count} | {rows:.0f} | {count - len(judged)} | {wrong} | {' | '.join(told)} |", flush=True
        )
        is_wrong |= way.is_profkits and wrong * 100 > MOST_FALSE * count
    return is_wrong


def _told(sides: Sequence[tuple[ComparableProfile, ComparableProfile]], judge: Judge, factor: float) -> str:
    if not sides:
        return ""
    words = [compare(a, slowed(b, factor), judge, MARGIN).totals[0].verdict for a, b in sides]
    return f"{100 * np.mean([word == SLOWER for word in words]):.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
