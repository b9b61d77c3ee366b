"""Nothing of a run stays behind: no folder in shared memory, no process in whatever session, however the run ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import profkit
from profkit.measurement import arrays
from profkit.measurement.arrays import array_folder, remove_leftovers, scratch_folder
from tests.support.places import ROOT
from tests.support.processes import state_of, wait_until

# Runs in the candidate's worker: children that leave the worker's session and process group, one of them an orphan.
RUNAWAYS = """
import os, subprocess, sys, time

SLEEP = [sys.executable, "-c", "import time; time.sleep(1000)"]
DAEMON = '''
import os, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.close(1)
open({pids!r}, "a").write(f"{{os.getpid()}}\\\\n")
time.sleep(1000)
'''


def matmul(spec, a, b):
    if not os.path.exists({pids!r}):
        child = subprocess.Popen(SLEEP, start_new_session=True)
        open({pids!r}, "a").write(f"{{child.pid}}\\n")
        subprocess.run([sys.executable, "-c", DAEMON], check=True)
        while len(open({pids!r}).readlines()) < 2:
            time.sleep(0.01)
        open({pids!r}, "a").write(f"{{os.getpid()}}\\n")
    {then}
    return a @ b
"""


def started(pids: Path) -> list[int]:
    """The processes of the candidate: two children and the worker itself; empty until all are there."""
    found = [int(line) for line in pids.read_text().split()] if pids.exists() else []
    return found if len(found) == 3 else []


def candidate(tmp_path: Path, then: str = "pass") -> tuple[str, Path]:
    pids, path = tmp_path / "pids", tmp_path / "mine.py"
    path.write_text(RUNAWAYS.format(pids=str(pids), then=then))
    return f"{path}:matmul", pids


@pytest.mark.parametrize(
    ("then", "status", "words"),
    [
        ("pass", "ok", ""),
        ("os.abort()", "crashed", "SIGABRT"),
        ("os.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
        ("os._exit(7)", "crashed", "exit code 7"),
        pytest.param("time.sleep(1000)", "timeout", "no answer", marks=pytest.mark.full),
    ],
)
def test_children_in_sessions_of_their_own_end_with_the_run(tmp_path: Path, then: str, status: str, words: str) -> None:
    source, pids = candidate(tmp_path, then)

    result = profkit.measure(
        profkit.MatMul(m=8, n=8, k=8), only="numpy", candidates=[source], threads=1, budget_s=0.2, timeout_s=10.0
    )

    row = result.cells[0].row("matmul/candidate/cpu/mine")
    assert (row.status, words in row.reason) == (status, True)
    assert len(started(pids)) == 3
    # When measure returns they are gone already.
    assert not [pid for pid in started(pids) if state_of(pid) not in "ZX"]


@pytest.mark.parametrize(
    ("number", "then"),
    [
        (signal.SIGKILL, "time.sleep(1000)"),
        (signal.SIGTERM, "time.sleep(1000)"),
        pytest.param(signal.SIGKILL, "os.kill(os.getppid(), 19); time.sleep(1000)", id="supervisor stopped"),
    ],
)
def test_a_killed_run_leaves_neither_processes_nor_folders(tmp_path: Path, number: signal.Signals, then: str) -> None:
    source, pids = candidate(tmp_path, then)
    command = [sys.executable, "-m", "profkit.matmul", "--m", "8", "--n", "8", "--k", "8", "--only", "numpy"]
    command += ["--candidate", source, "--timeout", "600s"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as parent:
        has_started = wait_until(lambda: bool(started(pids)))
        folders = [
            path
            for place in ("/dev/shm", tempfile.gettempdir())
            for path in Path(place).glob(f"profkit-{parent.pid}-*")
        ]
        os.kill(parent.pid, number)

    assert has_started
    assert len(folders) == 3  # of the arrays and of two workers
    assert wait_until(lambda: not [pid for pid in started(pids) if state_of(pid) not in "ZX"])
    assert wait_until(lambda: not any(folder.exists() for folder in folders))


# Its main thread ends a second before the process does, as threads of a killed process end one by one.
ENDS_SLOWLY = """
import ctypes, os, platform, signal, threading, time
from profkit.frameworks.adapter import Implementation
from profkit.measurement.arrays import scratch_folder
from profkit.measurement.cores import cores_for
from profkit.measurement.workers.process import WorkerProcess, WorkerSettings
from tests.support.processes import workers_of

def end():
    time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)

with scratch_folder() as folder:
    worker = WorkerProcess(Implementation("matmul/numpy/cpu", "numpy"), WorkerSettings(1, cores_for(1)))
    print(folder, flush=True)
    while len(workers_of(os.getpid())) < 2:
        time.sleep(0.01)
    time.sleep(0.3)
    threading.Thread(target=end).start()
    ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
"""


def test_a_folder_is_removed_although_the_threads_of_the_killed_run_end_one_by_one() -> None:
    command = [sys.executable, "-c", ENDS_SLOWLY]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)

    folder = Path(done.stdout.strip())
    assert done.returncode == -signal.SIGKILL
    assert folder.name.startswith("profkit-")
    assert wait_until(lambda: not folder.exists(), 10.0)


def test_files_of_a_compiler_that_takes_too_long_go_with_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, compiler, begun, place = (tmp_path / name for name in ("mine.cpp", "slow_compiler", "begun", "tmp"))
    kernel.touch()
    place.mkdir()
    compiler.write_text(f"#!/bin/sh\nmktemp >{begun}\nsleep 1000\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))

    result = profkit.measure(profkit.MatMul(m=8, n=8, k=8), only="candidate", candidates=str(kernel), timeout_s=5.0)

    assert [row.status for row in result.cells[0].rows] == ["timeout"]
    assert begun.read_text().startswith(str(place))
    assert list(place.iterdir()) == []


def test_what_no_supervisor_removed_the_next_run_does_at_once(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from profkit.measurement.arrays import scratch_folder\n"
        "with scratch_folder(Path(sys.argv[1])) as folder:\n"
        "    print(folder, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    (tmp_path / "profkit-objects-of-others").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        remove_leftovers(tmp_path)
        assert folder.is_dir()
        owner.kill()

    assert folder.is_dir()
    with scratch_folder(tmp_path) as own:
        assert not folder.exists()
        assert {path.name for path in tmp_path.iterdir()} == {Path(own).name, "profkit-objects-of-others"}
    assert [path.name for path in tmp_path.iterdir()] == ["profkit-objects-of-others"]


def test_shared_memory_that_a_killed_run_filled_is_free_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leftover = tmp_path / "profkit-1-0a0a0a0a-0b0b0b0b"
    leftover.mkdir()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(arrays, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0 if leftover.exists() else 1 << 40))

    with array_folder(profkit.MatMul()) as folder:
        assert Path(folder).parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_ends_while_it_makes_its_folder_leaves_one_that_the_next_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", end)
        with pytest.raises(KeyboardInterrupt):
            scratch_folder(tmp_path).__enter__()

    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_another_run_removes_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really_lock = fcntl.flock
    taken: list[Path] = []

    def lock(descriptor: int, how: int) -> None:
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].rmdir()
        really_lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock)
    with scratch_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [Path(folder)] != taken
    assert list(tmp_path.iterdir()) == []
