"""Lines of a study's progress: what a log gets, and what a terminal sees."""

from __future__ import annotations

import io
import os

import pytest

from profkit.rendering.studies.progress import CellLines, left_text
from profkit.studies.folder import CellOutcome
from profkit.studies.plan import plan_cells
from profkit.studies.running import StudyProgress
from tests.studies.builders import small_study
from tests.support.terminals import Terminal

CELL = plan_cells(small_study())[0]
RUNNING = StudyProgress(1, 8, CELL, "numpy: checking", 125.0)
DONE = StudyProgress(1, 8, CELL, "", 61.0, CellOutcome(CELL.id, "ok", "", 4.0), 2.5e6)
FAILED = StudyProgress(2, 8, CELL, "", 0.0, CellOutcome(CELL.id, "oom", f"too\nlarge {'x' * 200}", 4.0))


def test_a_log_gets_one_line_per_finished_cell() -> None:
    stream = io.StringIO()
    lines = CellLines(stream)

    for progress in (RUNNING, DONE, FAILED):
        lines(progress)
    lines.close()

    first, second = stream.getvalue().splitlines()
    assert first == "[1/8] base: numpy, repetition 1: 2.500 ms a step (4.0 s; about 61 s left)"
    assert second.startswith("[2/8] base: numpy, repetition 1: oom: too large xxx") and second.endswith("… (4.0 s)")


def test_a_terminal_sees_what_runs_now_within_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 20)))
    stream = Terminal()
    lines = CellLines(stream)

    lines(RUNNING)
    shown = stream.getvalue()
    lines(DONE)
    lines.close()

    assert shown == "\r\x1b[2K[1/8] base: numpy, repetition 1: checki"
    assert stream.getvalue().endswith("about 61 s left)\n\r\x1b[2K")


def test_times_to_wait_are_as_exact_as_they_are_known() -> None:
    assert [left_text(seconds) for seconds in (0.2, 40, 700, 8000)] == [
        "about 1 s",
        "about 40 s",
        "about 12 min",
        "about 2.2 h",
    ]
