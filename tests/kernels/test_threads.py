"""The thread pool: every part runs once, errors come back, nesting, concurrent callers and forks are safe."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from profkit import _core
from profkit.errors import KernelError
from profkit.ops.matmul import MatMul
from tests.kernels.kernel_calls import run_kernel
from tests.support.places import SOURCES
from tests.support.processes import succeed
from tests.support.sanitized_programs import build_program


# Alone, a smaller job after a larger one, and several groups, whose leaders start the rest; 17 leaves one alone.
@pytest.mark.parametrize(
    "jobs", [[1], [2], [3], [8], [5, 2, 1, 3], *([threads, 3, threads - 1] for threads in (9, 17, 40))], ids=str
)
def test_every_part_of_every_job_runs_exactly_once(jobs: list[int]) -> None:
    runs = [_core.probe_parallel(threads) for _ in range(60) for threads in jobs]

    assert runs == [[1] * threads for _ in range(60) for threads in jobs]


def test_a_fork_and_its_join_are_timed_once_per_round() -> None:
    times = _core.probe_fork_join(2, 50, gap_ns=1000)

    assert len(times) == 50
    assert min(times) > 0


def test_nested_calls_run_all_their_parts() -> None:
    runs = _core.probe_parallel(3, nested=4)

    assert runs == [1] * 12


@pytest.mark.parametrize("thread", [0, 1, 2])
def test_an_error_in_any_part_reaches_the_caller_and_the_pool_survives(thread: int) -> None:
    with pytest.raises(KernelError, match=f"part {thread} was made to fail"):
        _core.probe_parallel(3, throwing_thread=thread)

    assert _core.probe_parallel(3) == [1, 1, 1]


def test_callers_from_several_python_threads_take_turns() -> None:
    with ThreadPoolExecutor(4) as executor:
        runs = list(executor.map(lambda _: _core.probe_parallel(3, nested=2), range(200)))

    assert runs == [[1] * 6] * 200


def test_several_python_threads_get_right_results_at_the_same_time() -> None:
    spec, key = MatMul(65, 63, 257), _core.kernels("matmul")[0]
    expected = run_kernel(key, spec, 2).tobytes()

    with ThreadPoolExecutor(4) as executor:
        results = list(executor.map(lambda _: run_kernel(key, spec, 2).tobytes(), range(20)))

    assert set(results) == {expected}


FORKING = """
import os, sys
from profkit import _core

assert _core.probe_parallel(3) == [1, 1, 1]
child = os.fork()
if child == 0:
    os._exit(0 if _core.probe_parallel(3) == [1, 1, 1] and _core.probe_parallel(4) == [1] * 4 else 1)
status = os.waitpid(child, 0)[1]
assert _core.probe_parallel(3) == [1, 1, 1]
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_forked_child_gets_threads_of_its_own() -> None:
    # In a separate process: nothing else that is imported here may have threads or fork handlers.
    succeed([sys.executable, "-W", "ignore", "-c", FORKING])


@pytest.mark.full
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_jobs_from_several_callers_are_clean_under_sanitizers(sanitizer: str, tmp_path: Path) -> None:
    program = build_program(
        tmp_path / "stress_threads",
        [Path(__file__).parent / "native" / "stress_threads.cpp", SOURCES / "runtime" / "threads.cpp"],
        sanitizer,
    )

    output = succeed([str(program)])

    expected = sum(2 + (turn * 7 + caller * 5) % 18 for caller in range(3) for turn in range(150))
    assert int(output) == expected
