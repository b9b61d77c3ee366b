"""Runs that are kept in a folder: a killed program goes on, results of others are refused, goals are told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import kept_runs
import pytest
from kept_runs import Goal, KeptRuns, goal_table

from profkit.measurement.result import Cell, Result, Row
from profkit.ops import MatMul

ORIGIN = {"date": "2026-01-02", "commit": "abc1234", "machine": "some CPU"}
EMPTY = Result({}, {}, [])


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeptRuns:
    monkeypatch.setattr(kept_runs, "origin", lambda: ORIGIN)
    found = KeptRuns(tmp_path)
    found.begin(is_quick=False)
    return found


def leave_result(monkeypatch: pytest.MonkeyPatch, interrupted: bool = False) -> list[list[str]]:
    """Commands write an empty result; they are noted."""
    commands = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        Path(command[-1]).write_text(json.dumps({**EMPTY.to_dict(), "interrupted": interrupted}))
        return subprocess.CompletedProcess(command, 130 if interrupted else 0, b"", b"why it ended")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_run_that_is_kept_is_not_run_again(runs: KeptRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = leave_result(monkeypatch)

    for _ in range(2):
        runs.run("one-1", "conv", ["--batch", "8"])
    runs.run("one-2", "conv", [])

    assert [command[1:5] for command in commands] == [["-m", "profkit.conv", *rest] for rest in (["--batch", "8"],)] + [
        ["-m", "profkit.conv", "--json", commands[1][-1]]
    ]
    assert list(runs.results("one")) == ["one-1", "one-2"]


def test_an_interrupted_run_is_not_kept(runs: KeptRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_result(monkeypatch, interrupted=True)

    with pytest.raises(SystemExit, match="why it ended"):
        runs.run("one", "conv", [])

    assert not runs.results("")


@pytest.mark.parametrize(("commit", "is_quick"), [("other", False), ("abc1234", True)])
def test_results_of_another_commit_or_form_are_not_gone_on_with(
    runs: KeptRuns, monkeypatch: pytest.MonkeyPatch, commit: str, is_quick: bool
) -> None:
    monkeypatch.setattr(kept_runs, "origin", lambda: {**ORIGIN, "commit": commit, "date": "2026-01-03"})

    with pytest.raises(SystemExit, match="full results of commit abc1234"):
        KeptRuns(runs.folder).begin(is_quick)


def test_the_head_names_the_date_of_the_results(runs: KeptRuns) -> None:
    assert "Measured 2026-01-02, commit abc1234, on some CPU: `python it`" in runs.head("Title", "python it")


def test_goals_are_met_or_missed() -> None:
    text = goal_table([Goal("one", "1 of 2", is_met=True), Goal("two", "0 of 2", is_met=False)])

    assert text.splitlines()[-2:] == ["| one | 1 of 2 | met |", "| two | 0 of 2 | **missed** |"]


def test_a_row_that_failed_has_no_ratio_and_misses_a_goal() -> None:
    key = "matmul/candidate/cpu/one"
    rows = [Row(key, "crashed", reason="no such symbol"), Row("matmul/candidate/cpu/two", "ok", doubts=["it slept"])]
    cell = Cell(MatMul(m=8, n=8, k=8), 1, "matmul/numpy/cpu", {}, "", "hot", rows)

    goal = kept_runs.none_accused({"run": Result({}, {}, [cell])})

    assert kept_runs.judged_ratio(cell, key) is None
    assert goal.found == f"run: {key} crashed no such symbol; run: matmul/candidate/cpu/two ok; it slept"
    assert not goal.is_met


@pytest.mark.parametrize(("busy", "count"), [((), 4), ((1, 2), 6), (range(9), 6)])
def test_runs_of_a_busy_machine_are_made_up_for(
    runs: KeptRuns, monkeypatch: pytest.MonkeyPatch, busy: Sequence[int], count: int
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        path = Path(command[-1])
        cell = Cell(MatMul(m=8, n=8, k=8), 1, None, {}, "", "hot", [], is_too_busy=int(path.stem[-3:]) in busy)
        path.write_text(json.dumps(Result({}, {}, [cell]).to_dict()))
        return subprocess.CompletedProcess(command, 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", run)
    runs.run_until_judged("one-", 4, "conv", [])

    assert list(runs.results("one")) == [f"one-{number:03}" for number in range(count)]
