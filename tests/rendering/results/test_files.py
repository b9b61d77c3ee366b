"""Results that `--json` wrote, opened again: shown, compared, asked in SQL, exported; and what is refused."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.commands.opening import open_any
from profkit.errors import CaptureError
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.result import Result, Row, read_result
from profkit.measurement.statistics import result_changes
from profkit.ops import SPECS, Conv2d, MatMul, presets_for
from profkit.rendering.results.columns import render_csv
from profkit.rendering.results.content import result_document
from profkit.rendering.sql.results import RESULT_TABLES
from profkit.rendering.tables.json_file import render_json
from tests.capture.builders import CaptureBuilder
from tests.rendering.builders import baseline_row, cell, ok_row, realistic_cell, result
from tests.support.typed import Typed

SWEEP = [Conv2d(stride=stride) for stride in (1, 2, 3)]


def saved(folder: Path, made: Result, name: str = "result.json") -> str:
    (folder / name).write_text(render_json(made.to_dict()), encoding="utf-8")
    return str(folder / name)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return saved(tmp_path, result(realistic_cell()))


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
    ("field", "number", "reason"),
    [
        ('"peak_bytes": 524288', "9" * 400, "a number is too long, at character"),
        ('"peak_bytes": 524288', "9" * 19, "is too long"),
        ('"peak_bytes": 524288', "1e999", "row 0 of cell 0 has peak_bytes 'inf'"),
        ('"median_ns": 9810000.0', "1e999", "row 0 of cell 0 has median_ns"),
        ('"median_ns": 9810000.0', "NaN", "row 0 of cell 0 has median_ns"),
        ('"median_ns": 9810000.0', "-Infinity", "row 0 of cell 0 has median_ns"),
        ('"key": "conv2d/native/cpu/implicit_gemm",', "", "is a damaged result: row 0 of cell 0 has no key"),
        ('"status": "ok",', "", "is a damaged result: row 0 of cell 0 has no status"),
    ],
)
def test_numbers_that_no_machine_counts_to_and_missing_fields_are_damage(
    field: str, number: str, reason: str, path: str
) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert field in text
    changed = f"{field.partition(':')[0]}: {number}" if number else ""
    Path(path).write_text(text.replace(field, changed, 1), encoding="utf-8")

    with pytest.raises(CaptureError, match=reason):
        open_any(path)


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


# --- Shown again ---


def test_report_shows_the_table_that_the_command_printed(path: str, typed: Typed) -> None:
    out = typed.shows("report", path)

    assert out == f"{result_document(read_result(path))}\n"
    assert "a: writes into the same output in each call" in out


def test_report_shows_every_table_of_a_sweep_and_its_summary(tmp_path: Path, typed: Typed) -> None:
    made = result(*[realistic_cell(spec, scale) for spec, scale in zip(SWEEP, (4.0, 1.0, 0.5))])

    out = typed.shows("report", saved(tmp_path, made))

    assert out == f"{result_document(made)}\n"
    assert "summary: conv2d over stride" in out


def test_report_shows_an_interruption_and_the_policy_as_the_command_did(tmp_path: Path, typed: Typed) -> None:
    policy = {"key": "conv2d/native/cpu/direct", "source": "model", "reasons": ["few channels"]}
    made = result(cell(baseline_row(), policy={**policy, "costs_from": "", "measurement": "agrees"}), interrupted=True)

    out = typed.shows("report", saved(tmp_path, made))

    assert "interrupted: this is what was measured until then" in out
    assert "native/direct (model)" in " ".join(out.split())


def test_columns_and_verbose_of_a_result_are_those_of_its_command(path: str, typed: Typed) -> None:
    out = typed.shows("report", path, "--columns", "+page_faults,first_call", "--verbose")

    assert out == f"{result_document(read_result(path), ['+page_faults', 'first_call'], is_verbose=True)}\n"
    assert "first call" in out


def test_files_of_a_result_are_those_of_its_command(path: str, tmp_path: Path, typed: Typed) -> None:
    made = read_result(path)
    texts = {"json": render_json(made.to_dict()), "csv": render_csv(made), "markdown": result_document(made).markdown()}

    assert "implicit_gemm" in typed.shows("report", path, *(f"--{kind}={tmp_path / kind}" for kind in texts))

    for kind, text in texts.items():
        assert (tmp_path / kind).read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--format", "tfprof"], "--format tfprof divides the time of a run among its operators"),
        (["--by", "name"], "--by is for captures"),
        (["--sort", "own"], "--sort is for captures"),
        (["--top", "3"], "--top is for captures"),
        (["--process", "1"], "--process is for captures"),
        (["--process", "0"], "--process is for captures"),
        (["--subtract-overhead"], "--subtract-overhead is for captures"),
        (["--columns", "median,bogus"], "unknown column 'bogus'"),
        (["--json", "/nowhere/at/all.json"], "there is no folder"),
    ],
)
def test_flags_that_a_result_has_no_use_for_are_refused(flags: list[str], said: str, path: str, typed: Typed) -> None:
    assert said in typed.refuses("report", path, *flags)


def test_verbose_is_for_results(tmp_path: Path, typed: Typed) -> None:
    capture = CaptureBuilder().begin(1, "a").end(2).write(tmp_path / "run.profkit")

    assert "--verbose is for results" in typed.refuses("report", capture, "--verbose")


@pytest.mark.parametrize("op", SPECS)
def test_results_of_every_operator_are_shown_compared_and_asked(op: str, tmp_path: Path, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    specs = list(presets_for(op).values())[:2]
    made = result(*[cell(baseline_row(key=f"{op}/torch/cpu"), spec=spec) for spec in specs])
    path = saved(tmp_path, made)

    assert typed.shows("report", path) == f"{result_document(made)}\n"
    assert typed.shows("compare", path, path).count("10.31 ms") == 2 * len(specs)
    (first, *_) = specs[0].field_values()
    rows = typed.json("query", path, f'select op, "{first}" as field from rows order by cell')
    assert rows == [{"op": op, "field": spec.field_values()[first]} for spec in specs]


# --- SQL and Parquet ---


def test_rows_have_their_spec_and_the_names_of_the_csv_file(path: str, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")

    rows = typed.json("query", path, "select * from rows")

    made = read_result(path)
    assert [row["key"] for row in rows] == [row.key for row in made.cells[0].rows]
    assert [row["median_ns"] for row in rows] == [row.median_ns for row in made.cells[0].rows]
    assert {row["stride"] for row in rows} == {2}
    assert rows[0]["spec_layout"] == "NCHW" and rows[0]["layout"] == ""
    lists = {"samples", "warmups", "throttled_samples"}  # of a line of CSV their number
    header = set(next(csv.reader(render_csv(made).splitlines())))
    assert set(rows[0]) == header - lists | {"cell"}


def test_samples_warmups_cells_and_environment_are_tables(tmp_path: Path, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    row = ok_row("conv2d/torch/cpu", 1.0, 1.0, "baseline", samples_ns=[5.0, 6.0, 7.0], throttled_samples=[1])
    made = result(cell(row, left_out=["conv2d/numpy/cpu"], notes=["a note"]), cell(row, spec=SWEEP[2], threads=1))
    made.environment |= {"packages": {"torch": "2.1"}, "load": [0.5, 0.25], "governor": None}
    path = saved(tmp_path, made)

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(each.values()) for each in typed.json("query", path, f"select {sql}")]

    throttled = rows("sample, round, time_ns, is_throttled from samples where cell = 1")
    assert throttled == [(0, 0, 5.0, False), (1, 1, 6.0, True), (2, 2, 7.0, False)]
    assert rows("count(*), count(distinct cell) as cells from warmups") == [(4, 2)]
    assert rows("cell, threads, left_out from cells") == [(0, 2, ["conv2d/numpy/cpu"]), (1, 1, [])]
    flops_per_s = made.cells[0].peaks["flops_per_s"]
    assert rows("op, notes, policy, flops_per_s from cells")[0] == ("conv2d", ["a note"], None, flops_per_s)
    facts = {"cpu": "a machine", "packages.torch": "2.1", "load": "[0.5, 0.25]", "governor": None}
    assert dict(rows("fact, value from environment")) == facts
    assert typed.json("query", path, "select * from result") == [{"interrupted": False, **made.peaks}]


def test_a_result_of_two_operators_and_one_of_none_have_all_tables(tmp_path: Path, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="SQL needs DuckDB")
    both = result(cell(baseline_row()), cell(Row("matmul/torch/cpu", "oom", "too large"), spec=MatMul(m=7)))
    path = saved(tmp_path, both)

    assert typed.json("query", path, "select op, stride, m, median_ns from rows order by op") == [
        {"op": "conv2d", "stride": 2, "m": None, "median_ns": 10_310_000.0},
        {"op": "matmul", "stride": None, "m": 7, "median_ns": None},
    ]
    out = typed.shows("query", saved(tmp_path, result(), "none.json"), "--tables").splitlines()
    assert [line for line in out if not line.startswith(" ")] == [
        f"{table} ({int(table in ('environment', 'result'))} rows)" for table in RESULT_TABLES
    ]


@pytest.mark.parametrize(("command", "flag"), [("query", "--parquet-folder"), ("export", "--parquet")])
def test_every_table_of_a_result_becomes_parquet(
    command: str, flag: str, path: str, tmp_path: Path, typed: Typed
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="Parquet is written by DuckDB")

    typed.shows(command, path, flag, tmp_path / "tables")

    assert sorted(file.stem for file in (tmp_path / "tables").iterdir()) == sorted(RESULT_TABLES)
    found = duckdb.connect().read_parquet(str(tmp_path / "tables" / "rows.parquet")).fetchall()
    assert len(found) == len(read_result(path).cells[0].rows)


@pytest.mark.parametrize("words", [["--chrome", "t"], ["--folded", "t"], ["--format", "perfetto"]])
def test_a_result_has_no_timeline(
    words: list[str], path: str, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    refused = typed.refuses("export", path, *words)

    assert "needs a timeline, and a result has none: use --parquet DIR" in refused
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


# --- Compared ---


def test_both_values_of_every_row_stand_side_by_side(tmp_path: Path, typed: Typed) -> None:
    numpy = ok_row("conv2d/numpy/cpu", 80.0, 0.13, "slower")
    jax = ok_row("conv2d/jax/cpu", 5.0, 2.06, "faster")
    broken = Row("conv2d/numba/cpu", "crashed", "signal 11")
    a = saved(tmp_path, result(cell(baseline_row(10.31), numpy, jax, broken)), "a.json")
    slower = ok_row("conv2d/numpy/cpu", 90.0, 0.11, "not resolved")
    repaired = ok_row("conv2d/numba/cpu", 30.0, 0.3, "slower")
    onnx = ok_row("conv2d/onnxruntime/cpu", 7.0, 1.5, "faster")
    b = saved(tmp_path, result(cell(baseline_row(10.5), slower, repaired, onnx)), "b.json")

    lines = typed.shows("compare", a, b).splitlines()
    cells = {line.split()[0]: " ".join(line.split()) for line in lines if line and "itself" not in line}
    assert cells["numpy"] == "numpy 80.00 ms 90.00 ms 0.13 0.11 0.91 [0.91, 0.91] slower"
    assert cells["torch"] == "torch 10.31 ms 10.50 ms 1.00 1.00 \u2013 baseline"
    assert cells["numba"] == "numba crashed 30.00 ms \u2013 0.30 \u2013 \u2013"
    assert cells["jax"].endswith("2.06 \u2013 \u2013 \u2013")
    assert "not judged, crashed in a: numba" in lines
    assert "only in a: jax" in lines
    assert "only in b: onnxruntime" in lines
    text = " ".join(" ".join(lines).split())
    assert text.startswith(f"a: {a}, b: {b} conv2d: batch 128,")
    assert "ratio = time of torch / this time, in the same file: above 1 is faster" in text
    assert text.count("a / b: of times relative to the baseline's; above 1: b is faster") == 1
    assert "warning" not in text


def test_rows_without_a_time_in_either_are_counted_and_the_table_fits(path: str, typed: Typed) -> None:
    lines = typed.shows("compare", path, path).splitlines()

    assert max(map(len, lines)) <= 100
    assert "without a time in either: numba, keras/jax, keras/torch, cupy/cuda and 1 more" in lines


def test_another_machine_spec_or_version_is_named(tmp_path: Path, typed: Typed) -> None:
    first, second = (result(cell(baseline_row(), spec=spec)) for spec in SWEEP[:2])
    first.environment = {"cpu": "Old", "cpus_usable": [0, 1], "packages": {"torch": "2.0"}, "profkit": "0.1.0"}
    second.environment = {"cpu": "New", "cpus_usable": [0], "packages": {"torch": "2.1"}, "profkit": "0.1.0"}
    second.environment |= {"gpus": {"devices": [{"name": "H100"}]}, "simd": {"simd_active": "avx2"}}
    second.cells[0].threads, second.interrupted = 1, True
    a, b = saved(tmp_path, first, "a.json"), saved(tmp_path, second, "b.json")

    text = typed.says("compare", a, b)

    for name, of_a, of_b in (
        ("machine", "Old", "New"),
        ("processor count", "2", "1"),
        ("GPU", "\u2013", "H100"),
        ("SIMD", "\u2013", "avx2"),
        ("stride", "1", "2"),
        ("threads", "2", "1"),
    ):
        assert f"warning: {name} differs: a {of_a}, b {of_b}" in text
    assert "warning: the measurement of b was interrupted" in text
    assert " torch differs: a 2.0, b 2.1" in text and "warning: torch" not in text
    assert "profkit differs" not in text


def test_cells_of_sweeps_find_their_counterparts_and_the_rest_is_said(tmp_path: Path, typed: Typed) -> None:
    a = saved(tmp_path, result(*[cell(baseline_row(), spec=spec) for spec in SWEEP]), "a.json")
    b = saved(tmp_path, result(*[cell(baseline_row(20.0), spec=spec) for spec in SWEEP[:0:-1]]), "b.json")

    text = typed.says("compare", a, b, "--json", tmp_path / "c.json", "--markdown", tmp_path / "c.md")

    data = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert text.count("10.31 ms 20.00 ms") == 2
    assert "warning: only in a: conv2d" in text and "warning: only in b" not in text
    assert data["schema"] == "profkit.result_comparison/1"
    assert [[each[side]["spec"]["stride"] for side in "ab"] for each in data["cells"]] == [[2, 2], [3, 3]]
    assert [each["spec"]["stride"] for each in data["only_a"]] == [1]
    assert data["cells"][0]["rows"][0]["b"]["median_ns"] == 20e6
    assert data["cells"][0]["rows"][0]["a"]["ratio_low"] == 1.0
    assert data["cells"][0]["differences"] == data["differences"] == data["only_b"] == []
    assert (tmp_path / "c.md").read_text(encoding="utf-8").count("| implementation | time a |") == 2


def test_only_the_asked_number_of_rows_is_printed(path: str, typed: Typed) -> None:
    text = typed.shows("compare", path, path, "--top", "2")

    assert "9 more rows (--top all)" in text
    assert "implicit_gemm" in text and "onnxruntime" not in text


def test_results_without_a_common_cell_are_refused(path: str, tmp_path: Path, typed: Typed) -> None:
    product = saved(tmp_path, result(cell(baseline_row(key="matmul/torch/cpu"), spec=MatMul())), "product.json")
    sweep = saved(tmp_path, result(*[cell(baseline_row(), spec=Conv2d(batch=n)) for n in (1, 2)]), "sweep.json")

    for other, said in ((product, "b has matmul (m "), (sweep, "b has conv2d (batch 1, ")):
        error = typed.refuses("compare", path, other)
        assert "the results have nothing in common: a has conv2d (batch 128, " in error and said in error


def test_a_result_and_a_capture_are_not_compared(path: str, tmp_path: Path, typed: Typed) -> None:
    capture = CaptureBuilder().begin(1, "a").end(2).write(tmp_path / "run.profkit")

    for files in ((path, capture), (capture, path)):
        assert "one file is a result, the other a capture" in typed.refuses("compare", *files)


def noisy_row(key: str, median_ms: float, seed: int, spread: float = 0.01, **changes: Any) -> Row:
    """Sixty rounds of white noise."""
    times = 1e6 * median_ms * np.exp(np.random.default_rng(seed).normal(0.0, spread, 60))
    values = {"samples_ns": times.tolist(), "sample_rounds": list(range(60)), **changes}
    return ok_row(key, median_ms, 1.0, "same", **values)


def two_results(
    folder: Path, machine: float = 1.0, own: float = 1.0, other: dict[str, Any] | None = None, **changes: Any
) -> list[str]:
    """Torch and a kernel, measured twice: all became slower by `machine`, the kernel by `own`; the rest is of b."""
    paths = []
    for place, (torch_ms, kernel_ms, more) in enumerate(
        ((10.0, 8.0, {}), (10.0 * machine, 8.0 * machine * own, other or {}))
    ):
        torch = noisy_row("conv2d/torch/cpu", torch_ms, 1 + place)
        kernel = noisy_row("conv2d/native/cpu/direct", kernel_ms, 11 + place, **more)
        values = {"baseline": "conv2d/torch/cpu", "floor": 0.002, **(changes if place else {})}
        kernel.status = values.pop("status", "ok")
        made = cell(torch, kernel, **values)
        paths.append(saved(folder, result(made), f"{'ab'[place]}.json"))
    return paths


@pytest.mark.parametrize(
    ("machine", "own", "flags", "code", "said"),
    [
        (1.0, 1.0, [], 0, "passed: no row is slower by more than 5.0%, as far as resolved"),
        (1.0, 1.2, [], 4, "FAILED: slower by more than 5.0%, resolved: native/direct by 2"),
        (1.0, 1.2, ["--fail-on", "30%"], 0, "passed"),
        (1.0, 0.8, [], 0, "passed"),
        (1.0, 1.052, [], 0, "passed"),  # beyond the limit, but not with its whole interval
        (1.3, 1.0, [], 0, "warning: torch itself became slower (its times, a / b 0.77 [0."),
        (1.3, 1.0, ["--by", "time"], 4, "resolved: torch by 30%; native/direct by 30%"),
        (1.3, 1.2, [], 4, "resolved: native/direct by 2"),
    ],
)
def test_a_resolved_slowdown_fails_the_check(
    machine: float, own: float, flags: list[str], code: int, said: str, tmp_path: Path,
    typed: Typed, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(result_changes, "machine_time_floor", lambda: (0.01, "measured 2026-11-02"))

    files = two_results(tmp_path, machine, own)

    assert said in typed.says("compare", *files, "--fail-on", "5%", *flags, code=code)


@pytest.mark.parametrize(
    ("other", "changes", "said"),
    [
        ({}, {"status": "wrong"}, "not judged, wrong in b: native/direct"),
        ({"doubts": ["its threads left their processors"]}, {}, "not judged, in doubt in b: native/direct"),
        ({"samples_ns": [], "sample_rounds": []}, {}, "not judged, no undisturbed samples are kept: native/direct"),
        (
            {"timing": WALL_CLOCK},
            {},
            "not judged, timed by events in one, by the wall clock in the other: native/direct",
        ),
        ({}, {"is_too_busy": True}, "16.00 ms 1.00 1.00 0.50 ["),
        ({}, {"is_too_busy": True}, "too busy to judge: b"),
    ],
)
def test_rows_that_cannot_be_judged_say_why_and_fail_nothing(
    other: dict[str, Any], changes: dict[str, Any], said: str, tmp_path: Path, typed: Typed
) -> None:
    text = typed.says("compare", *two_results(tmp_path, own=2.0, other=other, **changes), "--fail-on", "5%")

    assert said in text
    assert "not resolved: whether a row is slower by more than 5.0% cannot be decided; nothing fails" in text


@pytest.mark.parametrize("changes", [{"is_too_busy": True}, {"threads": 1}, {"baseline": "conv2d/native/cpu/direct"}])
def test_results_of_a_busy_machine_unequal_ones_and_another_baseline_are_judged_when_forced(
    changes: dict[str, Any], tmp_path: Path, typed: Typed
) -> None:
    paths = two_results(tmp_path, own=2.0, **changes)

    typed.shows("compare", *paths, "--fail-on", "5%", "--force", code=4)
    if "threads" in changes:
        refused = typed.refuses("compare", *paths, "--fail-on", "5%")
        assert "--fail-on compares like with like, but: warning: threads differs: a 2, b 1" in refused
        assert "measure both in the same way, or add --force" in refused


def test_the_file_has_verdicts_and_what_failed(tmp_path: Path, typed: Typed) -> None:
    data = typed.json("compare", *two_results(tmp_path, own=1.5), "--fail-on", "5%", code=4)

    changes = {row["key"]: row["change"] for row in data["cells"][0]["rows"]}
    assert (data["by"], data["fail_on"], data["corrected_for"]) == ("ratio", 0.05, 1)
    assert data["failed"] == [{"cell": 0, "key": "conv2d/native/cpu/direct"}]
    assert changes["conv2d/native/cpu/direct"]["verdict"] == "slower"
    assert changes["conv2d/native/cpu/direct"]["ratio"] == pytest.approx(1 / 1.5, rel=0.01)
    assert changes["conv2d/torch/cpu"]["verdict"] == "baseline"


def test_results_are_not_compared_by_operator(path: str, typed: Typed) -> None:
    said = "--by name is for captures; results are compared by ratio or time"

    assert said in typed.refuses("compare", path, path, "--by", "name")
