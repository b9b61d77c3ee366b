"""Who computes more than was asked for, or while others are timed, gets no `faster`: by invented clocks, for real."""

from __future__ import annotations

from pathlib import Path

import pytest

import profkit
from profkit.measurement.checks.conduct import Conduct
from profkit.measurement.cores import usable_cpus
from profkit.measurement.workers.times import Reading, WorkerTimes


def conduct(
    threads: int = 1, cpu_s: float = 0.02, main_s: float = 0.02, paused_cpu_s: float = 0.0, timed_s: float = 0.018
) -> list[str]:
    """The doubts about a hundred turns of 20 ms, each after a pause of 200 ms."""
    found = Conduct()
    for _ in range(100):
        after = WorkerTimes(ran_s=0.02, cpu_s=cpu_s, main_s=main_s, paused_s=0.2, paused_cpu_s=paused_cpu_s)
        found.take(WorkerTimes(), after, timed_s, 0.1 * timed_s, threads)
    return found.doubts(threads)


@pytest.mark.parametrize(
    ("threads", "cpu_s", "main_s"),
    [
        pytest.param(1, 0.02, 0.02, id="one thread"),
        pytest.param(1, 0.0201, 0.0, id="a pool of one, which the caller waits for"),
        pytest.param(2, 0.04, 0.02, id="a pool that spins between calls"),
        pytest.param(2, 0.02, 0.02, id="a pool that sleeps"),
    ],
)
def test_honest_threads_are_not_doubted(threads: int, cpu_s: float, main_s: float) -> None:
    assert conduct(threads, cpu_s, main_s) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cpu_s": 0.036}, "kept 1.8 processors busy in its turns, where 1 thread was requested"),
        ({"paused_cpu_s": 0.1}, "10000 ms of processor time while it was paused"),
        ({"paused_cpu_s": 0.1}, "50 % of that time"),
        # Work beside the calls.
        ({"cpu_s": 0.02, "main_s": 0.002, "timed_s": 0.001}, "computed beside the timed calls"),
    ],
)
def test_who_computes_more_than_was_asked_for_is_told(given: dict[str, float], told: str) -> None:
    (doubt,) = conduct(1, **given)

    assert told in doubt


def test_times_are_those_between_resuming_and_pausing() -> None:
    times = WorkerTimes()

    times.pause(Reading(1.0, 5.0, 5.0))
    times.resume(Reading(3.0, 5.5, 5.0))
    times.resume(Reading(3.1, 5.5, 5.0))
    times.pause(Reading(4.1, 6.5, 5.25))

    assert (times.paused_s, times.paused_cpu_s) == (2.0, 0.5)
    assert times.ran_s == pytest.approx(1.0)
    assert (times.cpu_s, times.main_s) == (1.0, 0.25)
    assert times.used_s == 1.5


TWO_CORES = """
import os, threading
import numpy as np


def prepare(spec, a, b, *, threads):
    half = a.shape[0] // 2

    def part(x, out):
        os.sched_setaffinity(0, range(os.cpu_count()))
        np.matmul(x, b, out=out)

    def call():
        out = np.empty(spec.output_shape(), spec.numpy_dtype)
        other = threading.Thread(target=part, args=(a[:half], out[:half]))
        other.start()
        part(a[half:], out[half:])
        other.join()
        return out

    return call
"""


@pytest.mark.skipif(len(usable_cpus()) < 2, reason="one processor")
def test_a_candidate_that_takes_more_cores_than_it_was_given_is_doubtful(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TWO_CORES)

    result = profkit.measure(
        profkit.MatMul(m=64, n=64, k=64), only="numpy", candidates=[str(tmp_path / "mine.py")], threads=1,
        budget_s=0.3,
    )  # fmt: skip

    row, numpy_row = (result.cells[0].row(f"matmul/{name}") for name in ("candidate/cpu/mine", "numpy/cpu"))
    assert row.status == "ok" and row.verdict != "faster"
    assert "its threads left the processors that they were given" in row.doubts
    assert numpy_row.doubts == []
