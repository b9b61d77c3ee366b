"""What starting and joining the threads of an empty job costs: the native pool against OpenMP (gcc's, as torch's).

Run: python bench/fork_join.py > docs/bench/fork_join.md   (a few seconds; needs gcc with -fopenmp)
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from rounds import Measured, interleaved

from profkit import _core

SOURCE = Path(__file__).parent / "native" / "openmp_fork_join.c"
GAPS = {"none": (0, 2000), "20 us": (20_000, 500), "1 ms": (1_000_000, 60), "5 ms": (5_000_000, 20)}
"""Between two jobs: the gap in ns, and jobs per round."""


def main() -> int:
    """Print medians per pause and thread count; the range is over rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    cases: dict[str, Callable[[], float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        openmp = openmp_timer(Path(folder))
        for threads in arguments.threads:
            for pause, (gap_ns, jobs) in GAPS.items():
                cases[f"| {threads} | {pause} | native pool"] = timed(_core.probe_fork_join, threads, jobs, gap_ns)
                cases[f"| {threads} | {pause} | OpenMP"] = timed(openmp, threads, jobs, gap_ns)
        found: dict[str, Measured] = interleaved(cases, arguments.rounds)
    print("# Fork and join of an empty job\n")
    print("`python bench/fork_join.py`. Microseconds, median of the rounds' medians (least to largest). After a pause")
    print("that is longer than a pool spins, its threads sleep, and waking them is the system's time.\n")
    print("| threads | pause between jobs | pool | us |\n|---|---|---|---|")
    for name, measured in found.items():
        print(f"{name} | {measured.spread('.2f')} |")
    return 0


def timed(probe: Callable[[int, int, int], list[int]], threads: int, jobs: int, gap_ns: int) -> Callable[[], float]:
    """Median microseconds of one round of jobs."""

    def run() -> float:
        return sorted(probe(threads, jobs, gap_ns))[jobs // 2] / 1000

    return run


def openmp_timer(folder: Path) -> Callable[[int, int, int], list[int]]:
    """The C function, compiled now."""
    library = folder / "openmp_fork_join.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-fopenmp", str(SOURCE), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).openmp_fork_join
    function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64))
    function.restype = None

    def run(threads: int, jobs: int, gap_ns: int) -> list[int]:
        times = (ctypes.c_int64 * jobs)()
        function(threads, jobs, gap_ns, times)
        return list(times)

    return run


if __name__ == "__main__":
    raise SystemExit(main())
