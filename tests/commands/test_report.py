"""`profkit report`: files of captures in, tables, files and exit codes out."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.builders import CaptureBuilder
from tests.support.processes import finish
from tests.support.typed import Typed


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A step with two layers, a span into another thread, allocations, and losses."""
    builder = CaptureBuilder(counters=[12, 12, 0, 0, 0, 1, 1]).process(4711, doors=["allocations"]).thread("main")
    builder.begin(1000, "step", domain="app").begin(2000, "layer").alloc(2500, 0x1000, 4096).end(5000)
    builder.begin(6000, "layer").alloc(6500, 0x2000, 8192).free(6600, 0x2000).end(9000).end(10_000)
    builder.thread("pool").begin(3000, "job").end(4000)
    return builder.write(tmp_path / "run.profkit")


def test_the_table_comes_with_losses_on_its_first_line(capture: str, typed: Typed) -> None:
    lines = typed.shows("report", capture).splitlines()

    assert lines[0].startswith("12 records were dropped: 12 because the disk was full")
    (layer,) = [line for line in lines if line.startswith("layer")]
    assert layer.split()[:3] == ["layer", "2", "6.000"]
    assert any(line.startswith("app:step") for line in lines)


@pytest.mark.parametrize(
    ("counters", "code"), [([12, 12, 0, 0, 0, 1, 1], 5), ([0, 0, 0, 0, 0, 1, 1, 0, 0, 2], 5), ([0] * 5 + [1, 1], 0)]
)
def test_losses_fail_every_command_where_that_is_asked_for(
    counters: list[int], code: int, tmp_path: Path, typed: Typed
) -> None:
    pytest.importorskip("duckdb", reason="profkit query needs DuckDB")
    builder = CaptureBuilder(counters=counters).process(4711).thread("main").begin(1000, "step").end(2000)
    path = builder.write(tmp_path / "run.profkit")

    for words in (["report", path], ["export", path, "--chrome", tmp_path / "t.json"], ["query", path, "select 1"]):
        typed.shows(*words)
        typed.shows(*words, "--fail-on-loss", code=code)


def test_a_program_that_ran_unrecorded_is_told(tmp_path: Path, typed: Typed) -> None:
    builder = CaptureBuilder(counters=[0, 0, 0, 0, 0, 1, 1, 0, 0, 2]).process(4711).thread("main")
    path = builder.begin(1000, "step").end(2000).write(tmp_path / "run.profkit")

    assert "warning: 2 programs were started (exec) in an environment without" in typed.says("report", path)


def test_all_files_are_written_at_once(capture: str, tmp_path: Path, typed: Typed) -> None:
    words = [f"--{kind}={tmp_path / kind}" for kind in ("json", "csv", "markdown")]

    out = typed.shows("report", capture, "--by=path", "--subtract-overhead", *words)

    assert (tmp_path / "csv").read_text().startswith("name,calls,")
    assert (tmp_path / "markdown").read_text().startswith("### python program.py")
    assert json.loads((tmp_path / "json").read_text())["rows"][0]["path"] == ["app:step"]
    assert "total" in out


def test_a_thread_and_a_process_can_be_chosen(capture: str, typed: Typed) -> None:
    out = typed.shows("report", capture, "--process", "4711", "--thread", "pool")

    assert "job" in out and "layer" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--columns", "bogus"], "columns: calls, inclusive"),
        (["--columns", "+bogus"], "columns: calls, inclusive"),
        (["--sort", "inclusiv"], "did you mean inclusive?"),
        (["--top", "0"], "--top takes a number of rows"),
        (["--top", "many"], "--top takes a number of rows"),
        (["--by", "moon"], "invalid choice: 'moon'"),
        (["--process", "python"], "--process takes a process id"),
        (["--process", "1"], "processes: 4711"),
        (["--thread", "nobody"], "threads: main, pool"),
        (["--colums", "calls"], "did you mean --columns?"),
        (["--json", "/nowhere/at/all.json"], "there is no folder"),
        (["--json", "-"], "standard output is /dev/stdout"),
    ],
)
def test_wrong_flags_end_with_2_and_say_what_there_is(
    capture: str, words: list[str], message: str, typed: Typed
) -> None:
    assert message in typed.refuses("report", capture, *words)


def test_no_capture_named_is_an_error_with_the_way_to_help(typed: Typed) -> None:
    assert "CAPTURE" in typed.refuses("report")


def test_a_damaged_file_is_shown_up_to_the_damage_with_a_warning(capture: str, tmp_path: Path, typed: Typed) -> None:
    broken = tmp_path / "broken.profkit"
    broken.write_bytes(Path(capture).read_bytes()[:-60])

    lines = typed.shows("report", broken).splitlines()

    assert lines[0].startswith("12 records were dropped")
    assert lines[1].startswith("warning: ")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_full_disk_behind_the_table_is_one_sentence_and_costs_no_file(capture: str, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "profkit.report", capture, "--json", str(tmp_path / "usage.json")]

    with open("/dev/full", "w") as full:
        done = subprocess.run(words, check=False, stdout=full, stderr=subprocess.PIPE, text=True)

    assert done.returncode == 1
    assert done.stderr == f"profkit report: could not print the table: {os.strerror(errno.ENOSPC)}\n"
    assert json.loads((tmp_path / "usage.json").read_text())["rows"]


@pytest.mark.parametrize("shell", ['"$0" "$@" | true', '"$0" "$@" >&-'], ids=["reader gone", "closed"])
def test_a_standard_output_that_nobody_reads_is_no_error_and_costs_no_file(
    capture: str, tmp_path: Path, shell: str
) -> None:
    words = [sys.executable, "-m", "profkit.report", capture, "--json", "usage.json"]

    done = finish(["bash", "-o", "pipefail", "-c", shell, *words], cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "usage.json").read_text())["rows"]


@pytest.mark.parametrize("layout", ["table", "tfprof"])
def test_a_capture_without_ranges_says_where_ranges_come_from(tmp_path: Path, layout: str, typed: Typed) -> None:
    builder = CaptureBuilder().process(4711, doors=["allocations"]).thread("main").alloc(2500, 0x1000, 4096)

    out = typed.shows("report", builder.write(tmp_path / "run.profkit"), "--format", layout)

    assert "no ranges were recorded: they come from nvtx, torch, oneDNN or profkit.scope" in out
