"""The process between parent and worker: silent while it waits, and the first to know how the worker ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from profkit.frameworks.adapter import Implementation
from profkit.measurement.cores import cores_for
from profkit.measurement.workers import supervisor
from profkit.measurement.workers.process import WorkerProcess, WorkerSettings
from tests.support.processes import finish, state_of, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has supervisors")

LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("supervisor", sys.argv[1])
supervisor = importlib.util.module_from_spec(spec)
before = set(sys.modules)
spec.loader.exec_module(supervisor)
"""
# The worker aborts, and nothing can end its child.
HELD_CHILD = (
    LOAD
    + """
import os, time
pauses, sleep = [], time.sleep


def pause(seconds):
    pauses.append(seconds)
    if len(pauses) == 20:
        print(max(pauses), flush=True)
        really_kill(int(open(sys.argv[2]).read()), 9)
        os._exit(0)


really_kill, os.kill, time.sleep = os.kill, lambda *_: None, pause
parent, others = int(sys.argv[3]), [os.open(os.devnull, os.O_RDWR) for _ in range(2)]
settings = {"parent": parent, "read_fd": others[0], "write_fd": others[1], "status_fd": int(sys.argv[4]), "folders": []}
supervisor.split(settings)
if os.fork() == 0:
    open(sys.argv[2], "w").write(str(os.getpid()))
    sleep(1000)
    os._exit(0)
while not os.path.exists(sys.argv[2]) or not open(sys.argv[2]).read():
    sleep(0.01)
os.abort()
"""
)


def run(
    program: str, *words: str, pass_fds: Sequence[int] = (), flags: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *flags, "-c", program, *words]
    return finish(command, pass_fds=pass_fds)


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess(Implementation("matmul/numpy/cpu", "numpy"), WorkerSettings(1, cores_for(1)))
    try:
        assert wait_until(lambda: process.answer() is None and process.pid > 0)
        yield process
    finally:
        process.kill()


def wakings(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def test_pausing_and_resuming_a_worker_does_not_wake_its_supervisor(worker: WorkerProcess) -> None:
    assert wait_until(lambda: state_of(worker.process.pid) == "S")
    before = wakings(worker.process.pid)

    for _ in range(50):
        worker.pause()
        assert wait_until(lambda: state_of(worker.pid) == "T")
        worker.resume()
        assert wait_until(lambda: state_of(worker.pid) != "T")

    assert wakings(worker.process.pid) == before


def test_an_ended_worker_is_not_signalled_any_more(worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another process's by now."""
    number = worker.pid
    os.kill(number, signal.SIGKILL)
    assert wait_until(lambda: not Path(f"/proc/{number}").exists())
    assert worker.process.wait() == -signal.SIGKILL
    met: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _: met.append(pid))
    monkeypatch.setattr(os, "sched_setaffinity", lambda task, _: met.append(task))
    monkeypatch.setattr(os, "listdir", lambda _: ["1"])

    worker.pause()
    worker.resume()
    worker.move_to_cores([0])

    assert met == []


def test_the_end_of_the_worker_is_told_while_what_it_started_lives(tmp_path: Path) -> None:
    read, write = os.pipe()
    try:
        words = [str(supervisor.__file__), str(tmp_path / "child"), str(os.getpid()), str(write)]
        done = run(HELD_CHILD, *words, pass_fds=(write,))
        os.close(write)
        said = os.read(read, 100)
    finally:
        os.close(read)

    assert said == b"%d\n" % -signal.SIGABRT
    # What cannot be ended costs a look every few seconds.
    assert float(done.stdout) > 1


def test_a_supervisor_without_its_parent_says_why_it_ends() -> None:
    program = LOAD + "supervisor.split({'parent': 1 << 30})"

    done = run(program, str(supervisor.__file__))

    assert done.returncode != 0
    assert f"not {1 << 30}" in done.stderr


def test_a_worker_does_not_import_what_only_its_supervisor_needs() -> None:
    program = LOAD + "print(*sorted({'glob', 'shutil'} & (set(sys.modules) - before)))"

    done = run(program, str(supervisor.__file__), flags=["-S"])

    assert (done.returncode, done.stdout.split()) == (0, [])


def test_a_worker_that_ctrl_c_met_half_started_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    really_start, started = subprocess.Popen, []

    def start(*arguments: Any, **options: Any) -> None:
        started.append(really_start(*arguments, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        WorkerProcess(Implementation("matmul/numpy/cpu", "numpy"), WorkerSettings(1, cores_for(1)))

    assert started[0].wait(timeout=60) is not None
