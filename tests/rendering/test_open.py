"""`profkit.open`: every kind of file in, something that prints and shows itself in a notebook out."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import profkit
from profkit.attribution.account import DEVICES, THREADS
from profkit.attribution.grouping import groupings_on
from profkit.capture.output_files import write_atomically
from profkit.capture.run import save_run
from profkit.errors import CaptureError, UsageError
from profkit.measurement.result import read_result
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.tables.table import Table
from profkit.rendering.terminal import visible
from profkit.rendering.usage.tfprof import micros_text
from tests.capture import device_entries as entries
from tests.capture.builders import FIRST_MONOTONIC_NS as ORIGIN
from tests.capture.builders import CaptureBuilder
from tests.capture.importers.foreign_traces import KinetoTrace, NsightExport, by_real_file, real_trace
from tests.capture.network_captures import network_capture, op, recording_of
from tests.rendering.builders import realistic_cell, result
from tests.support.typed import Typed

ODD = "<b>step & \u00e9</b>"
"""A name that HTML must not take for its own."""


def program(path: Path) -> None:
    builder = CaptureBuilder().process(4711).thread("main")
    builder.begin(1000, ODD).begin(2000, "layer").end(5000).end(10_000).write(path)


def gpu_program(path: Path, dropped: int = 0) -> None:
    builder = CaptureBuilder(counters=[dropped]).process(1).thread("main").begin(10, ODD).end(300)
    builder.device(entries.clock(ORIGIN, ORIGIN), entries.correlation(builder.token(10), 1))
    builder.device(entries.call(builder.string("cudaLaunchKernel"), ORIGIN + 20, ORIGIN + 30, 1))
    builder.device(entries.kernel(builder.string("gemm"), ORIGIN + 50, ORIGIN + 90, 1))
    builder.write(path)


def network(path: Path) -> None:
    made = recording_of(op(ODD, 10, 80, layer="conv1", phase="forward"), steps=[(0, 100)])
    save_run(network_capture(made, step_ns=[95, 96]), path)


def kineto(path: Path) -> None:
    trace = KinetoTrace().operator(ODD, 100, 300).call(150, 200, 1).kernel(400, 900, 1, "gemm")
    trace.write(path.with_suffix(".json.gz")).rename(path)


def nsight(path: Path) -> None:
    NsightExport().range(ODD, 100, 300).call(150, 200, 1).kernel(400, 900, 1, "gemm").write(path)


FILES: dict[str, Callable[[Path], None]] = {
    "program": program,
    "gpu_program": gpu_program,
    "network": network,
    "kineto": kineto,
    "nsight": nsight,
    "result": lambda path: write_atomically(path, render_json(result(realistic_cell()).to_dict())),
}
CAPTURES = [name for name in FILES if name != "result"]


class Cells(HTMLParser):
    """Texts of the body's cells, row by row; every tag that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "br":
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "td":
            self.rows[-1].append(data)


@pytest.fixture(params=FILES)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    FILES[request.param](tmp_path / "file")
    return str(request.param)


def opened_capture(path: Path) -> profkit.CaptureProfile:
    opened = profkit.open(path)
    assert isinstance(opened, profkit.CaptureProfile)
    return opened


def test_what_is_opened_prints_what_report_prints(kind: str, tmp_path: Path, typed: Typed) -> None:
    opened = profkit.open(tmp_path / "file")

    assert f"{opened}\n" == typed.shows("report", tmp_path / "file")
    assert repr(opened) == str(opened)
    assert "object at" not in repr(opened)


def test_what_is_opened_shows_the_same_rows_in_a_notebook(kind: str, tmp_path: Path) -> None:
    opened = profkit.open(str(tmp_path / "file"))

    rows = Cells(opened._repr_html_()).rows
    names = [row[0] for row in rows if row]
    if kind == "result":
        assert "native/implicit_gemm" in names
        return
    assert isinstance(opened, profkit.CaptureProfile)
    assert (ODD in names) == (kind != "network")  # whose rows are kinds of operators
    assert names[-1] == "total"
    printed = " ".join(str(opened).split())
    assert all(" ".join(text.split()) in printed for row in rows for text in row if text)


@pytest.mark.parametrize("name", CAPTURES)
def test_every_grouping_is_a_table_of_text_and_numbers(name: str, tmp_path: Path) -> None:
    FILES[name](tmp_path / "file")
    opened = opened_capture(tmp_path / "file")

    for by in opened.groupings:
        usage = opened.usage(by)
        assert usage.by == by
        assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
        assert by in opened.text(by) or not usage.rows
    with pytest.raises(UsageError, match=f"has no grouping 'moon'; .*groupings: {opened.groupings[0]}"):
        opened.text("moon")


