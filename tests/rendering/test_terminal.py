"""Width and colours of what is printed: COLUMNS, NO_COLOR and FORCE_COLOR hold for every table, piped or not."""

from __future__ import annotations

import fcntl
import io
import os
import re
import struct
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
from rich.cells import cell_len

from profkit.rendering.progress import TerminalDisplay
from profkit.rendering.results.content import result_document
from profkit.rendering.tables.table import Item, Items
from profkit.rendering.terminal import stream_width, takes_styles
from tests.capture.builders import CaptureBuilder
from tests.rendering.builders import realistic_cell, result
from tests.support.terminals import Terminal
from tests.support.typed import Typed

LONG = "a reason of many words, " * 12


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def compared(stream: TextIO) -> None:
    result_document(result(realistic_cell())).print(stream)


def listed(stream: TextIO) -> None:
    Items([Item("torch/cuda", "unavailable", LONG)]).print(stream)


def bar(stream: TextIO) -> None:
    display = TerminalDisplay(stream)
    display.show(0.5, "measure: torch")
    display.close()


@pytest.fixture
def capture(tmp_path: Path) -> str:
    builder = CaptureBuilder().thread("main")
    for start in range(10, 100, 10):
        builder.begin(start, f"range {start} with a long name " * 3).end(start + 5)
    return builder.write(tmp_path / "run.profkit")


def widest(text: str) -> int:
    return max(map(cell_len, text.splitlines()))


@pytest.mark.parametrize("show", [compared, listed])
@pytest.mark.parametrize("columns", [60, 180])
def test_columns_is_the_width_of_a_pipe(
    show: Callable[[TextIO], None], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, asked = io.StringIO(), io.StringIO()

    show(usual)
    monkeypatch.setenv("COLUMNS", str(columns))
    show(asked)

    assert widest(usual.getvalue()) <= 100
    assert widest(asked.getvalue()) <= columns
    assert usual.getvalue() != asked.getvalue()


@pytest.mark.parametrize("columns", [50, 160])
def test_columns_is_the_width_of_piped_commands(
    capture: str, columns: int, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is not installed: no SQL")
    sql = "select name, name as again, duration_ns from ranges"

    for words in (["report", capture], ["query", capture, sql], ["doctor"]):
        monkeypatch.delenv("COLUMNS", raising=False)
        usual = typed(*words).out
        monkeypatch.setenv("COLUMNS", str(columns))
        asked = typed(*words).out
        assert widest(usual) <= 100
        assert widest(asked) <= columns
        assert widest(asked) > 100 or columns < 100


def test_an_error_is_no_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    code, _, err = typed("nonsense")

    assert code == 2 and widest(err) <= 60


@pytest.mark.parametrize("text", ["", "0", "-3", "wide"])
def test_a_meaningless_columns_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", text)

    assert stream_width(io.StringIO()) == 100


def test_a_terminal_has_its_own_width_unless_columns_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    main, other = os.openpty()
    with os.fdopen(main, "wb", buffering=0), os.fdopen(other, "w") as stream:
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 77, 0, 0))
        assert stream_width(stream) == 77
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        assert stream_width(stream) == 100
        monkeypatch.setenv("COLUMNS", "64")
        assert stream_width(stream) == 64


@pytest.mark.parametrize("show", [compared, listed])
def test_no_color_leaves_no_escape_sequence_at_all(
    show: Callable[[TextIO], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    coloured, plain = Terminal(), Terminal()

    show(coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    show(plain)

    assert "\x1b[1m" in coloured.getvalue() or "\x1b[2m" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_no_color_leaves_the_progress_bar_what_moves_the_cursor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    coloured, plain = Terminal(), Terminal()

    bar(coloured)
    monkeypatch.setenv("NO_COLOR", "1")
    bar(plain)

    assert re.search(r"\x1b\[[\d;]+m", coloured.getvalue())
    assert not re.search(r"\x1b\[[\d;]+m", plain.getvalue())


@pytest.mark.parametrize("show", [compared, listed])
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_force_color_colours_a_pipe(show: Callable[[TextIO], None], term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")
    forced = io.StringIO()

    show(forced)

    assert "\x1b[" in forced.getvalue()


def test_force_color_colours_a_piped_report(capture: str, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    assert "\x1b" not in typed.shows("report", capture)

    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b[1m" in typed.shows("report", capture)


def test_no_color_is_stronger_than_force_color_and_an_empty_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert takes_styles(Terminal())
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not takes_styles(Terminal())
