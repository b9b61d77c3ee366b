"""The thread pool: every part runs once, errors come back, nesting, concurrent callers and forks are safe."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from kernel_calls import run_kernel

from profkit import _core
from profkit.errors import KernelError
from profkit.ops.matmul import MatMul


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_part_runs_exactly_once(threads: int) -> None:
    runs = [_core.probe_parallel(threads) for _ in range(200)]

    assert runs == [[1] * threads] * 200


def test_a_smaller_job_after_a_larger_one_uses_fewer_threads() -> None:
    runs = [_core.probe_parallel(threads) for _ in range(100) for threads in (5, 2, 1, 3)]

    assert runs == [[1] * threads for _ in range(100) for threads in (5, 2, 1, 3)]


def test_nested_calls_run_all_their_parts() -> None:
    runs = _core.probe_parallel(3, nested=4)

    assert runs == [1] * 12


@pytest.mark.parametrize("thread", [0, 1, 2])
def test_an_error_in_any_part_reaches_the_caller_and_the_pool_survives(thread: int) -> None:
    with pytest.raises(KernelError, match=f"part {thread} was told to fail"):
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
    # In a process of its own: nothing else that is imported here may have threads or fork handlers.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
