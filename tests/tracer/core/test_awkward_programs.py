"""Programs that do unusual things with threads, forks and limits: they end as they would without the recorder."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import RangeKind
from tests.support.processes import finish
from tests.tracer.core.recorder_programs import Record, environment, names, names_by_process, run_recorded


def test_a_process_ends_with_the_last_thread_of_the_program(record: Record) -> None:
    done, capture = record("first_thread_leaves")

    assert (done.returncode, done.stdout) == (0, "handlers ran\n")
    assert names(capture) == {"worker": 10}
    assert capture.warnings == () and capture.processes[0].has_ended


def test_other_libraries_fork_handlers_may_record(program: Path, tmp_path: Path) -> None:
    done = run_recorded(
        program, tmp_path / "none", "fork_handlers_record", str(tmp_path / "run.profkit"), PROFKIT_TRACE_FILE=""
    )

    capture = read(tmp_path / "run.profkit")

    parent, child = names_by_process(capture)
    assert done.returncode == 0, done.stderr
    assert parent["parent"] == 20 and child["child"] == 10
    assert capture.warnings == ()


def test_ranges_opened_before_a_fork_are_closed_in_the_children_too(record: Record) -> None:
    done, capture = record("close_inherited")

    own = {"own": 1, "later": 1000}
    assert done.returncode == 0
    assert names(capture, RangeKind.RANGE)["later"] == 3000
    assert [{name: counts[name] for name in own} for counts in names_by_process(capture)] == [own] * 3
    assert not capture.ranges.is_open.any()
    assert capture.losses.records == 0 and capture.warnings == ()


@pytest.mark.parametrize(("what", "code"), [("cancelled_exit", 7), ("cancelled_exec", 0)])
def test_a_cancelled_thread_ends_the_process_as_it_wants(record: Record, what: str, code: int) -> None:
    done, capture = record(what)

    assert done.returncode == code
    assert names(capture) == {"cancelled": 10} and capture.warnings == ()


def test_a_child_survives_that_its_capture_may_not_grow(record: Record) -> None:
    done, capture = record("limited_file_size")

    assert done.returncode == 0, done.stderr
    assert names(capture) == {"early": 10}


def test_a_program_that_may_write_no_file_runs_unrecorded(program: Path, tmp_path: Path) -> None:
    done = finish(
        [str(program), "nothing"],
        environment(tmp_path / "run.profkit"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
    )

    assert done.returncode == 0
    assert "not recorded" in done.stderr and "limit of file sizes" in done.stderr


def test_a_daemon_leaves_a_process_that_ended_in_order(record: Record) -> None:
    done, capture = record("become_daemon")

    assert done.returncode == 0
    assert names_by_process(capture) == [{"before": 10}, {"daemon": 10}]
    assert capture.warnings == () and all(process.has_ended for process in capture.processes)


def test_recording_maps_little_more_than_its_buffer(record: Record, program: Path, tmp_path: Path) -> None:
    plain = subprocess.run([str(program), "mapped_memory"], capture_output=True, text=True, check=True)
    done = run_recorded(program, tmp_path / "run.profkit", "mapped_memory", options="buffer_mib=32")

    assert int(done.stdout) - int(plain.stdout) < 32 + 48, "MiB; the tables of names take most of the rest"
