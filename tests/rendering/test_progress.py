"""Progress: what is drawn, when, and that nothing runs in between."""

from __future__ import annotations

import io
import threading

import pytest

from profkit.measurement.progress import Progress
from profkit.rendering.progress import (
    NotebookDisplay,
    PlainDisplay,
    ProgressWatcher,
    TerminalDisplay,
    overall_fraction,
    progress_text,
    show_progress,
)
from tests.support.terminals import Terminal


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def state(fraction: float = 0.5, cell: int = 0, cells: int = 1, phase: str = "measure") -> Progress:
    """One state of a run."""
    return Progress(cell, cells, phase, fraction, "torch")


def test_a_run_of_under_two_seconds_shows_nothing() -> None:
    stream, clock = io.StringIO(), Clock()
    watcher = ProgressWatcher(PlainDisplay(stream), clock)

    clock.now = 1.9
    watcher(state())

    assert stream.getvalue() == ""


def test_a_log_gets_a_line_at_most_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    watcher = ProgressWatcher(PlainDisplay(stream), clock)

    for clock.now in (3.0, 5.0, 12.9, 13.1, 20.0):
        watcher(state(clock.now / 40))

    assert len(stream.getvalue().splitlines()) == 2
    assert "measure: torch" in stream.getvalue()


def test_the_fraction_grows_over_phases_and_cells() -> None:
    phases = ("peaks", "start", "verify", "measure", "memory")
    states = [state(part, number, 3, phase) for number in range(3) for phase in phases for part in (0.0, 1.0)]

    fractions = [overall_fraction(item) for item in states]

    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == pytest.approx(1.0)


def test_the_bar_never_goes_back() -> None:
    stream, clock = io.StringIO(), Clock()
    watcher = ProgressWatcher(PlainDisplay(stream), clock)

    clock.now = 3.0
    watcher(state(0.9))
    clock.now = 30.0
    watcher(state(0.1, phase="start"))

    first, second = (line.split("%")[0] for line in stream.getvalue().splitlines())
    assert first == second


def test_the_cell_is_named_when_there_are_several() -> None:
    assert progress_text(state(cell=1, cells=4)) == "2/4 measure: torch"
    assert progress_text(state()) == "measure: torch"


def test_a_terminal_bar_is_drawn_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    before = threading.active_count()
    display = TerminalDisplay(stream)

    display.show(0.5, "[torch] with brackets")
    during = threading.active_count()
    display.close()

    assert during == before
    assert "[torch] with brackets" in stream.getvalue()


def test_a_notebook_updates_one_element_in_place() -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    def display(html: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(html)
        return Handle()

    notebook = NotebookDisplay(display, str)

    notebook.show(0.25, "<torch>")
    notebook.show(0.5, "jax")
    notebook.close()

    assert shown == [
        '<progress value="0.250" max="1"></progress> &lt;torch&gt;',
        '<progress value="0.500" max="1"></progress> jax',
        "",
    ]


def test_a_pipe_and_a_terminal_that_cannot_redraw_get_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profkit.rendering.progress.QUIET_S", 0.0)
    monkeypatch.setenv("TERM", "dumb")
    pipe, dumb = io.StringIO(), Terminal()

    for stream in (pipe, dumb):
        with show_progress(stream) as watcher:
            watcher(state())

    assert pipe.getvalue() == dumb.getvalue() == " 65% measure: torch\n"


def test_the_bar_of_a_terminal_is_gone_after_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profkit.rendering.progress.QUIET_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()

    with show_progress(stream) as watcher:
        watcher(state())
        drawn = stream.getvalue()

    assert "measure: torch" in drawn
    assert stream.getvalue().removeprefix(drawn).endswith("\x1b[2K")
