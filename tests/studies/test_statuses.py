"""How cells end: swapped, killed and stopped told apart, what ran compared with what was requested, logs kept."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.run import Run, RunWorker
from profkit.measurement.network_run import MessageCallback, NetworkRequest, run_network
from profkit.measurement.paging import Paging, read_paging
from profkit.measurement.workers.process import WorkerProcess
from profkit.measurement.workers.requests import ask_one
from profkit.ops.networks import Mlp
from profkit.studies.folder import ResultsFolder, open_folder
from profkit.studies.plan import plan_cells
from profkit.studies.results import read_results
from profkit.studies.running import CellRunners, run_cells
from profkit.studies.statuses import differences_of, status_of
from tests.capture.network_captures import network_capture
from tests.studies.builders import faster_with_stride, finished, small_conditions


def request(**changes: Any) -> NetworkRequest:
    conditions = small_conditions()
    return replace(conditions.request(plan_cells(conditions.study)[0]), **changes)


def run_with(machine: dict[str, float]) -> Run:
    run = finished(request())
    run.processes = [{"steps": 3, "recorded": {"time": 2}, "captures": 1, "machine": machine}]
    return run


@pytest.mark.parametrize(
    ("machine", "status", "words"),
    [
        ({}, "ok", ""),
        ({"swap_bytes": 0.0, "major_faults": 5.0, "swapped_pages": 0.0}, "ok", ""),
        ({"swap_bytes": 0.0, "major_faults": 0.0, "swapped_pages": 9.0}, "ok", ""),
        ({"swap_bytes": 3 * 2.0**20}, "swapped", "3.0 MiB of its memory were in swap during the steps"),
        (
            {"major_faults": 5.0, "swapped_pages": 9.0},
            "swapped",
            "it waited 5 times for a page from disk while the machine swapped 9 pages",
        ),
    ],
)
def test_a_cell_swapped_when_its_own_pages_were_on_disk(machine: dict[str, float], status: str, words: str) -> None:
    assert status_of(run_with(machine)) == (status, words)


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("crashed", "ended by SIGKILL", "killed"),
        ("crashed", "ended by SIGTERM: words", "killed"),
        ("crashed", "ended by SIGSEGV", "failed"),
        ("interrupted", "stopped by the user", "stopped"),
        ("timeout", "no answer", "timeout"),
        ("oom", "killed by the system because memory ran out", "oom"),
    ],
)
def test_what_ended_a_process_is_its_cells_status(status: str, reason: str, expected: str) -> None:
    run = network_capture(network=request().network, framework="numpy", status=status, reason=reason)

    assert status_of(run) == (expected, reason)


def ran(**changes: Any) -> dict[str, Any]:
    about = request()
    return {
        "network": about.network.to_dict(),
        "framework": "numpy",
        "mode": about.conditions.mode,
        "threads": 1,
        "processors": 1,
        "training": False,
        "optimizer": None,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"threads": None, "processors": None}, []),
        ({"threads": 2}, ["threads: 1 requested, 2 ran"]),
        ({"processors": 4}, ["processors: 1 requested, 4 ran"]),
        ({"framework": "torch"}, ["framework: numpy requested, torch ran"]),
        ({"training": True}, ["training: False requested, True ran"]),
    ],
)
def test_what_ran_is_compared_with_what_was_requested(changes: dict[str, Any], expected: list[str]) -> None:
    run = finished(request())
    run.workers = [RunWorker(argv=["python"], output="", ran=ran(**changes))]

    assert differences_of(request(), run, learns=False) == expected


def test_steps_that_were_not_timed_are_told() -> None:
    run = finished(request())
    run.step_ns = run.step_ns[:-1]

    assert differences_of(request(), run, learns=False) == ["steps: 2 were timed, not a multiple of 3"]


def with_worker(request: NetworkRequest, tell: MessageCallback) -> Run:
    run = faster_with_stride(request, tell)
    swaps = request.network.words()["stride"] == "2"
    run.workers = [RunWorker(argv=["python", "-c", "a b"], output="a warning\n", ran=ran(framework=request.framework))]
    run.workers[0]["ran"]["network"] = request.network.to_dict()
    run.workers[0]["ran"]["mode"] = request.conditions.mode
    machine = {"swap_bytes": 2.0**20} if swaps else {}
    run.processes = [{"steps": 3, "recorded": {"time": 2}, "captures": 1, "machine": machine}]
    return run


def test_a_cell_keeps_its_command_line_and_output_and_one_that_swapped_has_no_ratio(tmp_path: Path) -> None:
    conditions = small_conditions()
    cells = plan_cells(conditions.study)

    with open_folder(tmp_path / "results", "small", conditions.identity()) as folder:
        run_cells(cells, folder, conditions, runners=CellRunners(run=with_worker))
        summary = read_results(cells, folder).summary(conditions.study, threads=1)

    log = (tmp_path / "results" / "cells" / "base.numpy.1.log").read_text()
    assert log == "$ python -c 'a b'\na warning\n\nok\n"
    outcome = ResultsFolder(tmp_path / "results").outcome(cells[2])
    assert outcome is not None and (outcome.status, outcome.reason[:7]) == ("swapped", "1.0 MiB")
    assert summary.row("base", "numpy") is not None
    assert summary.row("stride 2", "numpy") is None
    assert {failure.status for failure in summary.failures} == {"swapped"}
    words = "1.0 MiB of its memory were in swap during the steps; a step took 0.0007 ms"
    assert {failure.reason for failure in summary.failures} == {words}


def test_faults_and_swap_are_read_from_the_system(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) b) S 1 2 3 4 5 6 100 0 4 0 9\n")
    (tmp_path / "7" / "status").write_text("Name:\tx\nVmSwap:\t     12 kB\n")
    (tmp_path / "vmstat").write_text("pswpin 30\npswpout 12\n")

    reading = read_paging(7, tmp_path)

    assert reading == Paging(minor=100, major=4, swap_bytes=12288, swapped_pages=42)
    assert reading.since(Paging(90, 4, 0, 40)) == {
        "minor_faults": 10.0,
        "major_faults": 0.0,
        "swap_bytes": 12288.0,
        "swapped_pages": 2.0,
    }
    assert read_paging(8, tmp_path) is None


def test_a_process_that_is_killed_from_outside_is_a_killed_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def killing(worker: WorkerProcess, limit_s: float, message: dict[str, Any]) -> dict[str, Any]:
        if message["do"] == "time":
            os.kill(worker.pid, signal.SIGKILL)
        return ask_one(worker, limit_s, message)

    monkeypatch.setattr("profkit.measurement.network_run.ask_one", killing)

    run = run_network(NetworkRequest(Mlp(hidden=1, neurons=4, batch=2), "numpy", steps=1))

    assert status_of(run)[0] == "killed" and run.reason.startswith("ended by SIGKILL")
    assert run.workers[0]["ran"]["framework"] == "numpy"
