"""`python -m profkit.trace`: real programs in separate processes, what they leave, and how they end."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from profkit.capture.program import split_words, still_running
from profkit.capture.reading import read
from profkit.commands.arguments import Parser
from profkit.trace import main
from tests.commands.traced_programs import titles, trace_words, traced
from tests.support.processes import finish
from tests.support.typed import Typed

SCOPE = "import os, sys, profkit\nwith profkit.scope('work'): pass\n"


def test_the_program_keeps_its_streams_arguments_and_exit_code(tmp_path: Path) -> None:
    code = """
    import sys
    print(sys.argv[1:], input())
    print("to stderr", file=sys.stderr)
    sys.exit(3)
    """

    done = traced(tmp_path, code, "--quiet", arguments=("--output", "x", "-m", "--", "y"))

    assert (done.returncode, done.stdout) == (3, "['--output', 'x', '-m', '--', 'y'] typed\n")
    assert done.stderr == "to stderr\n"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("pass", 0),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("raise ValueError('no')", 1),
        ("profkit._core.tracer_flush(); import ctypes; ctypes.string_at(0)", 128 + signal.SIGSEGV),
        ("profkit._core.tracer_flush(); os.kill(os.getpid(), 9)", 128 + signal.SIGKILL),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 6'])", 6),
    ],
)
def test_however_the_program_ends_its_ranges_are_there_and_its_code_is_passed_on(
    tmp_path: Path, ending: str, code: int
) -> None:
    done = traced(tmp_path, SCOPE + ending)

    assert done.returncode == code, done.stderr
    assert "work" in titles(read(tmp_path / "run.profkit"))
    assert "work" in done.stdout


@pytest.mark.parametrize(
    ("ending", "flags", "code"),
    [
        ("os.execve('/bin/sh', ['sh', '-c', 'exit 0'], {})", ["--fail-on-loss"], 5),
        ("os.execve('/bin/sh', ['sh', '-c', 'exit 6'], {})", ["--fail-on-loss"], 6),
        ("os.execve('/bin/sh', ['sh', '-c', 'exit 0'], {})", [], 0),
        ("pass", ["--fail-on-loss"], 0),
    ],
)
def test_what_was_not_recorded_fails_the_command_where_that_is_asked_for(
    tmp_path: Path, ending: str, flags: list[str], code: int
) -> None:
    done = traced(tmp_path, SCOPE + ending, *flags)

    assert done.returncode == code, done.stderr
    assert ("without profkit's library in LD_PRELOAD" in " ".join(done.stdout.split())) == ("exec" in ending)


def test_a_module_and_a_program_can_be_traced_too(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("import sys, profkit\nwith profkit.scope('in ' + sys.argv[1]): pass\n")
    program = [sys.executable, "-m", "pack", "program"]

    module = subprocess.run(trace_words("--quiet", "-m", "pack", "module"), check=False, cwd=tmp_path)
    other = subprocess.run(trace_words("--quiet", "--", "sh", "-c", '"$@"', "sh", *program), check=False, cwd=tmp_path)

    assert (module.returncode, other.returncode) == (0, 0)
    assert titles(read(tmp_path / "pack.profkit")) == ["in module"]
    assert titles(read(tmp_path / "sh.profkit")) == ["in program"]


def test_fork_and_multiprocessing_give_one_process_each(tmp_path: Path) -> None:
    code = """
    import multiprocessing, os, sys, profkit

    def work(name):
        with profkit.scope(name):
            return os.getpid()

    if __name__ == "__main__":
        with profkit.scope("parent"):
            child = os.fork()
            if child == 0:
                work("forked")
                os._exit(0)
            os.waitpid(child, 0)
            for method in ("fork", "spawn"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    pool.map(work, [f"{method} {i}" for i in range(4)])
                    pool.close()
                    pool.join()
    """

    done = traced(tmp_path, code, "--quiet")
    capture = read(tmp_path / "run.profkit")

    found = titles(capture)
    assert done.returncode == 0, done.stderr
    assert [found.count(f"{method} {i}") for method in ("fork", "spawn") for i in range(4)] == [1] * 8
    assert found.count("forked") == 1
    by_process = [set(titles(capture, process)) for process in range(len(capture.processes))]
    assert not any("forked" in names and "spawn 0" in names for names in by_process)
    assert len(capture.processes) >= 6


def test_without_children_only_the_program_itself_is_recorded(tmp_path: Path) -> None:
    code = """
    import subprocess, sys, profkit
    with profkit.scope("program"):
        subprocess.run([sys.executable, "-c", "import profkit\\nwith profkit.scope('child'): pass"], check=True)
    """

    done = traced(tmp_path, code, "--quiet", "--no-children")

    assert done.returncode == 0, done.stderr
    assert titles(read(tmp_path / "run.profkit")) == ["program"]


def test_thousands_of_short_threads_are_all_there(tmp_path: Path) -> None:
    code = """
    import threading, profkit

    def work(number):
        with profkit.scope("short", payload=number):
            pass

    for start in range(0, 3000, 20):
        threads = [threading.Thread(target=work, args=(start + i,)) for i in range(20)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """

    done = traced(tmp_path, code, "--quiet")
    capture = read(tmp_path / "run.profkit")

    assert done.returncode == 0, done.stderr
    assert sorted(int(bits) for bits in capture.ranges.payload) == list(range(3000))
    assert len(set(capture.ranges.thread)) == 3000
    assert capture.losses.records == 0


def test_threads_show_the_names_that_python_gave_them(tmp_path: Path) -> None:
    code = """
    import threading, profkit

    def work():
        with profkit.scope("inside"):
            pass

    thread = threading.Thread(target=work, name="loader \u00e4")
    thread.start()
    thread.join()
    """

    done = traced(tmp_path, code, "--quiet", "--no-torch")
    capture = read(tmp_path / "run.profkit")

    assert done.returncode == 0, done.stderr
    assert capture.strings[capture.threads.name[capture.ranges.thread[0]]] == "loader \u00e4"


def test_record_inside_a_traced_program_only_warns(tmp_path: Path) -> None:
    code = """
    import profkit
    for _ in range(2):
        with profkit.record("inner.profkit"), profkit.scope("inside"):
            pass
    with profkit.scope("after"):
        pass
    """

    done = traced(tmp_path, code, "--quiet")

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("profkit.trace already records this program") == 1
    assert titles(read(tmp_path / "run.profkit")) == ["inside", "inside", "after"]
    assert not (tmp_path / "inner.profkit").exists()


WAITING = """
import signal, sys, time, profkit
count = 0

def interrupted(*_):
    global count
    count += 1

signal.signal(signal.SIGINT, interrupted)
with profkit.scope("waiting"):
    print("ready", flush=True)
    while count == 0:
        time.sleep(0.01)
    time.sleep(0.2)
with profkit.scope("cleaning"):
    sys.exit(7 if count == 1 else 8)
"""


def test_an_interrupt_for_us_alone_is_passed_on_once_and_the_capture_is_finished(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WAITING)
    words = trace_words("--output", "run.profkit", "script.py")

    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()

    assert process.returncode == 7
    assert titles(read(tmp_path / "run.profkit")) == ["waiting", "cleaning"]
    assert "cleaning" in rest


def test_ctrl_c_in_a_terminal_reaches_the_program_once(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(WAITING)
    words = trace_words("--output", "run.profkit", "--quiet", "script.py")
    # The new session takes the pseudo-terminal as its own, so that Ctrl-C goes to the whole group.
    launcher = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    )
    terminal, inside = os.openpty()

    with subprocess.Popen(
        [sys.executable, "-c", launcher, *words],
        cwd=tmp_path,
        stdin=inside,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        os.write(terminal, b"\x03")
        process.stdout.read()
    os.close(terminal)
    os.close(inside)

    assert process.returncode == 7
    assert titles(read(tmp_path / "run.profkit")) == ["waiting", "cleaning"]


def test_the_last_line_says_where_the_capture_is_and_that_it_replaces_one(tmp_path: Path) -> None:
    first = traced(tmp_path, SCOPE, "--no-torch", "--folded", "run.folded")
    second = traced(tmp_path, SCOPE, "--no-torch", "--folded", "run.folded")
    quiet = traced(tmp_path, SCOPE, "--no-torch", "--quiet")

    last = [done.stdout.splitlines()[-1] for done in (first, second)]
    assert re.fullmatch(r"run\.profkit  [\d.]+ KiB  profkit report run\.profkit", last[0])
    assert re.fullmatch(r"run\.profkit  [\d.]+ KiB  replaces an earlier capture; profkit report run\.profkit", last[1])
    assert quiet.stdout == ""


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_full_disk_behind_the_table_is_told_and_keeps_the_program_s_code(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCOPE + "sys.exit(3)")
    words = trace_words("--folded", "run.folded", "script.py")

    with open("/dev/full", "w") as full:
        done = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path)

    assert done.returncode == 3
    assert done.stderr == f"profkit trace: could not print the table: {os.strerror(errno.ENOSPC)}\n"
    assert "work" in (tmp_path / "run.folded").read_text()


LEAVES_A_CHILD = """
import os, sys, time, profkit
read, write = os.pipe()
if os.fork() == 0:
    with profkit.scope("child"):
        profkit._core.tracer_flush()
        os.write(write, b"x")
        while not os.path.exists("stop"):
            time.sleep(0.01)
    os._exit(0)
os.read(read, 1)
"""


def test_a_child_that_outlives_the_program_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("profkit.trace.GRACE_S", 60.0)
    (tmp_path / "script.py").write_text(LEAVES_A_CHILD)

    def stop_once_waited_for(pids: Sequence[int], seconds: float) -> list[int]:
        if seconds:
            (tmp_path / "stop").touch()
        return still_running(pids, seconds)

    monkeypatch.setattr("profkit.trace.still_running", stop_once_waited_for)

    code = main(["--no-torch", "script.py"])

    printed = capfd.readouterr().out
    assert code == 0
    assert (tmp_path / "stop").exists()
    assert "did not end normally" not in printed and "still running" not in printed
    assert all(process.has_ended for process in read("script.profkit").processes)


def test_a_child_that_runs_on_is_not_taken_for_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(LEAVES_A_CHILD)

    code = main(["--no-torch", "script.py"])
    (tmp_path / "stop").touch()

    printed = " ".join(capfd.readouterr().out.split())
    assert code == 0
    assert re.search(r"warning: process \d+ is still running; what is recorded from now on is not shown", printed)
    assert "did not end normally" not in printed


def test_a_failure_after_the_run_is_told_and_keeps_the_program_s_code(tmp_path: Path) -> None:
    done = traced(tmp_path, "import atexit, os, sys\nos.unlink('run.profkit')\nsys.exit(9)\n")

    assert done.returncode == 9
    assert "nothing was recorded into run.profkit" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_that_cannot_load_the_tracer_is_run_all_the_same(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "static.c").write_text("int main(void) { return 5; }\n")
    built = subprocess.run([compiler, "-static", "-o", "static", "static.c"], check=False, cwd=tmp_path)
    if built.returncode != 0:
        pytest.skip("this compiler cannot link statically")

    done = finish(trace_words("--", "./static"), cwd=tmp_path)

    assert done.returncode == 5
    assert "statically linked" in done.stderr


def test_what_cannot_run_is_refused_before_anything_starts(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("open('started', 'w')")
    (tmp_path / "notes").write_text("mine")
    cases: list[tuple[list[str], str]] = [
        ([], "nothing to trace: name a script, -m MODULE or -- PROGRAM"),
        (["absent.py"], "there is no script absent.py"),
        (["ls"], "there is no script ls; put -- before a program that is not a Python script"),
        (["."], ". is a folder without a __main__.py"),
        (["-m"], "-m needs the name of a module"),
        (["--"], "nothing to trace after --"),
        (["--", "no-such-program"], "cannot run no-such-program: there is no such program"),
        (["--no-such-flag", "script.py"], "unknown flag --no-such-flag"),
        (["--outptu", "x", "script.py"], "did you mean --output?"),
        (["--output", "absent/run.profkit", "script.py"], "type mkdir -p"),
        (["--output", "/proc/run.profkit", "script.py"], "cannot write /proc/run.profkit"),
        (["--output", "notes", "script.py"], "exists and is not a profkit capture"),
        (["--flush-ms", "0", "script.py"], "flush_ms must be"),
        (["--allocations-from", "few", "script.py"], "expected a size"),
        (["--chrome", "absent/x.json", "script.py"], "there is no folder absent"),
        (["--json", "x", "--folded", "x", "script.py"], "x is named for two different files"),
        (["--sort", "beauty", "script.py"], "beauty"),
        (["--top", "none", "script.py"], "--top takes a number"),
        (["--output", "-", "script.py"], "cannot write -: name a file"),
        (["--parquet", "-", "script.py"], "cannot write -: name a file"),
    ]

    for argv, message in cases:
        assert message in typed.refuses("trace", *argv)
    assert not (tmp_path / "started").exists()
    assert (tmp_path / "notes").read_text() == "mine"


def test_our_flags_end_where_the_target_begins() -> None:
    parser = Parser("test", "flags with a value, without one, and with an optional number")
    parser.add_argument("--output")
    parser.add_argument("--top")
    parser.add_argument("--flows", nargs="?")
    parser.add_argument("--usage", action="store_true")

    cases = {
        "script.py --top 3": ([], ["script.py", "--top", "3"]),
        "--usage --output x script.py -m": (["--usage", "--output", "x"], ["script.py", "-m"]),
        "--output=x -m mod --usage": (["--output=x"], ["-m", "mod", "--usage"]),
        "--top 3 -- prog --": (["--top", "3"], ["--", "prog", "--"]),
        "--usage": (["--usage"], []),
        "--flows script.py": (["--flows"], ["script.py"]),
        "--flows 3 script.py": (["--flows", "3"], ["script.py"]),
    }

    assert {words: split_words(words.split(), parser.takes_word) for words in cases} == cases
