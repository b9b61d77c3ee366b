"""`profkit query`: SQL on captures, its answers printed and saved, and what it refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.schema import RangeKind
from profkit.rendering.sql.tables import write_parquet
from tests.capture.builders import CaptureBuilder
from tests.capture.tables import Alloc, Row, capture_of
from tests.support.typed import Typed

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: no SQL")


@pytest.fixture
def capture_path(tmp_path: Path) -> str:
    builder = CaptureBuilder().thread("main").begin(10, "outer", domain="app", payload=2.5, colour=0xFF102030)
    builder.begin(20, "inner", category="io", payload=-7).alloc(21, 0x1000, 4096).end(30).mark(32, "tick").end(40)
    builder.alloc(41, 0x2000, 100).free(50, 0x1000).sample(25, 1 << 20)
    builder.thread("worker").span_begin(5, 1, "job").span_end(60, 1)
    return builder.write(tmp_path / "run.profkit")


def answer(typed: Typed, path: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    return [tuple(row.values()) for row in typed.json("query", path, sql)]


def test_ranges_come_with_texts_and_numbers(capture_path: str, typed: Typed) -> None:
    outer, inner = typed.json("query", capture_path, "select * from ranges where kind = 'range' order by row")

    assert (outer["title"], outer["name"], outer["domain"], outer["category"]) == ("app:outer", "outer", "app", None)
    assert (inner["title"], inner["category"], inner["parent"], inner["depth"]) == ("inner", "io", 0, 1)
    assert (inner["start_ns"], inner["end_ns"], inner["duration_ns"]) == (20, 30, 10)
    assert (outer["payload"], outer["payload_integer"], outer["payload_type"]) == (2.5, None, "float64")
    assert (inner["payload"], inner["payload_integer"], inner["payload_type"]) == (-7.0, -7, "int64")
    assert (outer["thread_name"], outer["pid"], outer["source"]) == ("main", 1000, "nvtx")
    assert (outer["colour"], inner["colour"], outer["minor_faults"]) == ("#ff102030", None, None)


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (
            "bytes, call, range_name, lifetime_ns from allocations order by time_ns",
            [(4096, "malloc", "inner", 29), (100, "malloc", None, None)],
        ),
        ("thread_name, process, pid from threads order by thread", [("main", 0, 1000), ("worker", 0, 1000)]),
        ("pid, command, has_ended from processes", [(1000, ["python", "program.py"], True)]),
        ("pid, time_ns, resident_bytes from samples", [(1000, 25, 1 << 20)]),
        ("dropped_records, warnings from capture", [(0, [])]),
    ],
)
def test_allocations_threads_processes_samples_and_the_capture_are_tables(
    sql: str, rows: list[tuple[Any, ...]], capture_path: str, typed: Typed
) -> None:
    assert answer(typed, capture_path, f"select {sql}") == rows


def test_an_answer_is_printed_as_a_table(capture_path: str, typed: Typed) -> None:
    lines = typed.shows(
        "query", capture_path, "select title, duration_ns, category from ranges where kind = 'range';"
    ).splitlines()

    assert lines[0].split() == ["title", "duration_ns", "category"]
    assert lines[2].split() == ["app:outer", "30", "\u2013"]
    assert lines[3].split() == ["inner", "10", "io"]


def test_a_wide_answer_shortens_texts_and_never_numbers(capture_path: str, typed: Typed) -> None:
    numbers = [10**12 + i for i in range(9)]
    columns = ", ".join(f"{number} as column_{number}" for number in numbers)

    out = typed.shows("query", capture_path, f"select repeat('long name ', 30) as name, {columns}")

    assert max(map(len, out.splitlines())) <= 100
    assert "…" in out
    assert all(str(number) in out for number in numbers)


def test_many_rows_are_counted_not_printed(capture_path: str, typed: Typed) -> None:
    lines = typed.shows("query", capture_path, "select range as n from range(1000)", "--rows", "5").splitlines()

    assert len(lines) == 2 + 5 + 1
    assert lines[-1] == "995 more rows (--rows 1000, or --csv FILE)"


def test_answers_are_saved_as_csv_json_and_parquet(capture_path: str, tmp_path: Path, typed: Typed) -> None:
    csv_file, json_file, parquet = (tmp_path / f"answer.{kind}" for kind in ("csv", "json", "parquet"))
    flags = ["--csv", csv_file, "--json", json_file, "--parquet", parquet]

    typed.shows("query", capture_path, "select name, duration_ns from ranges order by row -- a remark", *flags)

    expected = [("outer", 30), ("inner", 10), ("tick", 0), ("job", 55)]
    with csv_file.open(newline="") as stream:
        assert [(row["name"], int(row["duration_ns"])) for row in csv.DictReader(stream)] == expected
    assert [(row["name"], row["duration_ns"]) for row in json.loads(json_file.read_text())] == expected
    assert duckdb.connect().read_parquet(str(parquet)).fetchall() == expected
    assert sorted(tmp_path.iterdir()) == [csv_file, json_file, parquet, Path(capture_path)]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
def test_an_answer_into_standard_output_stays_between_what_others_print(capture_path: str, tmp_path: Path) -> None:
    shell = '(echo before; "$0" -m profkit.query "$1" "select 7 as n" --csv /dev/stdout; echo after) > out.txt'

    subprocess.run(["sh", "-c", shell, sys.executable, capture_path], check=True, cwd=tmp_path)

    assert (tmp_path / "out.txt").read_text().split() == ["before", "n", "7", "after"]


def test_all_tables_are_saved_as_parquet(tmp_path: Path) -> None:
    rows = [Row("a", 0, 100), Row("b", 10, 20, domain="d"), Row("x", 15, 120, kind=RangeKind.SPAN)]
    capture = capture_of(rows, [Alloc(12, 4096, 50)])

    paths = write_parquet(capture, str(tmp_path / "tables"))

    names = ["ranges", "steps", "calls", "activities", "copies", "allocations", "memory_events", "samples"]
    names += ["threads", "processes", "devices", "capture"]
    assert [Path(path).name for path in paths] == [f"{name}.parquet" for name in names]
    assert sorted(path.name for path in (tmp_path / "tables").iterdir()) == sorted(f"{name}.parquet" for name in names)
    read_back = duckdb.connect().read_parquet(paths[0]).project("title, duration_ns, kind").fetchall()
    assert read_back == [("a", 100, "range"), ("d:b", 10, "range"), ("x", 105, "span")]


def test_the_tables_are_shown_with_their_columns_and_may_be_empty(
    capture_path: str, tmp_path: Path, typed: Typed
) -> None:
    empty = CaptureBuilder().write(tmp_path / "empty.profkit")

    full = typed.shows("query", capture_path, "--tables")

    assert "ranges (4 rows)" in full
    assert any(line.split() == ["duration_ns", "bigint"] for line in full.splitlines())
    words = ["select * from ranges", "--tables", "--parquet-folder", tmp_path / "tables"]
    assert "ranges (0 rows)" in typed.shows("query", empty, *words)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["select nme from ranges"], 'Candidate bindings: "name"'),
        (["selec"], "syntax error"),
        (["select 1; select 2"], "one query at a time, got 2"),
        ([], "no query"),
        (["--csv", "x.csv"], "give one"),
        (["select 1", "--rows", "0"], "must be at least 1"),
        (["select 1", "--cvs", "x"], "did you mean --csv?"),
        (["select 1", "--csv", "missing/folder/x.csv"], "there is no folder"),
        (["select 1", "--json", "-"], "standard output is /dev/stdout"),
        (["--parquet-folder", "-"], "standard output is /dev/stdout"),
    ],
)
def test_wrong_questions_are_explained(capture_path: str, typed: Typed, words: list[str], sentence: str) -> None:
    assert sentence in typed.refuses("query", capture_path, *words)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "attach '{folder}/new.db'",
        "copy (select 1) to '{folder}/new.csv'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
    ],
)
def test_queries_reach_nothing_outside_the_capture(capture_path: str, tmp_path: Path, typed: Typed, sql: str) -> None:
    typed.refuses("query", capture_path, sql.format(folder=tmp_path))

    assert [path.name for path in tmp_path.iterdir()] == ["run.profkit"]


def test_losses_and_damage_are_told_beside_the_answer(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "lossy.profkit"
    path.write_bytes(CaptureBuilder(counters=[1234]).begin(1, "a").end(2).build() + b"rubbish!")

    code, out, err = typed("query", path, "select count(*) as n from ranges")

    assert code == 0
    assert err.splitlines()[0] == "1,234 records were dropped"
    assert "8 bytes skipped" in err
    assert out.split() == ["n", "─", "1"]


HOSTILE = "=a\x1b[31m\u202e"


@pytest.mark.parametrize(("kind", "text"), [("csv", "'=a\\x1b[31m\\u202e"), ("json", "=a\\u001B[31m\\u202e")])
def test_saved_answers_have_no_formulas_and_no_signs_that_cannot_be_seen(
    kind: str, text: str, tmp_path: Path, typed: Typed
) -> None:
    path = CaptureBuilder().process().thread("main").begin(1, HOSTILE).end(2).write(tmp_path / "run.profkit")
    target = tmp_path / f"answer.{kind}"

    typed.shows("query", path, "select name, -5 as number, null as nothing from ranges", f"--{kind}", target)

    content = target.read_text(encoding="utf-8")
    assert text in content
    assert all(sign.isprintable() or sign in "\n\t" for sign in content)
    if kind == "csv":
        assert content.splitlines()[1].endswith(",-5,")
    else:
        assert json.loads(content) == [{"name": HOSTILE, "number": -5, "nothing": None}]


def test_without_duckdb_the_line_to_type_is_shown(
    capture_path: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)

    code, _, err = typed("query", capture_path, "select 1")
    assert code == 1
    assert 'pip install "profkit[query]"' in err
