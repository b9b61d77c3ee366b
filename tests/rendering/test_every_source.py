"""Every question on every source: traces of other profilers, and a capture made of every table, are reported, queried,
compared, folded and exported as traced programs are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit import compare, export, query, report
from profkit.attribution.account import DEVICES, THREADS
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import usage_of
from profkit.attribution.profiles import profile_of
from profkit.capture.schema import (
    Activities,
    ActivityKind,
    Allocations,
    Calls,
    Capture,
    CopyDirection,
    Device,
    Level,
    MemoryEvents,
    MemoryKind,
    Process,
    Ranges,
    Threads,
)
from profkit.rendering.sql.captures import open_database
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.files import write_chrome, write_perfetto
from profkit.rendering.traces.folded import write_folded_bytes, write_folded_time
from tests.capture.importers.foreign_traces import (
    KinetoTrace,
    NsightExport,
    by_real_file,
    gpu_work,
    opened_trace,
    real_trace,
)
from tests.rendering.traces.perfetto_packets import message, packets

duckdb = pytest.importorskip("duckdb")


def kineto(folder: Path) -> Capture:
    """Two threads; operators that overlap without nesting, a kernel, a copy, and one without a launch."""
    made = KinetoTrace().annotation("ProfilerStep#1", 0, 1_000).operator("aten::mm", 100, 300, sequence=4)
    made.operator("overlaps", 250, 400).operator("MmBackward0", 500, 700, sequence=4, tid=9)
    made.call(150, 200, 1).kernel(400, 900, 1, "gemm").call(510, 520, 2, "cudaMemcpyAsync", tid=9)
    made.copy(950, 990, 2, 4_096).kernel(60, 70, 99, "lost").memory(160, 0xA0, 512)
    return opened_trace(made.write(folder / "trace.json.gz"))


def nsight(folder: Path) -> Capture:
    """Two processes with a range, a launch and a kernel each."""
    made = NsightExport().range("step", 100, 300).call(150, 200, 1).kernel(400, 900, 1, "gemm")
    made.range("step", 100, 300, pid=6, tid=6).call(150, 200, 1, pid=6, tid=6).kernel(400, 950, 1, "gemm", pid=6)
    return opened_trace(made.write(folder / "report.sqlite"))


def mixed(_: Path) -> Capture:
    """Of every table something, and no word of who recorded it."""
    strings = ("step", "conv1", "conv", "Optimizer.step", "main", "cudaLaunchKernel", "gemm", "Memcpy HtoD", "forward")
    ranges: dict[str, Any] = {
        "level": [Level.STEP, Level.LAYER, Level.OPERATOR, Level.OPERATOR, Level.OPERATOR],
        "thread": [0, 0, 0, 0, 1],
        "start_ns": [0, 10, 20, 600, 100],
        "end_ns": [1_000, 500, 400, 900, 300],
        "name": [0, 1, 2, 3, 2],
        "layer": [-1, 1, 1, -1, -1],
        "phase": [-1, 8, 8, -1, 8],
        "parent": [-1, 0, 1, 0, -1],
        "depth": [0, 1, 2, 1, 0],
    }
    calls: dict[str, Any] = {"thread": [0, 0], "process": [0, 0], "start_ns": [30, 650], "end_ns": [40, 660]}
    calls |= {"name": [5, 5], "correlation": [1, 2], "range": [2, 3], "return_code": [0, 0], "is_driver": [0, 0]}
    work: dict[str, Any] = {"kind": [ActivityKind.KERNEL, ActivityKind.COPY], "process": [0, 0], "device": [0, 0]}
    work |= {"stream": [7, 7], "start_ns": [100, 700], "end_ns": [350, 800], "name": [6, 7], "correlation": [1, 2]}
    work |= {"call": [0, 1], "range": [2, 3], "bytes": [-1, 64], "direction": [-1, CopyDirection.HOST_TO_DEVICE]}
    work |= {"source_kind": [-1, MemoryKind.PINNED], "target_kind": [-1, MemoryKind.DEVICE]}
    taken: dict[str, Any] = {"thread": [0, 1], "range": [2, -1], "time_ns": [50, 310], "call": [1, 1]}
    taken |= {"address": [4096, 8192], "bytes": [100, 20], "free_time_ns": [450, -1], "free_thread": [0, -1]}
    events: dict[str, Any] = {"process": [0, 0], "device": [0, 0], "time_ns": [35, 990], "address": [1, 1]}
    events |= {"bytes": [512, -512], "kind": [MemoryKind.DEVICE] * 2, "range": [2, 0]}
    return Capture(
        path="mixed",
        strings=strings,
        processes=(Process(7, start_ns=0, end_ns=1_000),),
        threads=Threads(
            process=np.zeros(2, np.int32),
            index=np.arange(2, dtype=np.uint32),
            os_thread_id=np.array([7, 8], np.uint64),
            name=np.array([4, -1]),
            start_ns=np.array([0, 100]),
            end_ns=np.array([1_000, 310]),
        ),
        ranges=Ranges(**ranges, end_thread=np.array(ranges["thread"])),
        calls=Calls(**calls),
        activities=Activities(**work),
        allocations=Allocations(**taken),
        memory_events=MemoryEvents(**events),
        devices=(Device(0, "GPU of a test"),),
    )


by_source = pytest.mark.parametrize("make", [kineto, nsight, mixed])
Make = Callable[[Path], Capture]


def check_conservation(capture: Capture) -> None:
    """Rows and the remainder make up the clock of the threads and that of the devices, by every grouping."""
    for by in groupings_on(THREADS):
        usage = usage_of(capture, by, clock=THREADS)
        assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
        assert usage.remainder_ns >= 0 and all(row.exclusive_ns >= 0 for row in usage.rows)
    for by in groupings_on(DEVICES):
        usage = usage_of(capture, by, clock=DEVICES)
        assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
        if usage.devices:
            assert usage.wall_ns == usage.devices * capture.duration_ns


def check_sql(capture: Capture) -> None:
    """Every row is there once, and the sums are those of the columns."""
    database = open_database(capture)
    for name in ("ranges", "calls", "activities", "allocations", "memory_events", "threads"):
        assert database.execute(f"select count(*) from {name}").fetchone() == (len(getattr(capture, name)),)
    for name in ("ranges", "calls", "activities"):
        table = getattr(capture, name)
        total = int((table.end_ns - table.start_ns).sum())
        assert database.execute(f"select coalesce(sum(duration_ns), 0) from {name}").fetchone() == (total,)
    copies = database.execute("select count(*), coalesce(sum(bytes), 0) from copies").fetchone()
    is_copy = capture.activities.kind != ActivityKind.KERNEL
    assert copies == (int(is_copy.sum()), int(np.maximum(capture.activities.bytes[is_copy], 0).sum()))
    named = database.execute("select count(*) from activities where range_name is not null").fetchone()
    assert named == (int(np.count_nonzero(capture.activities.range >= 0)),)


def check_folded(capture: Capture, folder: Path) -> None:
    """The stacks add up to the own time of the ranges, and to the bytes that were asked for."""
    write_folded_time(capture, folder / "time")
    write_folded_bytes(capture, folder / "bytes")

    assert folded_total(folder / "time") == sum(
        row.exclusive_ns for row in usage_of(capture, "path", clock=THREADS).rows
    )
    sizes = capture.allocations.bytes if len(capture.allocations) else np.maximum(capture.memory_events.bytes, 0)
    assert folded_total(folder / "bytes") == int(sizes.sum())


def folded_total(path: Path) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in path.read_text().splitlines())


def check_slices(capture: Capture, folder: Path) -> None:
    """A trace file has every range, call and activity once."""
    content = trace_content(capture)
    write_chrome(content, folder / "trace.json")
    write_perfetto(content, folder / "trace.pftrace")

    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    rows = len(capture.ranges) + len(capture.calls) + len(capture.activities)
    assert sum(event["ph"] == "X" for event in events) == rows
    sent = list(packets((folder / "trace.pftrace").read_bytes()))
    begins = [event for packet in sent for event in packet.get(11, ()) if message(event).get(9) == [1]]
    assert len(begins) + sum(53 in packet for packet in sent) == rows


@by_source
def test_no_nanosecond_is_lost_by_any_grouping(make: Make, tmp_path: Path) -> None:
    check_conservation(make(tmp_path))


@by_source
def test_sql_has_every_row_of_every_table(make: Make, tmp_path: Path) -> None:
    check_sql(make(tmp_path))


@by_source
def test_folded_stacks_add_up_to_the_tables(make: Make, tmp_path: Path) -> None:
    check_folded(make(tmp_path), tmp_path)


@by_source
def test_both_trace_formats_have_every_range_call_and_activity_once(make: Make, tmp_path: Path) -> None:
    check_slices(make(tmp_path), tmp_path)


@by_source
def test_rows_of_ranges_are_in_the_one_order_of_all_sources(make: Make, tmp_path: Path) -> None:
    ranges = make(tmp_path).ranges
    keys = list(zip(ranges.thread.tolist(), ranges.start_ns.tolist(), (-ranges.end_ns).tolist()))

    assert keys == sorted(keys)
    assert all(parent < row for row, parent in enumerate(ranges.parent.tolist()))
    known = ranges.parent >= 0
    assert (ranges.depth[known] == ranges.depth[ranges.parent[known]] + 1).all()


@by_real_file
def test_a_real_trace_answers_every_question(name: str, tmp_path: Path) -> None:
    capture = opened_trace(real_trace(name))

    check_conservation(capture)
    check_sql(capture)
    check_folded(capture, tmp_path)
    check_slices(capture, tmp_path)


@by_real_file
def test_the_gpu_of_a_real_trace_in_sql_is_that_of_its_file(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = real_trace(name)
    asked = "select kind, count(*) as n, sum(duration_ns)::bigint as ns from activities group by 1 order by 1"

    code = query.main([str(path), asked, "--json", str(tmp_path / "answer.json")])

    found = {row["kind"]: (row["n"], row["ns"]) for row in json.loads((tmp_path / "answer.json").read_text())}
    told: dict[str, tuple[int, int]] = {}
    for kind, _, start, end, _ in gpu_work(path):
        count, total = told.get(kind, (0, 0))
        told[kind] = count + 1, total + end - start
    assert code == 0 and found == told
    assert "dropped" not in capsys.readouterr().err


@by_real_file
def test_a_real_trace_becomes_parquet_and_folded_stacks(name: str, tmp_path: Path) -> None:
    path = real_trace(name)
    capture = opened_trace(path)

    code = export.main([str(path), "--parquet", str(tmp_path / "tables"), "--folded", str(tmp_path / "t.folded")])

    assert code == 0
    for table in ("ranges", "calls", "activities"):
        read_back = duckdb.connect().read_parquet(str(tmp_path / "tables" / f"{table}.parquet"))
        assert read_back.count("*").fetchall() == [(len(getattr(capture, table)),)]
    assert folded_total(tmp_path / "t.folded") > 0


@by_real_file
@pytest.mark.parametrize("by", ["name", "kernel"])
def test_a_real_trace_compared_with_itself_has_no_change(name: str, by: str, tmp_path: Path) -> None:
    path = str(real_trace(name))
    if by == "kernel" and not len(opened_trace(Path(path)).activities):
        pytest.skip("a trace without a GPU has no kernels")

    code = compare.main([path, path, "--by", by, "--json", str(tmp_path / "c.json")])

    rows = json.loads((tmp_path / "c.json").read_text())["rows"]
    assert code == 0 and rows
    assert {row["verdict"] for row in rows} <= {"same", "not resolved"}
    assert all(row["a_ns"] == row["b_ns"] for row in rows)


@by_source
def test_profiles_have_every_call_and_every_launch(make: Make, tmp_path: Path) -> None:
    capture = make(tmp_path)

    assert sum(row.calls for row in profile_of(capture, "name").rows.values()) == len(capture.ranges)
    for by in ("kernel", "stream", "device"):
        profile = profile_of(capture, by)
        assert sum(row.calls for row in profile.rows.values()) == len(capture.activities)
        assert sum(row.share or 0 for row in profile.rows.values()) == pytest.approx(1)


def test_kernels_are_compared_launch_by_launch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for number, length in enumerate((100, 200)):
        made = KinetoTrace().operator("aten::mm", 0, 90_000)
        for launch in range(30):
            made.call(launch * 1_000, launch * 1_000 + 5, launch + 1)
            made.kernel(launch * 1_000 + 50, launch * 1_000 + 50 + length + launch % 3, launch + 1, "gemm")
        paths.append(str(made.write(tmp_path / f"{number}.json")))

    code = compare.main([*paths, "--by", "kernel", "--fail-on", "5%"])

    printed = " ".join(capsys.readouterr().out.split())
    assert code == compare.FAILED
    assert "times of a kernel or copy on the GPU" in printed and "gemm by" in printed


def test_a_capture_without_a_gpu_is_not_compared_by_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(KinetoTrace().operator("aten::mm", 0, 90).write(tmp_path / "t.json"))

    code = compare.main([path, path, "--by", "kernel"])

    assert code == 2
    assert "t.json has nothing of a GPU" in " ".join(capsys.readouterr().err.split())


def test_the_folded_bytes_of_a_gpu_trace_are_those_of_the_gpu(tmp_path: Path) -> None:
    made = KinetoTrace().operator("aten::mm", 0, 100).operator("aten::empty", 10, 40)
    made.memory(20, 0xA0, 512).memory(50, 0xB0, 64).memory(60, 0xA0, -512).memory(200, 0xC0, 8)
    path = made.write(tmp_path / "t.json")

    code = export.main([str(path), "--folded-bytes", str(tmp_path / "t.folded")])

    lines = (tmp_path / "t.folded").read_text().splitlines()
    stacks = {line.partition(";")[2].rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    assert code == 0 and stacks == {"aten::mm;aten::empty": 512, "aten::mm": 64, "": 8}


def test_the_host_of_a_gpu_trace_is_reported_as_that_of_a_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = kineto(tmp_path)

    code = report.main([capture.path, "--by", "path", "--json", str(tmp_path / "u.json")])

    rows = json.loads((tmp_path / "u.json").read_text())["rows"]
    assert code == 0 and "ProfilerStep#1" in capsys.readouterr().out
    own = {" > ".join(row["path"]): row["exclusive_ns"] for row in rows}
    # Each moment is that of the range that began last.
    assert own == {
        "ProfilerStep#1": 700,
        "ProfilerStep#1 > aten::mm": 150,
        "ProfilerStep#1 > aten::mm > overlaps": 150,
        "MmBackward0": 200,
    }
