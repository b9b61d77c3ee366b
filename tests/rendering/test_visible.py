"""Signs that move the cursor, hide or turn text around: no text of a file reaches a terminal or a file with them."""

from __future__ import annotations

import ast
import csv
import io
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import profkit
from profkit.cli import main
from profkit.measurement.progress import Progress
from profkit.measurement.result import Row
from profkit.query import answer_table
from profkit.rendering.progress import ProgressWatcher
from profkit.rendering.results.columns import render_csv as result_csv
from profkit.rendering.results.content import result_document
from profkit.rendering.tables import html
from profkit.rendering.tables.csv_file import render_csv
from profkit.rendering.tables.document import Bullets, Code, Document, Heading, Paragraph, Picture
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.tables.table import Item, Items, Line, Table, TableColumn
from profkit.rendering.terminal import say, visible, wrapped
from tests.rendering.builders import baseline_row, cell, ok_row, result

HOSTILE = "a\x1b[31m\x07\u202eb\u2066\x9b\ud800\x00\x7f\r\u2028c"
SIGNS = set(HOSTILE) - set("abc[31m")
PACKAGE = Path(profkit.__file__).parent


def shown_by(document: Document) -> dict[str, str]:
    """The document in every form that people read."""
    return {
        "text": document.text(200),
        "markdown": document.markdown(),
        "html": document._repr_html_(),
        "page": html.render_file(document),
    }


def every_block() -> Document:
    column = TableColumn("name", HOSTILE, help=HOSTILE, is_text=True)
    table = Table(
        HOSTILE, [HOSTILE], [column], [Line((HOSTILE,))], [Item(HOSTILE, HOSTILE, HOSTILE)], [HOSTILE], [HOSTILE],
        [HOSTILE], [HOSTILE],
    )  # fmt: skip
    items = Items([Item(HOSTILE, HOSTILE, HOSTILE)])
    picture = Picture("file.svg", HOSTILE, "<svg/>")
    texts = (Heading(1, HOSTILE), Paragraph(HOSTILE), Bullets([HOSTILE]), Code(HOSTILE))
    return Document(*texts, table, Table(HOSTILE, instead=[HOSTILE]), items, picture)


@pytest.mark.parametrize("form", ["text", "markdown", "html", "page"])
def test_no_block_shows_them_in_any_form(form: str) -> None:
    text = shown_by(every_block())[form]

    assert not SIGNS & set(text)
    assert text.count("\\x1b[31m") >= 14


def test_a_terminal_in_colours_gets_its_own_escapes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.StringIO()

    every_block().print(stream)

    assert not SIGNS - {"\x1b"} & set(stream.getvalue())
    assert "\x1b[1m" in stream.getvalue()
    assert "\x1b[31m" not in stream.getvalue()


def test_line_breaks_stay_in_reasons_and_not_in_cells() -> None:
    table = Table("t", columns=[TableColumn("name", "name", is_text=True)], lines=[Line(("a\nb",))])

    assert "a\\nb" in table.text()
    assert Items([Item("x", "wrong", "one\ntwo")]).text().split() == ["x", "wrong", "one", "two"]


def hostile_row(**changes: Any) -> Row:
    texts = {item.name: HOSTILE for item in fields(Row) if item.type == "str"}
    values = {**texts, "status": "ok", "verdict": "faster", "key": "conv2d/torch/cpu", **changes}
    row = ok_row(values.pop("key"), 1.0, 2.0, "faster")
    for name, value in values.items():
        setattr(row, name, value)
    row.versions = row.device = {HOSTILE: HOSTILE}
    return row


def test_a_result_shows_none_of_them() -> None:
    rows = [baseline_row(), hostile_row(), hostile_row(key="conv2d/numpy/cpu", status="wrong", verdict="")]
    rows.append(hostile_row(key=f"conv2d/candidate/{HOSTILE}", status="crashed", verdict=""))
    made = result(cell(*rows, notes=[HOSTILE], left_out=[HOSTILE]))

    for text in (*shown_by(result_document(made, None, True)).values(), result_csv(made), render_json(made.to_dict())):
        assert not SIGNS & set(text)


