"""Files and notebook tables: JSON, CSV, Markdown, HTML; whole or not at all."""

from __future__ import annotations

import csv
import dataclasses
import errno
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.output_files import check_target, write_atomically
from profkit.errors import ProfkitError, UsageError
from profkit.measurement.result import Row
from profkit.ops import Conv2d, MatMul
from profkit.rendering.results.columns import flat_record, render_csv
from profkit.rendering.results.content import result_document
from profkit.rendering.tables.document import FORMATS
from profkit.rendering.tables.json_file import render_json
from tests.rendering.builders import baseline_row, cell, realistic_cell, result

ROW_KEYS = (
    "key status reason median_ns low_ns high_ns first_call_ns samples_ns gflops percent_of_peak peak_bytes max_error "
    "tolerance ratio ratio_low ratio_high verdict"
)


def test_json_has_the_promised_keys_and_raw_samples() -> None:
    data = json.loads(render_json(result(realistic_cell()).to_dict()))

    assert data["schema"] == "profkit.result/1"
    assert {"environment", "peaks", "cells"} <= data.keys()
    assert {"flops_per_s", "bytes_per_s"} <= data["peaks"].keys()
    assert {"spec", "threads", "baseline", "rows"} <= data["cells"][0].keys()
    assert set(ROW_KEYS.split()) <= data["cells"][0]["rows"][0].keys()
    assert len(data["cells"][0]["rows"][0]["samples_ns"]) == 3


def test_json_has_null_where_a_number_is_not_finite() -> None:
    row = Row("conv2d/numba/cpu", "wrong", max_error=float("inf"))

    data = json.loads(render_json(result(cell(row)).to_dict()))

    assert data["cells"][0]["rows"][0]["max_error"] is None


def test_csv_has_a_line_per_row_with_spec_and_plain_numbers() -> None:
    lines = list(csv.DictReader(render_csv(result(realistic_cell())).splitlines()))

    assert len(lines) == 16
    assert lines[0]["stride"] == "2"
    assert lines[0]["spec_layout"] == "NCHW"
    assert float(lines[0]["median_ns"]) == pytest.approx(9.81e6)
    assert lines[0]["samples"] == "3"
    assert lines[11]["status"] == "wrong"
    assert lines[11]["median_ns"] == ""


def test_csv_of_two_operators_has_the_columns_of_both() -> None:
    both = result(cell(baseline_row()), cell(baseline_row(key="matmul/torch/cpu"), spec=MatMul()))

    lines = list(csv.DictReader(render_csv(both).splitlines()))

    assert lines[0]["kernel_size"] == "5"
    assert lines[0]["m"] == ""
    assert lines[1]["m"] == "1024"


def test_a_record_keeps_the_layout_of_the_spec_beside_that_of_the_row() -> None:
    row = dataclasses.replace(baseline_row(), layout="NHWC")
    measured = cell(row, spec=Conv2d(stride=2, layout="NCHW"))

    record = flat_record(measured, row, measured.spec.to_dict())

    assert (record["spec_layout"], record["layout"]) == ("NCHW", "NHWC")
    assert (record["op"], record["stride"], record["threads"], record["key"]) == ("conv2d", 2, 2, row.key)
    assert record["samples_ns"] == row.samples_ns


def test_markdown_has_the_tables_and_escapes_what_would_break_them() -> None:
    row = Row("conv2d/candidate/cpu/mine", "crashed", "a | b\nnext <line>")

    text = result_document(result(cell(baseline_row(), row))).markdown()

    assert "| torch | 10.31 ms ±1.2% |" in text
    assert "| candidate/mine | crashed | a \\| b<br>next &lt;line&gt; |" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") - line.count("\\|") for line in table[:3]} == {9}


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_is_written_in_the_format_of_its_name_and_replaced(ending: str, tmp_path: Path) -> None:
    target = tmp_path / f"out{ending}"
    target.write_text("old")

    result_document(result(realistic_cell())).write(target)

    assert "conv2d" in target.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == [f"out{ending}"]


def test_a_file_of_another_ending_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"must end in \.txt, \.md, \.html, \.csv, \.json"):
        result_document(result(realistic_cell())).write(tmp_path / "out.pdf")


