"""Real workers that misbehave in every way a kernel can, all of them in one table: each costs its own row only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import profkit
from profkit.frameworks.adapter import Implementation
from profkit.measurement import cell
from profkit.measurement.cores import cores_for
from profkit.measurement.result import Row
from profkit.measurement.workers.process import WorkerProcess, WorkerSettings
from tests.frameworks.candidate.candidate_files import needs_compiler
from tests.measurement.checks import cheats
from tests.support import counted_time
from tests.support.processes import finish, wait_until, workers_of
from tests.support.reopened import reopened

SPEC = profkit.MatMul(m=8, n=8, k=8)
# Writable pipes of the worker process are where its replies go.
KERNEL = """
import fcntl
import os
import stat
import sys
import threading
import time

import numpy as np

state = dict(calls=0)


def work():
    while True:
        pass


WORK = threading.Thread(target=work, daemon=True)


def pipes():
    return [fd for fd in range(3, 64) if is_pipe(fd)]


def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY
    except OSError:
        return False


def matmul(spec, a, b):
    {before}
    return a @ b
"""
LINE = KERNEL[: KERNEL.index("{before}")].count("\n") + 1
KERNELS = {
    "right": "",
    "wrong": "a = a + np.float32(0.001)",
    "wrong_element": "c = a @ b; c[2, 5] = np.nan; c[7, 0] += 1; return c",
    "nan": "a = a * np.float32('nan')",
    "wrong_shape": "a = a[:3]",
    "raises": "raise ValueError('no such tile')",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "aborts": "print('tile 7 broke', file=sys.stderr, flush=True); os.abort()",
    "exits": "os._exit(7)",
    "killed": "os.kill(os.getpid(), 9)",
    "out_of_memory": "raise MemoryError('too large')",
    "raises_late": "state['calls'] += 1; 1 / (state['calls'] < 400)",
    "returns_dict": "return {'a': 1}",
    "returns_text": "return np.array([['x']])",
    "returns_complex": "return (a @ b).astype(np.complex64)",
    "returns_float64": "return (a @ b).astype(np.float64)",
    "imports_nothing": "import numppy",
    "closes_pipes": "os.closerange(3, 256); time.sleep(1000)",
    "forks_and_aborts": "os.fork() or time.sleep(1000); os.abort()",
    "forks": "os.fork() or sys.exit(0)",
    "right_for_a_while": "state['calls'] += 1; b = b * (state['calls'] < 30)",
    "right_on_random_inputs": "b = b * (np.abs(a).max() < 1e6)",
    "works_on": "state['calls'] += 1; state['calls'] == 1 and WORK.start()",
    "greedy": "np.ones(64 << 20, np.uint8)",
    "prints": 'print(\'{"do": "nonsense"}\', flush=True)',
}
HANGING = {
    "hangs": "time.sleep(1000)",
    "writes_nonsense": "[os.write(fd, b'x') for fd in pipes()]; time.sleep(1000)",
}
Rows = Mapping[str, Row]


def rows_of(folder: Path, kernels: Mapping[str, str], **options: Any) -> Rows:
    """The rows of candidates that do something before they multiply, in one table with NumPy, which none disturbs."""
    for name, before in kernels.items():
        (folder / f"{name}.py").write_text(KERNEL.replace("{before}", before))
    candidates = [f"{folder / name}.py:matmul" for name in kernels]
    settings: dict[str, Any] = {"budget_s": 1.0, "timeout_s": 60.0, **options}

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cell, "race", counted_time.race)
        result = profkit.measure(SPEC, only="numpy", candidates=candidates, threads=1, **settings)

    numpy_row = result.cells[0].row("matmul/numpy/cpu")
    assert numpy_row.status == "ok", numpy_row.reason
    assert numpy_row.samples_ns
    # Whatever happened, the file of it can be opened again.
    assert reopened(result).to_dict() == result.to_dict()
    return {name: result.cells[0].row(f"matmul/candidate/cpu/{name}") for name in kernels}


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Everybody in one table."""
    return rows_of(tmp_path_factory.mktemp("kernels"), KERNELS)


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Those whose time is over."""
    return rows_of(tmp_path_factory.mktemp("hanging"), HANGING, timeout_s=6.0)


def test_a_right_candidate_is_checked_timed_and_compared(rows: Rows) -> None:
    row = rows["right"]

    assert row.status == "ok"
    assert row.max_error is not None and row.tolerance is not None and row.max_error <= row.tolerance
    assert row.median_ns is not None and row.low_ns is not None and row.high_ns is not None
    assert 0 < row.low_ns <= row.median_ns <= row.high_ns
    assert row.first_call_ns is not None and row.first_call_ns > 0
    assert row.ratio_low is not None and row.ratio is not None and row.ratio_low <= row.ratio
    assert row.verdict in ("faster", "slower", "same", "not resolved")
    assert len(row.samples_ns) == len(row.sample_rounds) > 0


def test_a_wrong_result_is_a_wrong_row_and_is_not_timed(rows: Rows) -> None:
    row = rows["wrong"]

    assert row.status == "wrong"
    assert "exceeds the tolerance" in row.reason
    assert row.max_error is not None and row.max_error > 1e-4
    assert row.samples_ns == [] and row.median_ns is None


@pytest.mark.parametrize(
    ("name", "status", "words"),
    [
        ("nan", "wrong", ["exceeds the tolerance"]),
        ("wrong_shape", "wrong", ["(3, 8)", "(8, 8)"]),
        ("raises", "crashed", ["ValueError: no such tile", f"raises.py:{LINE}"]),
        ("segfault", "crashed", ["SIGSEGV"]),
        ("aborts", "crashed", ["SIGABRT", "tile 7 broke"]),
        ("exits", "crashed", ["exit code 7"]),
        ("killed", "crashed", ["SIGKILL"]),
        ("out_of_memory", "oom", []),
        ("returns_dict", "wrong", ["dtype object"]),
        ("returns_text", "wrong", ["dtype"]),
        ("returns_complex", "wrong", ["dtype complex64, expected float32"]),
        ("returns_float64", "wrong", ["dtype float64, expected float32"]),
        ("imports_nothing", "crashed", ["numppy"]),  # in its call, not when it is loaded
        ("closes_pipes", "crashed", ["closed its pipe"]),
        ("forks_and_aborts", "crashed", ["SIGABRT"]),
        ("forks", "ok", []),
        ("right_for_a_while", "wrong", ["right at first, wrong "]),
        (
            "right_on_random_inputs",
            "wrong",
            ["right on random inputs, wrong with magnitudes from 2^-24", "64 of 64 differ"],
        ),
        ("prints", "ok", []),  # the protocol is not disturbed
    ],
)
def test_a_kernel_gets_the_status_it_deserves(rows: Rows, name: str, status: str, words: Sequence[str]) -> None:
    row = rows[name]

    assert row.status == status, row.reason
    assert [word for word in words if word not in row.reason] == [], row.reason


@pytest.mark.parametrize(("name", "words"), [("hangs", ["6 s", "--timeout"]), ("writes_nonsense", ["no answer"])])
def test_a_hang_is_a_timeout(hanging: Rows, name: str, words: Sequence[str]) -> None:
    row = hanging[name]

    assert row.status == "timeout", row.reason
    assert [word for word in words if word not in row.reason] == [], row.reason


def test_work_that_is_left_running_is_told(rows: Rows) -> None:
    row = rows["works_on"]

    assert row.status == "ok", row.reason
    assert "it still computed 1 s after its last call" in row.doubts
    assert row.verdict != "faster"
    assert [name for name, other in rows.items() if other.doubts] == ["works_on"]


def test_a_wrong_row_says_where(rows: Rows) -> None:
    row = rows["wrong_element"]

    assert row.status == "wrong"
    assert row.reason.startswith("at (2, 5) it is nan, expected ")
    assert "; 2 of 64 differ, 1 of them NaN; error inf exceeds the tolerance" in row.reason
    assert (row.wrong_index, row.wrong_elements, row.checked_elements, row.nan_elements) == ([2, 5], 2, 64, 1)
    assert row.wrong_expected is not None


def test_the_memory_limit_ends_the_greedy_row_only(tmp_path: Path) -> None:
    row = rows_of(tmp_path, {"greedy": "np.ones(3 << 30, np.uint8)"}, memory_limit_bytes=2 << 30)["greedy"]

    assert row.status == "oom"
    assert "GiB" in row.reason or "allocate" in row.reason


def test_a_failure_while_sampling_keeps_the_row_out_of_the_ratios(rows: Rows) -> None:
    row = rows["raises_late"]

    assert row.status == "crashed"
    assert "ZeroDivisionError" in row.reason
    assert row.ratio is None


def test_memory_of_the_call_is_what_it_needs_beside_inputs_and_output(rows: Rows) -> None:
    plain, greedy = rows["right"], rows["greedy"]

    assert plain.peak_bytes is not None and plain.peak_bytes < 8 << 20
    assert greedy.peak_bytes is not None and 60 << 20 <= greedy.peak_bytes <= 72 << 20


def test_page_faults_are_counted_per_call(rows: Rows) -> None:
    row = rows["greedy"]

    assert row.page_faults is not None
    assert row.page_faults >= 16  # 64 MiB in pages of at most 2 MiB, returned and taken anew by every call


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_a_kernel_that_stops_writing_does_not_pass_with_what_is_left_in_its_outputs_memory(
    tmp_path: Path, output: str
) -> None:
    spec = profkit.MatMul(m=512, n=512, k=2)  # an output that is pooled
    source = """
      #include <profkit/params.h>
      extern "C" int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int) {
        static int calls = 0;
        if (++calls > 30) return 0;
        const float *a = static_cast<const float*>(in[0]), *b = static_cast<const float*>(in[1]);
        float* c = static_cast<float*>(out);
        for (int64_t i = 0; i < p->m * p->n; ++i) {
          c[i] = 0;
          for (int64_t k = 0; k < p->k; ++k) c[i] += a[i / p->n * p->k + k] * b[k * p->n + i % p->n];
        }
        return 0;
      }
    """
    path = tmp_path / "lazy.cpp"
    path.write_text(source)

    result = profkit.measure(spec, only="numpy", candidates=[str(path)], threads=1, output=output, budget_s=0.2)

    row = result.cells[0].row("matmul/candidate/cpu/lazy")
    assert (row.status, row.output) == ("wrong", output), row.reason
    assert "right at first, wrong " in row.reason


NOTES_ITS_PLACE_ON_THE_STACK = """
#include <stdio.h>

