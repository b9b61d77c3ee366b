"""Ends, children and replacements of a recorded process: nothing recorded is lost and nobody's files are touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.capture.reading import read
from tests.tracer.core.recorder_programs import Record, environment, names, names_by_process, run_recorded
from tests.tracer.programs import LIBRARY


@pytest.mark.parametrize(("what", "code"), [("exit_now", 7), ("quick_exit", 8)])
def test_a_process_that_skips_its_clean_up_loses_nothing(record: Record, what: str, code: int) -> None:
    done, capture = record(what)

    assert done.returncode == code
    assert names(capture)["last words"] == 100
    assert capture.warnings == () and capture.processes[0].has_ended
    opened = [capture.strings[capture.ranges.name[row]] for row in capture.ranges.is_open.nonzero()[0]]
    assert opened == (["left open"] if what == "exit_now" else [])


LAST_WORDS = [{"last words": 100}]


@pytest.mark.parametrize(
    ("what", "code", "recorded"),
    [
        # A signal ends the process as ever, and its action looks as if nobody watched it.
        *((f"raise {int(number)}", -number, LAST_WORDS) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
        ("signals_look_untouched", -signal.SIGTERM, LAST_WORDS),
        # Exec flushes, and the next program joins the capture; a failed one changes nothing.
        ("exec", 0, [{"before exec": 100, "open at exec": 1}, {"plain": 100}]),
        ("exec_fails", 0, [{"before exec": 10, "after exec": 10}]),
        # Children of forks do not count the ranges that they inherit.
        ("fork_twice", 0, [{"inherited": 1, "parent": 10}, {"child": 10}, {"grandchild": 10}]),
    ],
)
def test_however_a_process_ends_or_goes_on_nothing_is_lost(
    record: Record, what: str, code: int, recorded: list[dict[str, int]]
) -> None:
    done, capture = record(*what.split())

    assert done.returncode == code
    assert names_by_process(capture) == recorded
    assert capture.warnings == () and all(process.has_ended for process in capture.processes)
    if what == "exec":
        assert capture.processes[0].pid == capture.processes[1].pid
    if what == "fork_twice":
        assert capture.processes[1].parent_pid == capture.processes[0].pid


def test_python_keeps_its_own_handling_of_signals(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    os._exit(9)\n"
    )

    done = run_recorded(Path(sys.executable), tmp_path / "run.profkit", "-c", script)

    assert done.returncode == 9, done.stderr


def test_an_aborted_process_keeps_what_was_flushed(record: Record) -> None:
    done, capture = record("abort")

    (process,) = capture.processes
    assert done.returncode < 0
    assert names(capture) == {"early": 100}
    assert not process.has_ended
    assert process.end_ns - process.start_ns > 100_000_000, "it lived for 200 ms"


def test_a_vfork_child_leaves_its_parents_capture_alone(record: Record, program: Path, tmp_path: Path) -> None:
    runs = [run_recorded(program, tmp_path / f"{what}.profkit", what) for what in ("vfork_exec", "vfork_exits")]

    captures = [read(tmp_path / f"{what}.profkit") for what in ("vfork_exec", "vfork_exits")]

    assert [done.returncode for done in runs] == [0, 0]
    assert names(captures[0]) == {"parent": 20, "plain": 100}
    assert names(captures[1]) == {"parent": 20}
    assert all(capture.warnings == () for capture in captures)


def test_a_child_that_records_nothing_leaves_no_trace(record: Record) -> None:
    done, capture = record("silent_fork")

    assert done.returncode == 0
    assert len(capture.processes) == 1 and capture.warnings == ()


def test_descriptors_that_a_daemon_reuses_are_not_written_to(record: Record, tmp_path: Path) -> None:
    done, capture = record("close_all", str(tmp_path / "own"))

    assert done.returncode == 0
    assert (tmp_path / "own").read_bytes() == b"mine"
    assert names(capture) == {"before": 10, "after": 10}
    assert capture.warnings == ()


def test_threads_that_run_through_the_exit_do_no_harm(record: Record) -> None:
    done, capture = record("threads_at_exit")

    assert done.returncode == 0
    assert names(capture)["restless"] > 0
    assert capture.processes[0].has_ended


def test_ranges_too_deep_are_counted_and_the_rest_is_right(record: Record) -> None:
    _, capture = record("nested_too_deep")

    assert names(capture) == {"level": 1024, "after": 10}
    assert capture.losses.too_deep == capture.losses.records == 476
    assert int(capture.ranges.depth.max()) == 1023


def test_without_children_only_the_first_program_is_recorded(record: Record, program: Path, tmp_path: Path) -> None:
    own = run_recorded(program, tmp_path / "own.profkit", "is_recording", options="children=0")
    child = run_recorded(program, tmp_path / "child.profkit", "child", options="children=0")
    forked = run_recorded(program, tmp_path / "fork.profkit", "fork_twice", options="children=0")

    assert own.stdout.split() == ["yes", str(tmp_path / "own.profkit")]
    assert child.returncode == 100, "the library is not even in the child"
    assert forked.returncode == 0 and len(read(tmp_path / "fork.profkit").processes) == 1


def test_other_preloaded_libraries_stay_for_the_children(program: Path, tmp_path: Path) -> None:
    twin = tmp_path / "twin.so"
    twin.write_bytes(LIBRARY.read_bytes())

    done = run_recorded(
        program, tmp_path / "run.profkit", "child", options="children=0", LD_PRELOAD=f"{LIBRARY}:{twin}"
    )

    assert done.stdout.split() == ["no"], "the twin answers, and does not record"


@pytest.mark.parametrize("clock", ["tsc", "monotonic"])
def test_both_clocks_give_the_same_picture(record: Record, clock: str) -> None:
    _, capture = record("ranges", "1000", PROFKIT_TRACE_CLOCK=clock)

    table = capture.ranges
    assert capture.processes[0].clock == clock
    assert names(capture) == {"range": 4000}
    # A clock that ticks every 10 ns may show a short range no duration, but never most of them.
    assert (table.end_ns >= table.start_ns).all()
    assert (table.end_ns > table.start_ns).mean() > 0.5
    assert capture.processes[0].empty_range_ns > 0


def test_page_faults_and_switches_are_recorded_on_request(record: Record, program: Path, tmp_path: Path) -> None:
    run_recorded(program, tmp_path / "without.profkit", "plain")
    run_recorded(program, tmp_path / "with.profkit", "plain", options="usage=1")

    without, recorded = read(tmp_path / "without.profkit").ranges, read(tmp_path / "with.profkit").ranges

    assert (without.minor_faults == -1).all()
    assert (recorded.minor_faults >= 0).all() and (recorded.voluntary_switches >= 0).all()
    assert len(recorded) == 100


def test_a_bad_option_is_named_and_the_program_runs(record: Record, program: Path, tmp_path: Path) -> None:
    done = run_recorded(program, tmp_path / "run.profkit", "plain", options="flush_ms=soon")

    assert done.returncode == 0
    assert "flush_ms=soon" in done.stderr and "not recorded" in done.stderr


def test_processes_started_together_share_one_file(program: Path, tmp_path: Path) -> None:
    capture_file = tmp_path / "run.profkit"
    running = [
        subprocess.Popen([str(program), "ranges", "20000"], env=environment(capture_file), cwd=os.fspath(tmp_path))
        for _ in range(6)
    ]
    codes = [process.wait(timeout=60) for process in running]

    capture = read(capture_file)

    assert codes == [0] * 6
    assert capture.warnings == () and capture.losses.records == 0
    assert names_by_process(capture) == [{"range": 80_000}] * 6