def test_records_behind_a_table_are_numbers_whether_asked_of_it_or_of_its_files(tmp_path: Path) -> None:
    document = result_document(result(realistic_cell()))

    document.write(tmp_path / "out.csv")
    document.write(tmp_path / "out.json")

    records = document.to_records()
    assert len(records) == 16 and records[0]["median_ns"] == pytest.approx(9.81e6)
    assert json.loads((tmp_path / "out.json").read_text())[0]["samples_ns"] == records[0]["samples_ns"]
    with (tmp_path / "out.csv").open() as stream:
        assert [line["key"] for line in csv.DictReader(stream)] == [record["key"] for record in records]


def failing(number: int) -> Callable[..., Any]:
    """A system call that fails with this error."""

    def fail(*args: object, **options: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("call", "number"), [("replace", errno.EACCES), ("fsync", errno.ENOSPC), ("chmod", errno.EPERM)]
)
def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(
    call: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "result.json"
    target.write_text("old")
    monkeypatch.setattr(os, call, failing(number))

    with pytest.raises(ProfkitError, match=os.strerror(number)):
        write_atomically(target, "new")

    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_an_interruption_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "result.json", "new")

    assert os.listdir(tmp_path) == []


def test_a_new_file_has_the_usual_permissions_and_a_replaced_one_keeps_its_own(tmp_path: Path) -> None:
    ordinary, private = tmp_path / "ordinary", tmp_path / "private"
    private.write_text("old")
    private.chmod(0o600)
    mask = os.umask(0o022)
    try:
        write_atomically(ordinary, "new")
        write_atomically(private, "new")
    finally:
        os.umask(mask)

    assert ordinary.stat().st_mode & 0o777 == 0o644
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    write_atomically(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    check_target(pipe)
    write_atomically(pipe, "new")
    seen = os.read(reader, 100)
    os.close(reader)

    assert seen == b"new"
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_behind_a_link_is_written_into_and_stays_a_device(tmp_path: Path) -> None:
    master, slave = os.openpty()
    (tmp_path / "link").symlink_to(os.ttyname(slave))

    check_target(tmp_path / "link")
    write_atomically(tmp_path / "link", "new")
    seen = os.read(master, 100)

    assert seen == b"new"
    assert (tmp_path / "link").is_char_device()
    os.close(slave)
    os.close(master)


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_device_that_takes_nothing_is_an_error() -> None:
    with pytest.raises(ProfkitError, match=os.strerror(errno.ENOSPC)):
        write_atomically("/dev/full", "new")


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="there is no /dev/stdout")
@pytest.mark.parametrize("descriptor", ["1", "2"])
def test_what_others_print_before_and_after_stays_around_the_file(tmp_path: Path, descriptor: str) -> None:
    name = {"1": "stdout", "2": "stderr"}[descriptor]
    program = (
        "import sys\n"
        "from profkit.capture.output_files import check_target, write_atomically\n"
        f"sys.{name}.write('table\\n')\n"
        f"check_target('/dev/{name}')\n"
        f"write_atomically('/dev/{name}', 'file\\n')\n"
        f"sys.{name}.write('notes\\n')\n"
    )
    shell = f'(echo before >&{descriptor}; "$0" -c "$1"; echo after >&{descriptor}) {descriptor}> out.txt'

    subprocess.run(["sh", "-c", shell, sys.executable, program], check=True, cwd=tmp_path)

    assert (tmp_path / "out.txt").read_text().split() == ["before", "table", "file", "notes", "after"]


@pytest.mark.parametrize(
    ("target", "said"),
    [("-", "standard output is /dev/stdout"), ("{}/nowhere/result.json", "mkdir -p"), ("{}", "it is a folder")],
)
def test_a_target_that_cannot_be_is_a_usage_error(target: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        check_target(target.format(tmp_path))

    check_target(tmp_path / "result.json")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.mkstemp", failing(errno.EROFS))

    with pytest.raises(UsageError, match=os.strerror(errno.EROFS)):
        check_target(tmp_path / "result.json")


def test_a_pipe_without_a_reader_is_waited_for_aloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, read, told = tmp_path / "pipe", list[str](), list[str]()
    os.mkfifo(pipe)

    class Terminal(io.StringIO):
        def flush(self) -> None:
            told.append(self.getvalue())
            reader.start()

    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", Terminal())
        write_atomically(pipe, "a table")
    reader.join()

    assert (told, read) == ([f"waiting for a reader of '{pipe}'\n"], ["a table"])
