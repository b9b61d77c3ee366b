"""What a worker starts is stopped, continued, moved and ended with it, in whatever session it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import profkit
from profkit.frameworks.adapter import Implementation
from profkit.measurement.cores import cores_for, usable_cpus
from profkit.measurement.workers import descendants
from profkit.measurement.workers.descendants import Descendants, is_stopped, last_pid, process_cpu_s
from profkit.measurement.workers.process import WorkerProcess, WorkerSettings
from profkit.measurement.workers.requests import ask_one
from profkit.measurement.workers.scheduling import Scheduling, is_raised
from tests.support.processes import state_of, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has supervisors")

# Two that compute: a child in a session of its own, and an orphan in another; and the worker's own thread.
STARTS = """
import os, threading


def compute():
    open({pids!r}, "a").write(f"{{os.getpid()}}\\n")
    while True:
        pass


if os.fork() == 0:
    os.setsid()
    compute()
middle = os.fork()
if middle == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        compute()
    os._exit(0)
os.waitpid(middle, 0)


def matmul(spec, a, b):
    return a @ b
"""
FORKS_ALWAYS = """
import os, threading, time


def fork_on():
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.3)
            os._exit(0)
        open({pids!r}, "a").write("x")
        time.sleep(0.001)


threading.Thread(target=fork_on, daemon=True).start()


def matmul(spec, a, b):
    return a @ b
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


def start(source: str, tmp_path: Path, pids: Path) -> WorkerProcess:
    """A worker that has loaded this candidate."""
    path = tmp_path / "mine.py"
    path.write_text(source.format(pids=str(pids)))
    options = {"path": str(path), "function": "matmul"}
    implementation = Implementation("matmul/candidate/cpu/mine", "candidate", options=options)
    worker = WorkerProcess(implementation, WorkerSettings(1, cores_for(1)))
    request = {"key": implementation.key, "adapter": "candidate", "options": options, "conditions": {"threads": 1}}
    ask_one(worker, 60.0, {"do": "start", **request})
    return worker


@pytest.fixture
def worker(tmp_path: Path, pids: Path) -> Iterator[WorkerProcess]:
    process = start(STARTS, tmp_path, pids)
    try:
        assert wait_until(lambda: len(started(pids)) == 2)
        yield process
    finally:
        process.kill()


def started(pids: Path) -> list[int]:
    return [int(line) for line in pids.read_text().split()] if pids.exists() else []


def test_all_below_a_worker_stop_with_it_and_go_on_with_it(worker: WorkerProcess, pids: Path) -> None:
    worker.pause()
    used = [process_cpu_s(pid) for pid in started(pids)]
    assert all(map(is_stopped, [worker.pid, *started(pids)]))
    time.sleep(0.03)
    assert [process_cpu_s(pid) for pid in started(pids)] == used

    worker.resume()

    assert wait_until(lambda: all(process_cpu_s(pid) > before for pid, before in zip(started(pids), used)))
    assert worker.times.paused_cpu_s == 0.0


def test_all_below_a_worker_go_to_its_cores_and_end_with_it(worker: WorkerProcess, pids: Path) -> None:
    core = usable_cpus()[-1]

    worker.move_to_cores([core])
    assert [os.sched_getaffinity(pid) for pid in started(pids)] == [{core}, {core}]
    worker.kill()

    assert all(state_of(pid) in "ZX" for pid in started(pids))


def test_what_a_descendant_computes_in_its_workers_turn_is_counted_with_it(worker: WorkerProcess, pids: Path) -> None:
    worker.pause()
    worker.resume()
    used = [process_cpu_s(pid) for pid in started(pids)]
    assert wait_until(lambda: sum(map(process_cpu_s, started(pids))) > sum(used) + 0.02)
    worker.pause()

    assert worker.times.cpu_s > 0.02
    assert worker.times.main_s < 0.02


def test_a_descendant_that_somebody_continues_is_told(worker: WorkerProcess, pids: Path) -> None:
    worker.pause()
    (pid, _) = started(pids)
    before = process_cpu_s(pid)
    os.kill(pid, signal.SIGCONT)
    assert wait_until(lambda: process_cpu_s(pid) > before + 0.02)
    worker.resume()

    assert worker.times.paused_cpu_s > 0.02


