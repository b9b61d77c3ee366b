"""Results that `--json` wrote, opened again: shown, compared, asked in SQL, exported; and what is refused."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profkit import compare, export, query, report
from profkit.commands.opening import open_any
from profkit.errors import CaptureError
from profkit.measurement.result import Result, Row, read_result
from profkit.ops import SPECS, Conv2d, MatMul, presets_for
from profkit.rendering.results.content import result_document
from profkit.rendering.results.records import render_csv
from profkit.rendering.sql.results import RESULT_TABLES
from profkit.rendering.tables.json_file import render_json
from tests.capture.builders import CaptureBuilder
from tests.rendering.builders import baseline_row, cell, ok_row, realistic_cell, result

SWEEP = [Conv2d(stride=stride) for stride in (1, 2, 3)]


def saved(folder: Path, made: Result, name: str = "result.json") -> str:
    (folder / name).write_text(render_json(made.to_dict()), encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return saved(tmp_path, result(realistic_cell()))


def words_of(text: str) -> str:
    return " ".join(text.split())


def answers(path: str, sql: str, folder: Path) -> list[dict[str, Any]]:
    assert query.main([path, sql, "--json", str(folder / "answer.json")]) == 0
    rows: list[dict[str, Any]] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return rows


# --- Recognised and read ---


@pytest.mark.parametrize("form", ["plain", "compact", "sorted", "gzip", "byte order mark"])
def test_a_result_is_recognised_by_its_schema_however_it_was_written(form: str, tmp_path: Path) -> None:
    made = result(realistic_cell(), *[realistic_cell(spec) for spec in SWEEP])
    text = render_json(made.to_dict())
    forms = {
        "plain": text.encode(),
        "compact": json.dumps(json.loads(text), separators=(",", ":")).encode(),
        "sorted": json.dumps(json.loads(text), sort_keys=True).encode(),  # the schema comes last
        "gzip": gzip.compress(text.encode()),
        "byte order mark": b"\xef\xbb\xbf" + text.encode(),
    }
    (tmp_path / "any.name").write_bytes(forms[form])

    opened = open_any(tmp_path / "any.name")

    assert opened == made


def changed(data: Any, *place: Any, value: Any) -> Any:
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return data


ROW = ("cells", 0, "rows", 0)
DAMAGE = [
    ((*ROW, "median_ns"), "fast", "row 0 of cell 0 has median_ns 'fast'"),
    ((*ROW, "samples_ns"), [1.0, None, 2.0], "has samples_ns"),
    ((*ROW, "samples_ns"), [1.0], "1 samples in 3 rounds"),
    ((*ROW, "samples_ns"), [1.0, 0.0, 1.0], "a sample took no time"),
    ((*ROW, "throttled_samples"), [7], "a throttled sample is not there"),
    ((*ROW, "key"), "torch", "'torch' is not a key of conv2d"),
    ((*ROW, "key"), "matmul/torch/cpu", "is not a key of conv2d"),
    ((*ROW, "status"), "fine", "status 'fine'"),
    ((*ROW, "median_ns"), None, "it is ok and has no time"),
    ((*ROW, "colour"), "red", "unknown field 'colour'"),
    (("cells", 0, "rows"), {}, "cell 0 has no spec or no rows"),
    (("cells", 0, "rows", 0), 5, "row 0 of cell 0 is not an object"),
    (("cells", 0, "spec"), {"op": "conv3d"}, "unknown operator 'conv3d'"),
    (("cells", 0, "spec", "stride"), -1, "stride"),
    (("cells", 0, "threads"), "two", "cell 0 has threads 'two'"),
    (("cells", 0, "policy"), {"key": "a"}, "a policy without costs_from"),
    (("cells",), 7, "its 'cells' is not an array"),
    (("environment",), [], "it has environment '[]'"),
]


@pytest.mark.parametrize(("place", "value", "reason"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_value_is_named_with_its_place(place: Any, value: Any, reason: str, path: str) -> None:
    data = changed(json.loads(Path(path).read_text(encoding="utf-8")), *place, value=value)
    Path(path).write_text(json.dumps(data), encoding="utf-8")

    with pytest.raises(CaptureError) as error:
        read_result(path)

    assert "result.json is a damaged result: " in str(error.value)
    assert reason in str(error.value)
    assert str(error.value).endswith("; measure again with --json")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("9" * 400, "a number is too long, at character"),
        ("9" * 19, "is too long"),
        ("1e999", "row 0 of cell 0 has peak_bytes 'inf'"),
    ],
)
def test_a_number_that_no_machine_counts_to_is_damage(number: str, reason: str, path: str) -> None:
    text = Path(path).read_text(encoding="utf-8").replace('"peak_bytes": 524288', f'"peak_bytes": {number}', 1)
    Path(path).write_text(text, encoding="utf-8")

    with pytest.raises(CaptureError) as error:
        open_any(path)

    assert reason in str(error.value)


@pytest.mark.parametrize("value", ["1e999", "NaN", "-Infinity"])
def test_a_time_that_is_not_finite_is_damage(value: str, path: str) -> None:
    text = Path(path).read_text(encoding="utf-8").replace('"median_ns": 9810000.0', f'"median_ns": {value}', 1)
    Path(path).write_text(text, encoding="utf-8")

    with pytest.raises(CaptureError, match="row 0 of cell 0 has median_ns"):
        open_any(path)


@pytest.mark.parametrize("field", ["key", "status"])
def test_a_field_that_is_missing_is_damage(field: str, path: str) -> None:
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    del data["cells"][0]["rows"][0][field]
    Path(path).write_text(json.dumps(data), encoding="utf-8")

    with pytest.raises(CaptureError, match=f"is a damaged result: .*'{field}'"):
        read_result(path)


def test_every_cut_of_a_file_is_refused_or_whole(tmp_path: Path) -> None:
    text = render_json(result(cell(baseline_row())).to_dict()).encode()
    cut = tmp_path / "cut.json"
    for length in range(40, len(text) - 2, 37):
        cut.write_bytes(text[:length])
        with pytest.raises(CaptureError, match=r"cut\.json is a damaged result: "):
            open_any(cut)
    packed = gzip.compress(text)
    cut.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CaptureError, match="damaged result: its gzip stream ends too early"):
        open_any(cut)


# --- A wrong file, given to each command ---

COMMANDS: dict[str, Callable[[str, Path], int]] = {
    "report": lambda path, _: report.main([path]),
    "export": lambda path, folder: export.main([path, "--parquet", str(folder / "tables")]),
    "compare": lambda path, _: compare.main([path, path]),
    "query": lambda path, _: query.main([path, "--tables"]),
}
WRONG: dict[str, tuple[bytes, int, str]] = {
    "newer.json": (b'{"schema": "profkit.result/2", "runs": []}', 1, "was written by a newer profkit"),
    "cut.json": (b'{"schema": "profkit.result/1", "cells": [', 1, "is a damaged result"),
    "usage.json": (b'{"schema": "profkit.usage/1", "rows": []}', 2, "give the capture or the result"),
    "foreign.json": (b'{"hello": 1}', 2, "is JSON without events"),
    "list.json": (b"[]", 2, "whose schema is profkit.result/1"),
    "chrome.json": (b'{"traceEvents": [{"ph": "X", "cat": "v8", "ts": 1, "dur": 1}]}', 2, "is a Chrome trace, but"),
    "broken.json": (b'{"traceEvents": [{', 2, "cannot be read as a trace: it ends too early"),
    "text.txt": (b"hello\n" * 50, 1, "is not a profkit capture"),
    "other.zip": (b"PK\x03\x04" + bytes(60), 1, "is not the run of a network, or is damaged"),
    "short.sqlite": (b"SQLite format 3\x00", 2, "short.sqlite"),
    "run.nsys-rep": (bytes(range(200, 250)), 2, "nsys export --type sqlite"),
    "empty": (b"", 1, "is empty"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_gets_the_same_sentence_from_every_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="profkit query needs DuckDB")
    content, code, said = WRONG[name]
    (tmp_path / name).write_bytes(content)

    sentences = set()
    for command, run in COMMANDS.items():
        assert run(str(tmp_path / name), tmp_path) == code, command
        captured = capsys.readouterr()
        assert captured.out == ""
        sentences.add(words_of(captured.err).removeprefix(f"profkit {command}: "))

    (sentence,) = sentences
    assert said in sentence
    assert name in sentence


# --- Shown again ---


def test_report_shows_the_table_that_the_command_printed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([path]) == 0

    out = capsys.readouterr().out
    assert out == f"{result_document(read_result(path))}\n"
    assert "a: writes into the same output in each call" in out


def test_report_shows_every_table_of_a_sweep_and_its_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = result(*[realistic_cell(spec, scale) for spec, scale in zip(SWEEP, (4.0, 1.0, 0.5))])

    assert report.main([saved(tmp_path, made)]) == 0

    out = capsys.readouterr().out
    assert out == f"{result_document(made)}\n"
    assert "summary: conv2d over stride" in out


def test_report_shows_an_interruption_and_the_policy_as_the_command_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = {"key": "conv2d/native/cpu/direct", "source": "model", "reasons": ["few channels"]}
    made = result(cell(baseline_row(), policy={**policy, "costs_from": "", "measurement": "agrees"}), interrupted=True)

    assert report.main([saved(tmp_path, made)]) == 0

    out = capsys.readouterr().out
    assert "interrupted: this is what was measured until then" in out
    assert "native/direct (model)" in words_of(out)


def test_columns_and_verbose_of_a_result_are_those_of_its_command(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([path, "--columns", "+page_faults,first_call", "--verbose"]) == 0

    out = capsys.readouterr().out
    assert out == f"{result_document(read_result(path), ['+page_faults', 'first_call'], is_verbose=True)}\n"
    assert "first call" in out


def test_files_of_a_result_are_those_of_its_command(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = read_result(path)
    texts = {"json": render_json(made.to_dict()), "csv": render_csv(made), "markdown": result_document(made).markdown()}

    assert report.main([path, *(f"--{kind}={tmp_path / kind}" for kind in texts)]) == 0

    for kind, text in texts.items():
        assert (tmp_path / kind).read_text(encoding="utf-8") == text
    assert "implicit_gemm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--format", "tfprof"], "--format tfprof divides the time of a run among its operators"),
        (["--by", "name"], "--by is for captures"),
        (["--sort", "own"], "--sort is for captures"),
        (["--top", "3"], "--top is for captures"),
        (["--process", "1"], "--process is for captures"),
        (["--subtract-overhead"], "--subtract-overhead is for captures"),
        (["--columns", "median,bogus"], "unknown column 'bogus'"),
        (["--json", "/nowhere/at/all.json"], "there is no folder"),
    ],
)
def test_flags_that_a_result_has_no_use_for_are_refused(
    flags: list[str], said: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.main([path, *flags]) == 2

    captured = capsys.readouterr()
    assert said in words_of(captured.err)
    assert captured.out == ""


def test_verbose_is_for_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = CaptureBuilder().begin(1, "a").end(2).write(tmp_path / "run.profkit")

    assert report.main([capture, "--verbose"]) == 2
    assert "--verbose is for results" in words_of(capsys.readouterr().err)


@pytest.mark.parametrize("op", SPECS)
def test_results_of_every_operator_are_shown_compared_and_asked(
    op: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    specs = list(presets_for(op).values())[:2]
    made = result(*[cell(baseline_row(key=f"{op}/torch/cpu"), spec=spec) for spec in specs])
    path = saved(tmp_path, made)

    assert report.main([path]) == 0
    assert capsys.readouterr().out == f"{result_document(made)}\n"
    assert compare.main([path, path]) == 0
    assert capsys.readouterr().out.count("10.31 ms ±1.2%") == 2 * len(specs)
    (first, *_) = specs[0].field_values()
    assert answers(path, f'select op, "{first}" as field from rows order by cell', tmp_path) == [
        {"op": op, "field": spec.field_values()[first]} for spec in specs
    ]


# --- SQL and Parquet ---


def test_rows_have_their_spec_and_the_names_of_the_csv_file(path: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    rows = answers(path, "select * from rows", tmp_path)

    made = read_result(path)
    assert [row["key"] for row in rows] == [row.key for row in made.cells[0].rows]
    assert [row["median_ns"] for row in rows] == [row.median_ns for row in made.cells[0].rows]
    assert {row["stride"] for row in rows} == {2}
    assert rows[0]["spec_layout"] == "NCHW" and rows[0]["layout"] == ""
    lists = {"samples", "warmups", "throttled_samples"}  # of a line of CSV their number
    header = set(next(csv.reader(render_csv(made).splitlines())))
    assert set(rows[0]) == header - lists | {"cell"}


def test_samples_warmups_cells_and_environment_are_tables(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    row = ok_row("conv2d/torch/cpu", 1.0, 1.0, "baseline", samples_ns=[5.0, 6.0, 7.0], throttled_samples=[1])
    made = result(cell(row, left_out=["conv2d/numpy/cpu"], notes=["a note"]), cell(row, spec=SWEEP[2], threads=1))
    made.environment |= {"packages": {"torch": "2.1"}, "load": [0.5, 0.25], "governor": None}
    path = saved(tmp_path, made)

    samples = answers(path, "select sample, round, time_ns, is_throttled from samples where cell = 1", tmp_path)
    warmups = answers(path, "select count(*) as n, count(distinct cell) as cells from warmups", tmp_path)
    cells = answers(path, "select cell, op, threads, left_out, notes, policy, flops_per_s from cells", tmp_path)
    facts = answers(path, "select * from environment", tmp_path)
    about = answers(path, "select * from result", tmp_path)

    assert [tuple(each.values()) for each in samples] == [(0, 0, 5.0, False), (1, 1, 6.0, True), (2, 2, 7.0, False)]
    assert warmups == [{"n": 4, "cells": 2}]
    assert [(each["cell"], each["threads"], each["left_out"]) for each in cells] == [
        (0, 2, ["conv2d/numpy/cpu"]),
        (1, 1, []),
    ]
    assert (cells[0]["op"], cells[0]["notes"], cells[0]["policy"]) == ("conv2d", ["a note"], None)
    assert cells[0]["flops_per_s"] == made.cells[0].peaks["flops_per_s"]
    assert {each["fact"]: each["value"] for each in facts} == {
        "cpu": "a machine",
        "packages.torch": "2.1",
        "load": "[0.5, 0.25]",
        "governor": None,
    }
    assert about == [{"interrupted": False, **made.peaks}]


def test_a_result_of_two_operators_and_one_of_none_have_all_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    both = result(cell(baseline_row()), cell(Row("matmul/torch/cpu", "oom", "too large"), spec=MatMul(m=7)))
    path = saved(tmp_path, both)

    assert answers(path, "select op, stride, m, median_ns from rows order by op", tmp_path) == [
        {"op": "conv2d", "stride": 2, "m": None, "median_ns": 10_310_000.0},
        {"op": "matmul", "stride": None, "m": 7, "median_ns": None},
    ]
    assert query.main([saved(tmp_path, result(), "none.json"), "--tables"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if not line.startswith(" ")] == [
        f"{table} ({int(table in ('environment', 'result'))} rows)" for table in RESULT_TABLES
    ]


@pytest.mark.parametrize("command", ["query", "export"])
def test_every_table_of_a_result_becomes_parquet(command: str, path: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="Parquet is written by DuckDB")
    runs = {"query": (query.main, "--parquet-folder"), "export": (export.main, "--parquet")}
    main, flag = runs[command]

    assert main([path, flag, str(tmp_path / "tables")]) == 0

    assert sorted(file.stem for file in (tmp_path / "tables").iterdir()) == sorted(RESULT_TABLES)
    found = duckdb.connect().read_parquet(str(tmp_path / "tables" / "rows.parquet")).fetchall()
    assert len(found) == len(read_result(path).cells[0].rows)


@pytest.mark.parametrize("words", [["--chrome", "t"], ["--folded", "t"], ["--format", "perfetto"]])
def test_a_result_has_no_timeline(
    words: list[str], path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert export.main([path, *words]) == 2

    assert "needs a timeline, and a result has none: use --parquet DIR" in words_of(capsys.readouterr().err)
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


# --- Compared ---


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_both_values_of_every_row_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numpy = ok_row("conv2d/numpy/cpu", 80.0, 0.13, "slower")
    jax = ok_row("conv2d/jax/cpu", 5.0, 2.06, "faster")
    broken = Row("conv2d/numba/cpu", "crashed", "signal 11")
    a = saved(tmp_path, result(cell(baseline_row(10.31), numpy, jax, broken)), "a.json")
    slower = ok_row("conv2d/numpy/cpu", 90.0, 0.11, "not resolved")
    repaired = ok_row("conv2d/numba/cpu", 30.0, 0.3, "slower")
    onnx = ok_row("conv2d/onnxruntime/cpu", 7.0, 1.5, "faster")
    b = saved(tmp_path, result(cell(baseline_row(10.5), slower, repaired, onnx)), "b.json")

    assert compare.main([a, b]) == 0

    lines = lines_of(capsys)
    cells = {line.split()[0]: words_of(line) for line in lines if line}
    assert cells["numpy"] == "numpy 80.00 ms ±1.2% 90.00 ms ±1.2% 0.13 0.11 slower not resolved"
    assert cells["torch"] == "torch 10.31 ms ±1.2% 10.50 ms ±1.2% 1.00 1.00 baseline baseline"
    assert cells["numba"] == "numba crashed 30.00 ms ±1.2% \u2013 0.30 \u2013 slower"
    assert cells["jax"].endswith("2.06 \u2013 faster \u2013")
    assert "only in a: jax" in lines
    assert "only in b: onnxruntime" in lines
    text = words_of(" ".join(lines))
    assert text.startswith(f"a: {a}, b: {b} conv2d: batch 128,")
    assert "ratio = time of torch / this time, in the same file: above 1 is faster" in text
    assert text.count("the difference between a and b is not judged") == 1
    assert "warning" not in text


def test_rows_without_a_time_in_either_are_counted_and_the_table_fits(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main([path, path]) == 0

    lines = lines_of(capsys)
    assert max(map(len, lines)) <= 100
    assert "without a time in either: numba, keras/jax, keras/torch, cupy/cuda and 1 more" in lines


def test_another_machine_spec_or_version_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (result(cell(baseline_row(), spec=spec)) for spec in SWEEP[:2])
    first.environment = {"cpu": "Old", "cpus_usable": [0, 1], "packages": {"torch": "2.0"}, "profkit": "0.1.0"}
    second.environment = {"cpu": "New", "cpus_usable": [0], "packages": {"torch": "2.1"}, "profkit": "0.1.0"}
    second.environment |= {"gpus": {"devices": [{"name": "H100"}]}, "simd": {"simd_active": "avx2"}}
    second.cells[0].threads, second.interrupted = 1, True
    a, b = saved(tmp_path, first, "a.json"), saved(tmp_path, second, "b.json")

    assert compare.main([a, b]) == 0

    text = words_of(" ".join(lines_of(capsys)))
    assert "warning: machine differs: a Old, b New" in text
    assert "warning: processor count differs: a 2, b 1" in text
    assert "warning: GPU differs: a \u2013, b H100" in text
    assert "warning: SIMD differs: a \u2013, b avx2" in text
    assert "warning: stride differs: a 1, b 2" in text
    assert "warning: threads differs: a 2, b 1" in text
    assert "warning: the measurement of b was interrupted" in text
    assert " torch differs: a 2.0, b 2.1" in text and "warning: torch" not in text
    assert "profkit differs" not in text


def test_cells_of_sweeps_find_their_counterparts_and_the_rest_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = saved(tmp_path, result(*[cell(baseline_row(), spec=spec) for spec in SWEEP]), "a.json")
    b = saved(tmp_path, result(*[cell(baseline_row(20.0), spec=spec) for spec in SWEEP[:0:-1]]), "b.json")

    code = compare.main([a, b, "--json", str(tmp_path / "c.json"), "--markdown", str(tmp_path / "c.md")])

    text = words_of(" ".join(lines_of(capsys)))
    data = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert code == 0
    assert text.count("10.31 ms ±1.2% 20.00 ms ±1.2%") == 2
    assert "warning: only in a: conv2d" in text and "warning: only in b" not in text
    assert data["schema"] == "profkit.result_comparison/1"
    assert [[each[side]["spec"]["stride"] for side in "ab"] for each in data["cells"]] == [[2, 2], [3, 3]]
    assert [each["spec"]["stride"] for each in data["only_a"]] == [1]
    assert data["cells"][0]["rows"][0]["b"]["median_ns"] == 20e6
    assert data["cells"][0]["rows"][0]["a"]["ratio_low"] == 1.0
    assert data["cells"][0]["differences"] == data["differences"] == data["only_b"] == []
    assert (tmp_path / "c.md").read_text(encoding="utf-8").count("| implementation | time a |") == 2


def test_only_the_asked_number_of_rows_is_printed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([path, path, "--top", "2"]) == 0

    text = capsys.readouterr().out
    assert "9 more rows (--top all)" in text
    assert "implicit_gemm" in text and "onnxruntime" not in text


def test_results_without_a_common_cell_are_refused(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    product = saved(tmp_path, result(cell(baseline_row(key="matmul/torch/cpu"), spec=MatMul())), "product.json")
    sweep = saved(tmp_path, result(*[cell(baseline_row(), spec=Conv2d(batch=n)) for n in (1, 2)]), "sweep.json")

    for other, said in ((product, "b has matmul (m "), (sweep, "b has conv2d (batch 1, ")):
        assert compare.main([path, other]) == 2
        error = words_of(capsys.readouterr().err)
        assert "the results have nothing in common: a has conv2d (batch 128, " in error and said in error


def test_a_result_and_a_capture_are_not_compared(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capture = CaptureBuilder().begin(1, "a").end(2).write(tmp_path / "run.profkit")

    assert [compare.main([path, capture]), compare.main([capture, path])] == [2, 2]
    assert capsys.readouterr().err.count("one file is a result, the other a capture") == 2


@pytest.mark.parametrize("flags", [["--fail-on", "5%"], ["--by", "name"], ["--margin", "5%"], ["--force"]])
def test_what_needs_a_verdict_is_refused(flags: list[str], path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([path, path, *flags]) == 2

    captured = capsys.readouterr()
    assert f"{flags[0]} is for captures: the difference between two results is shown and not judged" in words_of(
        captured.err
    )
    assert captured.out == ""