int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int threads) {
  static unsigned char is_known[64];
  static int known;
  volatile char here = 0;
  unsigned char* place = &is_known[((uintptr_t)&here & 4095) / 64];
  (void)threads, (void)here;
  known += !*place;
  *place = 1;
  if (known == 48) fclose(fopen("{found}", "w"));
  product(p, in[0], in[1], out, 0, p->m);
  return 0;
}
"""


@pytest.mark.full
@needs_compiler
def test_samples_begin_at_changing_places_of_the_stack(tmp_path: Path) -> None:
    text = cheats.PRODUCT_IN_C + NOTES_ITS_PLACE_ON_THE_STACK.replace("{found}", str(tmp_path / "found"))
    (tmp_path / "mine.c").write_text(text)

    rows = profkit.measure(SPEC, only="candidate", candidates=[str(tmp_path / "mine.c")], threads=1, budget_s=0.5)

    assert [row.status for row in rows.cells[0].rows] == ["ok"]
    assert (tmp_path / "found").exists()


def test_nothing_that_can_run_is_a_table_of_reasons(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(KERNEL.replace("{before}", "a = a + np.float32(1)"))

    result = profkit.measure(SPEC, only="candidate", candidates=[f"{path}:matmul"], threads=1, budget_s=0.3)

    assert [row.status for row in result.cells[0].rows] == ["wrong"]
    assert result.cells[0].baseline is None


def test_a_worker_that_cannot_be_started_is_a_crashed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("profkit.measurement.workers.process.subprocess.Popen", refuse)
    before = len(os.listdir("/proc/self/fd"))

    result = profkit.measure(SPEC, only="numpy", threads=1, budget_s=0.3)

    assert [row.status for row in result.cells[0].rows] == ["crashed"]
    assert "Too many open files" in result.cells[0].rows[0].reason
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    path, calls = tmp_path / "mine.py", tmp_path / "calls"
    calls.touch()
    path.write_text(KERNEL.replace("{before}", f"time.sleep(0.05); open({str(calls)!r}, 'a').write('x')"))
    command = [sys.executable, "-m", "profkit.matmul", "--m", "8", "--n", "8", "--k", "8"]
    command += ["--only", "numpy", "--candidate", f"{path}:matmul", "--budget", "60s", "--margin", "0.01%"]

    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    sampling = wait_until(lambda: calls.stat().st_size > 30)
    started = len(workers_of(parent.pid))
    os.kill(parent.pid, number)
    output, _ = parent.communicate(timeout=30)
    gone = wait_until(lambda: not workers_of(parent.pid), 10.0)

    assert sampling
    assert started == 4  # two workers, each with its supervisor
    assert gone
    assert wait_until(lambda: not list(Path("/dev/shm").glob(f"profkit-{parent.pid}-*")), 10.0)
    if number == signal.SIGINT:
        assert parent.returncode == 130
        assert "candidate/mine" in output  # what was measured is printed


FORKS_TWICE = """
import os
from profkit.measurement.workers.operator import close_in_children

read, write = os.pipe()
close_in_children(read)
if os.fork() == 0:
    own = os.open(os.devnull, os.O_RDONLY)
    if os.fork() == 0:
        os.fstat(own)
        os._exit(0)
    os._exit(own != read or os.wait()[1] != 0)
os._exit(os.wait()[1] != 0)
"""


def test_a_childs_own_child_keeps_the_files_that_have_the_numbers_of_the_pipes() -> None:
    done = finish([sys.executable, "-c", FORKS_TWICE])

    assert (done.returncode, done.stderr) == (0, "")


def test_a_worker_that_nobody_can_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a driver keeps in the kernel after its device was lost."""
    worker = WorkerProcess(Implementation("matmul/numpy/cpu", "numpy"), WorkerSettings(1, cores_for(1)))
    really_wait = worker.process.wait

    def wait(timeout: float | None = None) -> int:
        if timeout is None:
            raise AssertionError("this would wait for ever")
        raise subprocess.TimeoutExpired("worker", timeout)

    monkeypatch.setattr(worker.process, "wait", wait)
    worker.kill()

    # By SIGTERM when it had not become supervisor and worker yet.
    assert really_wait() in (-signal.SIGKILL, -signal.SIGTERM)