def test_who_changes_a_stopped_worker_is_noticed_and_it_is_set_right(worker: WorkerProcess) -> None:
    worker.move_to_cores(usable_cpus())
    nice = os.getpriority(os.PRIO_PROCESS, worker.pid)
    worker.pause()
    worker.resume()
    assert not worker.times.is_tampered_with
    worker.pause()
    os.sched_setaffinity(worker.pid, usable_cpus()[:1])
    os.setpriority(os.PRIO_PROCESS, worker.pid, 19)

    worker.resume()

    assert worker.times.is_tampered_with == (nice != 19 or len(usable_cpus()) > 1)
    assert os.sched_getaffinity(worker.pid) == set(usable_cpus())
    if os.geteuid() == 0:  # others may only lower a priority
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == nice


def test_moving_a_worker_is_not_taken_for_somebody_elses_doing(worker: WorkerProcess) -> None:
    worker.pause()
    worker.move_to_cores(usable_cpus()[-1:])
    worker.resume()
    worker.pause()

    assert (worker.times.is_tampered_with, worker.times.has_left_cores, worker.times.is_raised) == (False,) * 3


def test_a_priority_above_ours_is_told() -> None:
    nice, cores = os.getpriority(os.PRIO_PROCESS, 0), frozenset(usable_cpus())
    own = Scheduling(cores, nice, os.SCHED_OTHER)

    assert not is_raised({1: own, 2: Scheduling(cores, 19, os.SCHED_IDLE)}, own)
    assert is_raised({1: Scheduling(cores, nice - 1, os.SCHED_OTHER)}, own)
    assert is_raised({1: Scheduling(cores, nice, os.SCHED_FIFO)}, own)


@pytest.mark.parametrize("has_paused", [False, True])
def test_a_worker_that_ended_its_supervisor_leaves_nothing(worker: WorkerProcess, pids: Path, has_paused: bool) -> None:
    if has_paused:  # then its descendants are known, otherwise orphans are found by their environment
        worker.pause()
        worker.resume()
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.kill()

    assert wait_until(lambda: all(state_of(pid) in "ZX" for pid in started(pids)), 5.0)


def test_a_worker_that_stopped_its_supervisor_ends_at_once(worker: WorkerProcess, pids: Path) -> None:
    os.kill(worker.process.pid, signal.SIGSTOP)
    worker.kill()

    assert worker.process.poll() is not None
    assert wait_until(lambda: all(state_of(pid) in "ZX" for pid in started(pids)), 5.0)


@pytest.mark.full
def test_nothing_escapes_that_is_forked_while_it_is_stopped(tmp_path: Path, pids: Path) -> None:
    process = start(FORKS_ALWAYS, tmp_path, pids)
    try:
        for _ in range(30):
            process.pause()
            below = Descendants(process.process.pid)
            below.look()
            time.sleep(0.005)
            below.look()
            assert [pid for pid in below.pids if not is_stopped(pid)] == []
            process.resume()
            pids.unlink(missing_ok=True)
            assert wait_until(pids.exists)
        assert process.times.paused_cpu_s < 0.005
    finally:
        process.kill()


def test_a_thread_is_not_taken_for_a_process() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    below = Descendants(os.getppid())
    below.look()
    below.look()
    thread.start()
    try:
        below.look()
        assert thread.native_id not in below.pids
        assert os.getpid() in below.pids
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("told", [None, 1 << 21], ids=["nothing", "always the same"])
def test_a_system_that_tells_no_numbers_is_looked_through(told: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descendants, "last_pid", lambda: told)
    monkeypatch.setattr(descendants, "FULL_SCAN_S", 0.0)
    monkeypatch.setattr(descendants, "FULL_SCAN_SHARE", 1e9)
    below = Descendants(os.getpid())
    for _ in range(3):
        below.look()
    monkeypatch.setattr(descendants, "FULL_SCAN_S", 1e9)

    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            pid = child.pid
            below.look()
            below.look()
            assert pid in below.pids
            child.kill()


def test_the_number_given_last_is_that_of_the_youngest_process() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)

    assert (last_pid() or 0) >= child


@pytest.mark.full
def test_a_helper_in_a_session_of_its_own_wins_nothing(tmp_path: Path) -> None:
    """Its processor time is in its own turns, where it slows its own calls down."""
    (tmp_path / "mine.py").write_text(STARTS.format(pids=str(tmp_path / "pids")))

    result = profkit.measure(
        profkit.MatMul(m=256, n=256, k=256), only="numpy", candidates=[f"{tmp_path / 'mine.py'}:matmul"],
        threads=1, budget_s=2.0,
    )  # fmt: skip

    row = result.cells[0].row("matmul/candidate/cpu/mine")
    assert row.status == "ok", row.reason
    assert row.verdict != "faster"
