"""What leftover_processes.py promises, seen in pytest runs of their own: of tests that hang, that leave processes, and
where signals are ignored.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support.processes import finish, with_tests

PRELUDE = """
import itertools, os, signal, subprocess, sys, pytest

SLEEP = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(1000)"]
# The sleeper is in a session of its own, below a process that waits for it.
NESTED = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEP!r}, start_new_session=True)"]

def start(command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\\n"
    return process
"""


def run_tests(folder: Path, text: str, *flags: str, ignored: tuple[signal.Signals, ...] = ()) -> tuple[int, str]:
    """pytest's exit code and what it printed."""
    # Its name tells the processes that it starts from those of other tests here.
    file = folder / f"test_{folder.name}.py"
    file.write_text(PRELUDE + text)
    (folder / "conftest.py").write_text(
        "from tests.support import leftover_processes\nleftover_processes.GRACE_S = 1.0\n"
    )

    def ignore() -> None:
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)

    command = [sys.executable, "-m", "pytest", "-p", "tests.support.leftover_processes", "-c", os.devnull]
    done = finish([*command, *flags, file], with_tests(os.environ), cwd=folder, preexec_fn=ignore)
    return done.returncode, done.stdout + done.stderr


def sleepers(folder: Path) -> list[str]:
    """Command lines of processes that the tests in this folder started and that still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"test_{folder.name}.py" in (process / "environ").read_bytes().decode(errors="replace"):
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc")


@pytest.mark.parametrize("processes", [pytest.param("0", marks=pytest.mark.full), "1"])
def test_a_test_that_waits_for_its_process_ends_with_its_timeout(processes: str, tmp_path: Path) -> None:
    hangs = "def test_hangs():\n    with start(NESTED) as process:\n        process.wait()\n"

    code, printed = run_tests(tmp_path, hangs + "def test_next(): pass\n", "--timeout=2", "-n", processes)

    assert code == 1 and "1 failed, 1 passed" in printed and "Timeout" in printed
    assert sleepers(tmp_path) == []


def test_a_run_that_is_told_to_end_leaves_nothing(tmp_path: Path) -> None:
    # The test ends the run of which it is a part.
    hangs = "def test_hangs():\n    with start(NESTED) as process:\n        os.kill(os.getppid(), 15)\n"

    code, _ = run_tests(tmp_path, hangs + "        process.wait()\n", "-n", "1")

    assert code == pytest.ExitCode.INTERRUPTED
    assert sleepers(tmp_path) == []


def test_a_test_that_hangs_in_native_code_takes_its_process_with_it_and_the_others_run(tmp_path: Path) -> None:
    hangs = "def test_hangs():\n    1 in itertools.repeat(0)\n"

    code, printed = run_tests(tmp_path, hangs + "def test_next(): pass\n", "--timeout=1", "-n", "1")

    assert code == 1 and "1 failed, 1 passed" in printed
    # Where it hung.
    assert f'test_{tmp_path.name}.py", line ' in printed and "in test_hangs" in printed


def test_what_a_test_leaves_ends_with_it_however_it_ends(tmp_path: Path) -> None:
    ends = ("pass", "assert False", "pytest.skip('no')", "raise KeyboardInterrupt")
    tests = "kept = []\n"
    for number, end in enumerate(ends):
        tests += f"def test_{number}():\n    assert all(process.wait(0) == -9 for process in kept)\n"
        tests += f"    kept.append(start(NESTED))\n    {end}\n"

    code, printed = run_tests(tmp_path, tests, "-n", "0")

    assert code == pytest.ExitCode.INTERRUPTED and "1 failed, 1 passed, 1 skipped" in printed
    assert sleepers(tmp_path) == []


def test_what_a_fixture_of_the_file_starts_serves_its_tests_and_ends_with_the_file(tmp_path: Path) -> None:
    fixture = "@pytest.fixture(scope='module')\ndef process():\n    return start(NESTED)\n"
    tests = "def test_one(process): start(SLEEP)\ndef test_two(process): assert process.poll() is None\n"

    _, printed = run_tests(tmp_path, fixture + tests, "-n", "0")

    assert "2 passed" in printed
    assert sleepers(tmp_path) == []


DISPOSITIONS = """
def test_dispositions():
    program = "import signal; print(*(signal.getsignal(n) is signal.SIG_IGN for n in (1, 2, 3)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False False False\\n"

def test_this_process_ignores_them_still():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize("processes", [pytest.param("0", marks=pytest.mark.full), "1"])
def test_signals_that_the_run_ignores_are_not_ignored_by_what_its_tests_start(processes: str, tmp_path: Path) -> None:
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)

    code, printed = run_tests(tmp_path, DISPOSITIONS, "-n", processes, ignored=ignored)

    assert code == 0, printed