def test_answers_of_sql_show_none_of_them() -> None:
    for text in shown_by(answer_table([HOSTILE, "n"], [(HOSTILE, 1), (None, 2)])).values():
        assert not SIGNS & set(text)


def test_messages_and_lines_show_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    code = main([HOSTILE])

    out, err = capsys.readouterr()
    assert code == 2
    assert not SIGNS & set(out + err)
    assert "\\x1b[31m" in out
    assert "unknown command" in err
    assert wrapped("one\ntwo") == "one\ntwo"


def test_progress_shows_none_of_them() -> None:
    shown = []

    class Display:
        redraw_s = 0.0

        def show(self, fraction: float, text: str) -> None:
            shown.append(text)

        def close(self) -> None:
            pass

    clock = iter([0.0, 10.0])
    ProgressWatcher(Display(), lambda: next(clock))(Progress(0, 1, "measure", 0.5, HOSTILE))

    assert not SIGNS & set(shown[0])
    assert "\\x1b[31m" in shown[0]


def test_json_keeps_its_values_and_shows_every_sign() -> None:
    value = {HOSTILE: [HOSTILE, "µ日本\U0001f600", 1.5]}

    text = render_json(value)

    assert not SIGNS & set(text)
    assert "µ日本\U0001f600" in text
    assert json.loads(text) == value
    text.encode("utf-8")


@pytest.mark.parametrize("text", ["=1+1", "@sum(a1)", "+cmd|' /c calc'!a0", "-2+3", "-x", "\t=1", "\n=1", "\uff1d1+1"])
def test_a_text_that_a_spreadsheet_would_compute_gets_an_apostrophe(text: str) -> None:
    (line,) = list(csv.reader(io.StringIO(render_csv(["name"], [[text]]), newline="")))[1:]

    assert line == [f"'{text}"]


@pytest.mark.parametrize("value", [-5, -1.5e-9, "-5", "+1.5%", "-1e-9", "1,234", "a=b", "a@b", "", None, True])
def test_numbers_and_other_texts_are_written_as_they_are(value: Any) -> None:
    (line,) = list(csv.reader(io.StringIO(render_csv(["name", "n"], [[value, 1]]), newline="")))[1:]

    assert line == ["" if value is None else str(value), "1"]


def test_names_of_columns_are_no_formulas_either() -> None:
    assert render_csv(["=a", "b\x1b"], []).splitlines() == ["'=a,b\\x1b"]


def test_printable_text_stays_as_it_is() -> None:
    assert visible("µs ± 日本 \U0001f600 é") == "µs ± 日本 \U0001f600 é"


def printing_calls(path: Path) -> list[str]:
    """Where a module writes to a stream of the terminal by itself."""
    streams = ("stdout", "stderr", "out", "stream", "_stream")
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        call = node.func
        name = call.value.attr if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Attribute) else ""
        name = call.value.id if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) else name
        is_write = isinstance(call, ast.Attribute) and call.attr == "write" and name in streams
        if is_write or (isinstance(call, ast.Name) and call.id == "print"):
            found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    return found


def test_text_is_printed_in_one_place() -> None:
    # Programs that run elsewhere (workers, start-up files, questions to a GPU) speak to their parent, in JSON.
    elsewhere = ("frameworks", "measurement", "selftests", "capture", "commands/doctor")
    files = [path for path in PACKAGE.rglob("*.py") if not str(path.relative_to(PACKAGE)).startswith(elsewhere)]
    allowed = {
        "rendering/terminal.py", "rendering/tables/document.py",  # the place
        "rendering/progress.py", "rendering/studies/progress.py",  # what `visible` made
        "rendering/traces/folded.py",
        "rendering/studies/files.py", "rendering/traces/files.py", "studies/folder.py", "data/weights.py",
    }  # fmt: skip

    found = [place for path in files for place in printing_calls(path)]

    assert [place for place in found if place.rpartition(":")[0] not in allowed] == []


def test_code_does_not_end_before_its_end() -> None:
    text = Document(Code("a\n````\n# b")).markdown()

    assert text == "`````\na\n````\n# b\n`````\n"