def test_each_kind_of_file_gives_its_own_type(tmp_path: Path) -> None:
    for name, write in FILES.items():
        write(tmp_path / name)
    opened = {name: profkit.open(tmp_path / name) for name in FILES}

    assert {name: type(each).__name__ for name, each in opened.items()} == {
        "program": "CaptureProfile",
        "gpu_program": "CaptureProfile",
        "network": "NetworkProfile",
        "kineto": "CaptureProfile",
        "nsight": "CaptureProfile",
        "result": "PrintableResult",
    }
    measured, run = opened["result"], opened["network"]
    assert isinstance(measured, profkit.PrintableResult) and isinstance(run, profkit.NetworkProfile)
    assert measured.to_dict() == read_result(tmp_path / "result").to_dict()
    run.save(tmp_path / "again")
    assert str(profkit.open(tmp_path / "again")) == str(run)


def test_a_traced_program_that_used_no_gpu_has_no_groupings_of_one(tmp_path: Path) -> None:
    program(tmp_path / "file")

    opened = opened_capture(tmp_path / "file")
    assert opened.groupings == ("name", "path", "thread", "category", "domain")


def test_a_traced_program_that_used_a_gpu_has_two_tables_and_says_its_losses_once(tmp_path: Path) -> None:
    gpu_program(tmp_path / "file", dropped=3)

    opened = opened_capture(tmp_path / "file")
    assert opened.groupings == (*groupings_on(THREADS), *groupings_on(DEVICES))
    assert [block.columns[0].heading for block in opened.tables().blocks if isinstance(block, Table)] == [
        "name",
        "operator",
    ]
    assert str(opened).count("3 records were dropped") == 1
    assert str(opened.tables("operator")) == opened.text("operator") != opened.text("name")


def test_a_run_that_recorded_nothing_says_why_in_a_notebook_too(tmp_path: Path) -> None:
    failed = network_capture(status="crashed", reason="signal <11>")
    save_run(failed, tmp_path / "file")

    opened = profkit.open(tmp_path / "file")

    assert str(opened) == "torch: crashed, signal <11>"
    assert opened._repr_html_() == "<pre>torch: crashed, signal &lt;11&gt;</pre>"


@by_real_file
def test_real_traces_open_print_and_show_themselves(name: str) -> None:
    opened = opened_capture(real_trace(name))
    assert str(opened).startswith(f"{name}: ")
    assert Cells(opened._repr_html_()).rows[-1][0] == "total"
    assert opened.groupings == (*groupings_on(DEVICES), *groupings_on(THREADS))


def test_what_cannot_be_opened_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        profkit.open(tmp_path / "absent")


def test_a_recording_says_what_it_does_and_how_to_see_it(tmp_path: Path) -> None:
    capture = profkit.record(tmp_path / "run.profkit")
    before = repr(capture)
    with capture, profkit.scope("work"):
        during = str(capture)

    after = capture._repr_html_()
    assert before == f"a recording into {tmp_path / 'run.profkit'}, not begun: start() or `with` begins it"
    assert during.startswith(f"recording into {tmp_path / 'run.profkit'}, 0 records lost so far\n  python: open, ")
    assert after.startswith(f"<pre>recorded into {tmp_path / 'run.profkit'}, 0 records lost; profkit.open(")
    assert after.endswith("</pre>")
    assert "work" in str(profkit.open(capture.path))


# --- tfprof ---


@pytest.mark.parametrize("name", CAPTURES)
def test_tfprof_is_written_of_every_capture(name: str, tmp_path: Path, typed: Typed) -> None:
    FILES[name](tmp_path / "file")

    for by in (None, *opened_capture(tmp_path / "file").groupings):
        words = ["report", tmp_path / "file", "--format", "tfprof", *([f"--by={by}"] if by else [])]
        lines = typed.shows(*words).splitlines()
        without_rows = lines.pop(0) if lines[0].startswith("no ") else ""
        assert lines[0].startswith("node name | requested bytes | total execution time | accelerator execution time")
        assert (len(lines) == 1) == bool(without_rows)
        if by is None:
            assert any(line.startswith(ODD) and "%" in line for line in lines[1:])


@by_real_file
def test_tfprof_of_real_traces_has_the_operators_and_their_time_on_the_gpu(name: str, typed: Typed) -> None:
    shown = typed.shows("report", real_trace(name), "--format", "tfprof", "--top", "all").splitlines()

    lines = [line for line in shown if not line.startswith("warning")]
    rows = opened_capture(real_trace(name)).usage().rows
    assert len(lines) == 1 + len(rows)
    for row in rows:
        (line,) = [line for line in lines if line.startswith(f"{visible(row.name):<25}  ")]
        assert line.split("), ")[-2].strip().startswith(f"{micros_text(row.device_ns)} (")
    assert any(row.name.startswith("aten::") for row in rows)
