"""What recording costs, and what the other tools' recording costs, all rows in one interleaved run.

Run: python bench/tracer_overhead.py > docs/measured/tracer_overhead.md
Needs gcc, nvtx3 headers, profkit[bench,torch].
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measured_page import page_head
from rounds import CaseSamples, interleaved

from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.reading import read

PROGRAMS = Path(__file__).parent / "programs"
C_PAIRS, ALLOCATION_BYTES, ALLOCATION_PAIRS = 2_000_000, 4096, 500_000
RANGES, RANGE_THREADS = 10_000_000, 4


@dataclass(frozen=True)
class TracerBench:
    """Where the compiled programs and the captures are."""

    folder: Path

    def compiled(self, source: str, *flags: str) -> str:
        target = self.folder / Path(source).stem
        include = os.environ.get("NVTX_INCLUDE", "/usr/local/cuda/include")
        command = ["gcc", "-O2", "-I", include, str(PROGRAMS / source), "-o", str(target), *flags, "-ldl"]
        subprocess.run(command, check=True)
        return str(target)

    def traced(self, allocations: bool) -> dict[str, str]:
        """The environment in which a program records into a new capture."""
        path = self.folder / "bench.profkit"
        path.unlink(missing_ok=True)
        return traced_environment(os.environ, str(path), RecordingOptions(allocations=allocations), torch="off")


def output_of(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout.strip().splitlines()[-1]


def nanoseconds(command: list[str], environment: Callable[[], dict[str, str]] | None = None) -> float:
    return float(output_of(command, environment() if environment else None).split()[0])


def with_tool(library: str) -> dict[str, str]:
    return {**os.environ, "NVTX_INJECTION64_PATH": library}


def cases_of(bench: TracerBench) -> dict[str, Callable[[], float]]:
    """Every row by its name."""
    pairs = bench.compiled("nvtx_pairs.c", "-pthread")
    empty = bench.compiled("empty_nvtx_tool.c", "-shared", "-fPIC")
    allocations = bench.compiled("malloc_pairs.c", "-shared", "-fPIC")
    recording = partial(bench.traced, False)
    cases: dict[str, Callable[[], float]] = {}
    for mode, title in (("push", "nvtxRangePushA"), ("domain", "nvtxDomainRangePushEx")):
        command = [pairs, mode, str(C_PAIRS), "1"]
        cases[f"C {title}, no tool"] = partial(nanoseconds, command)
        cases[f"C {title}, empty callback"] = partial(nanoseconds, command, partial(with_tool, empty))
        cases[f"C {title}, recorded by profkit"] = partial(nanoseconds, command, recording)
    for case, title, is_recorded in (
        ("held_scope", "profkit.scope held, idle", False),
        ("held_scope", "profkit.scope held, recorded", True),
        ("new_scope", "scope made anew, idle", False),
        ("new_scope", "scope made anew, recorded", True),
        ("new_scope_of_module", "profkit.scope made anew, idle", False),
        ("new_scope_of_module", "profkit.scope made anew, recorded", True),
        ("lock", "threading.Lock held: what `with` costs here", False),
        ("nvtx_push_range", "nvtx push_range, no tool", False),
        ("nvtx_push_range", "nvtx push_range, recorded by profkit", True),
        ("nvtx_annotate", "nvtx.annotate, no tool", False),
        ("nvtx_annotate", "nvtx.annotate, recorded by profkit", True),
        ("record_function", "torch record_function, profiler off", False),
        ("record_function_on", "torch record_function, profiler on", False),
        ("viztracer_event", "viztracer log_event, tracer on", False),
    ):
        command = [sys.executable, str(PROGRAMS / "python_ranges.py"), case]
        cases[f"Python {title}"] = partial(nanoseconds, command, recording if is_recorded else None)
    program = [str(PROGRAMS / "malloc_program.py"), allocations, str(ALLOCATION_BYTES), str(ALLOCATION_PAIRS)]
    cases["malloc+free, plain"] = partial(nanoseconds, [sys.executable, *program])
    cases["malloc+free, recorded by profkit"] = partial(
        nanoseconds, [sys.executable, *program], partial(bench.traced, True)
    )
    memray = [sys.executable, "-m", "memray", "run", "-q", "-f", "-o", str(bench.folder / "memray.bin"), *program]
    cases["malloc+free, recorded by memray"] = partial(nanoseconds, memray)
    return cases


def many_ranges(bench: TracerBench, program: str, runs: int) -> list[str]:
    """10 M ranges of 4 threads: what was lost, how long threads waited, how much memory grew."""
    command = [program, "push", str(RANGES), str(RANGE_THREADS)]
    plain_kib = int(output_of(command).split()[1])
    lines = ["| run | ranges in the file | dropped | threads waited | RSS growth | without tool | file |"]
    lines.append("|---|---|---|---|---|---|---|")
    clock_ns = []
    for run in range(runs):
        print(f"{RANGES} ranges, run {run + 1} of {runs}", file=sys.stderr)
        kib = int(output_of(command, bench.traced(False)).split()[1])
        path = bench.folder / "bench.profkit"
        capture = read(path)
        clock_ns.append(2 * capture.processes[0].clock_read_ns)
        lines.append(
            f"| {run + 1} | {len(capture.ranges):,} | {capture.losses.records:,} "
            f"| {capture.losses.stalled_ns / 1e6:.0f} ms "
            f"| {kib / 1024:.1f} MiB | {plain_kib / 1024:.1f} MiB | {path.stat().st_size / 2**20:.0f} MiB |"
        )
    lines.append(f"\nTwo readings of the clock, which every range needs: {CaseSamples(tuple(clock_ns)).spread()} ns.")
    return lines


GOALS = {
    "C nvtxRangePushA, recorded by profkit": 50.0,
    "C nvtxDomainRangePushEx, recorded by profkit": 50.0,
    "Python profkit.scope held, recorded": 120.0,
    "Python profkit.scope held, idle": 40.0,
    "Python scope made anew, recorded": 120.0,
    "Python scope made anew, idle": 40.0,
    "Python profkit.scope made anew, recorded": 120.0,
    "Python profkit.scope made anew, idle": 40.0,
}


def added_by(results: dict[str, CaseSamples], tool: str) -> CaseSamples:
    """Nanoseconds above the plain pair, round by round."""
    plain = results["malloc+free, plain"].samples
    return CaseSamples(tuple(a - b for a, b in zip(results[f"malloc+free, recorded by {tool}"].samples, plain)))


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5, help="runs of the 10 M ranges")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = TracerBench(Path(folder))
        results = interleaved(cases_of(bench), arguments.rounds)
        many = many_ranges(bench, str(Path(folder) / "nvtx_pairs"), arguments.runs)
    print(page_head("What recording costs", "python bench/tracer_overhead.py"))
    print(f"Median (least to most) of {arguments.rounds} interleaved rounds, each case in a new process that gives the")
    print("median of 50 batches. `scope` was imported by name; `profkit.scope` is looked up in the module each time.\n")
    print("| empty range | ns per begin + end | goal |\n|---|---|---|")
    for name, result in results.items():
        if not name.startswith("malloc"):
            goal = f"<= {GOALS[name]:g}" if name in GOALS else ""
            print(f"| {name} | {result.spread()} | {goal} |")
    plain = results["malloc+free, plain"]
    print(f"\n| malloc + free of {ALLOCATION_BYTES} bytes | ns per pair | above plain | times plain | goal |")
    print("|---|---|---|---|---|")
    print(f"| plain | {plain.spread()} | | 1 | |")
    for tool, goal in (("profkit", "<= 100 above plain"), ("memray", "")):
        result, added = results[f"malloc+free, recorded by {tool}"], added_by(results, tool)
        ratio = result.median / plain.median
        print(f"| recorded by {tool} | {result.spread()} | {added.spread()} | {ratio:.1f} | {goal} |")
    print(f"\n{RANGES:,} ranges from {RANGE_THREADS} threads (goal: no drop, RSS growth <= 64 MiB):\n")
    print("\n".join(many))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
