"""`profkit.export`: from a capture file to files, and what it says when that cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from profkit.capture.run import Run, save_run
from profkit.rendering.sql.captures import RUN_TABLES, TABLES
from tests.capture.builders import CaptureBuilder
from tests.capture.importers.foreign_traces import KinetoTrace, NsightExport
from tests.capture.network_captures import layer, network_capture, op, primitive, recording_of
from tests.support.typed import Typed
from tests.viewers.trace_viewers import load_with_catapult, load_with_trace_processor


@pytest.fixture
def capture(tmp_path: Path) -> str:
    builder = CaptureBuilder(counters=[3, 3])
    builder.thread("main").begin(100, "step").begin(200, "load", domain="data", payload=4)
    builder.alloc(250, 0x1000, 8_192).end(300).mark(350, "seen").free(360, 0x1000).end(900).sample(50, 1 << 20)
    builder.thread("worker").span_begin(400, 1, "copy").span_begin(450, 2, "copy").span_end(500, 1).span_end(600, 2)
    return builder.write(tmp_path / "run.profkit")


def test_all_files_are_written_at_once_and_listed_with_their_size(capture: str, tmp_path: Path, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="Parquet is written by DuckDB")
    names = {"chrome": "t.json", "perfetto": "t.pftrace", "folded": "t.folded", "folded-bytes": "b.folded"}
    words = [word for flag, name in names.items() for word in (f"--{flag}", str(tmp_path / name))]

    code, out, err = typed("export", capture, *words, "--parquet", tmp_path / "tables", "--flows")

    assert code == 0
    for name in (*names.values(), "tables"):
        assert (tmp_path / name).exists()
        assert f"{tmp_path / name}  " in out
    assert "ui.perfetto.dev" in out
    assert "3" in err.splitlines()[0]  # records that were lost
    assert (tmp_path / "t.folded").read_text() == "main;step 700\nmain;step;data:load 100\n"
    assert (tmp_path / "b.folded").read_text() == "main;step;data:load 8192\n"


def test_both_traces_of_a_capture_file_pass_the_viewers(capture: str, tmp_path: Path, typed: Typed) -> None:
    chrome, perfetto = tmp_path / "t.json", tmp_path / "t.pftrace"

    typed.shows("export", capture, "--chrome", chrome, "--perfetto", perfetto, "--flows", "5")

    for path, lanes in ((chrome, 2), (perfetto, 0)):
        loaded = load_with_trace_processor(path)
        # Ranges, mark, spans; both ends of the arrow; what is told about the capture.
        assert (loaded.slices, loaded.threads, loaded.flows) == (3 + 2 + 2 + 1, 2 + lanes, 1)
        assert loaded.counters == 2
    assert len(load_with_catapult(chrome)["flows"]) == 1
    assert json.loads(chrome.read_text())["otherData"]["records lost"] == "3"


def test_without_a_file_to_write_examples_are_shown(capture: str, typed: Typed) -> None:
    assert "profkit export run.profkit --perfetto" in typed.refuses("export", capture)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--perfetto", "{}/missing/t"], "mkdir -p"),
        (["--perfetto", "{}"], "it is a folder"),
        (["--chrome", "{}/t.json", "--flows", "0"], "--flows takes a number"),
        (["--folded", "{}/t", "--flows"], "--flows adds arrows to a trace"),
        (["--chrome", "{}/t", "--perfetto", "{}/t"], "named for two"),
        (["--format", "chrome", "--chrome", "{}/t"], "leave out --chrome or --format"),
        (["--folded", "{}/run.profkit"], "is read by this command"),
        (["--chrom", "{}/t"], "did you mean --chrome?"),
        (["--chrome", "-"], "standard output is /dev/stdout"),
        (["--parquet", "-"], "standard output is /dev/stdout"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    words: list[str], said: str, capture: str, tmp_path: Path, typed: Typed
) -> None:
    assert said in typed.refuses("export", capture, *(word.format(tmp_path) for word in words))
    assert os.listdir(tmp_path) == ["run.profkit"]


def test_a_file_that_fails_does_not_keep_the_others_from_being_written(
    capture: str, tmp_path: Path, typed: Typed
) -> None:
    code, _, err = typed("export", capture, "--chrome", "/dev/full", "--perfetto", tmp_path / "t.pftrace")

    assert code == 1
    assert "could not write /dev/full" in err
    assert (tmp_path / "t.pftrace").stat().st_size > 0


def test_tables_have_no_place_where_a_file_stands(capture: str, tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "file").write_text("")

    code, _, err = typed("export", capture, "--parquet", tmp_path / "file")

    assert (code, "cannot write into" in err, "Traceback" in err) == (1, True, False), err


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
def test_a_trace_in_standard_output_is_alone_there(capture: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "profkit.export", capture, "--chrome", "/dev/stdout", "--folded", "t.folded"]

    with (tmp_path / "out.json").open("w") as stream:
        done = subprocess.run(words, check=True, stdout=stream, stderr=subprocess.PIPE, text=True, cwd=tmp_path)

    assert json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert "t.folded  " in done.stderr and "/dev/stdout" not in done.stderr


# --- GPU traces of other tools ---


@pytest.fixture
def gpu_traces(tmp_path: Path) -> list[Path]:
    kineto = KinetoTrace().operator("aten::mm", 100, 300).call(150, 200, 1).kernel(400, 900, 1, "gemm")
    nsight = NsightExport().range("step", 100, 300).call(150, 200, 1).kernel(400, 900, 1, "gemm")
    return [kineto.write(tmp_path / "torch.trace.json.gz"), nsight.write(tmp_path / "report.sqlite")]


@pytest.mark.parametrize(("kind", "ending"), [("perfetto", ".pftrace"), ("chrome", ".chrome.json.gz")])
def test_gpu_traces_of_other_tools_become_traces_named_after_them(
    kind: str, ending: str, gpu_traces: list[Path], tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    for trace in gpu_traces:
        typed.shows("export", trace, "--format", kind)

    assert sorted(os.listdir()) == [f"report{ending}", f"torch.trace{ending}"]
    for name in os.listdir():
        loaded = load_with_trace_processor(Path(name), ["select ts, dur from slice where name = 'gemm'"])
        assert loaded.answers == [[[300, 500]]]


def test_damage_of_a_gpu_trace_is_told_and_the_rest_exported(tmp_path: Path, typed: Typed) -> None:
    text = KinetoTrace().call(150, 200, 1).kernel(400, 900, 1, "gemm").kernel(950, 990, 2, "cut").text()
    (tmp_path / "cut.json").write_text(text[: text.index('"cut"')])

    code, _, err = typed("export", tmp_path / "cut.json", "--chrome", tmp_path / "out.json")

    assert code == 0
    assert "warning: " in err
    assert load_with_trace_processor(tmp_path / "out.json").slices == 2 + 1


# --- Runs of networks ---


def the_run() -> Run:
    made = recording_of(
        layer("conv1", 0, 500),
        op("aten::conv2d", 100, 400, layer="conv1", phase="forward", requested_bytes=0),
        op("aten::convolution", 110, 390, layer="conv1", phase="forward", requested_bytes=4096),
        primitive("brgemm;jit", 150, 350, layer="conv1", phase="forward"),
        op("aten::mul", 600, 700),
        steps=[(0, 1000)],
    )
    return network_capture(made)


@pytest.fixture
def run_path(tmp_path: Path) -> str:
    path = tmp_path / "network.profkit"
    save_run(the_run(), path)
    return str(path)


def test_all_files_of_a_network_are_written_at_once(run_path: str, tmp_path: Path, typed: Typed) -> None:
    pytest.importorskip("duckdb", reason="Parquet is written by DuckDB")
    names = {"chrome": "t.json.gz", "perfetto": "t.pftrace", "folded": "t.folded", "folded-bytes": "b.folded"}
    words = [word for flag, name in names.items() for word in (f"--{flag}", tmp_path / name)]

    printed = typed.shows("export", run_path, *words, "--parquet", tmp_path / "tables")

    assert all(f"{tmp_path / name}  " in printed for name in (*names.values(), "tables"))
    loaded = load_with_trace_processor(tmp_path / "t.json.gz")
    assert loaded.slices == 5 + 3 + 1  # ranges; step, phase and layer; what is told of the run
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == {*TABLES, *RUN_TABLES}
    lines = (tmp_path / "t.folded").read_text().splitlines()
    assert lines == [
        "torch;forward;conv1;aten::conv2d 20",
        "torch;forward;conv1;aten::conv2d;aten::convolution 80",
        "torch;forward;conv1;aten::conv2d;aten::convolution;brgemm,jit 200",
        "torch;(no phase);(no layer);aten::mul 100",
        "torch;(dispatch) 600",
    ]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 1000  # all of the steps
    assert (tmp_path / "b.folded").read_text() == "torch;forward;conv1;aten::conv2d;aten::convolution 4096\n"


@pytest.mark.parametrize(
    ("make", "words", "code", "said"),
    [
        (
            lambda path: save_run(network_capture(recording_of(op("x", 0, 5))), path),
            ["--folded-bytes"],
            1,
            "torch recorded no bytes of operators",
        ),
        (lambda path: save_run(the_run(), path), ["--flows", "--chrome"], 2, "--flows"),
        (
            lambda path: KinetoTrace().kernel(4, 9, 1, "gemm").write(path.with_suffix(".json")).rename(path),
            ["--flows", "--chrome"],
            2,
            "this capture has none",
        ),
    ],
    ids=["no bytes", "no allocations of a run", "no allocations of a GPU trace"],
)
def test_what_a_source_has_not_recorded_is_said(
    make: Callable[[Path], object], words: list[str], code: int, said: str, tmp_path: Path, typed: Typed
) -> None:
    make(tmp_path / "file")

    assert said in typed.refuses("export", tmp_path / "file", *words, tmp_path / "t", code=code)
    assert not (tmp_path / "t").exists()


def test_a_run_that_failed_is_told_and_still_exported(tmp_path: Path, typed: Typed) -> None:
    path = tmp_path / "failed.profkit"
    save_run(network_capture(status="oom", reason="not enough memory"), path)

    code, _, err = typed("export", path, "--perfetto", tmp_path / "t")

    assert code == 0
    assert "warning: the run is oom: not enough memory" in err
