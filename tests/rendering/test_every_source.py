"""Every question on every source: traces of other profilers are reported, queried, compared, folded and exported as
traced programs are. tests/test_mixed_capture.py does that with a capture made of every table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profkit.attribution.account import THREADS
from profkit.attribution.passes import usage_of
from profkit.attribution.profiles import profile_of
from profkit.capture.schema import (
    ActivityKind,
    Capture,
)
from profkit.errors import CaptureError
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
from tests.support.typed import Typed

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
    assert folded_total(folder / "time") == sum(
        row.exclusive_ns for row in usage_of(capture, "path", clock=THREADS).rows
    )
    if not len(capture.allocations) and not (capture.memory_events.bytes > 0).any():
        with pytest.raises(CaptureError, match="has no record of memory: there is nothing to fold"):
            write_folded_bytes(capture, folder / "bytes")
        return
    write_folded_bytes(capture, folder / "bytes")
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


def check_order(capture: Capture) -> None:
    """Rows of ranges are in the one order of all sources."""
    ranges = capture.ranges
    keys = list(zip(ranges.thread.tolist(), ranges.start_ns.tolist(), (-ranges.end_ns).tolist()))
    assert keys == sorted(keys)
    assert all(parent < row for row, parent in enumerate(ranges.parent.tolist()))
    known = ranges.parent >= 0
    assert (ranges.depth[known] == ranges.depth[ranges.parent[known]] + 1).all()


def check_profiles(capture: Capture) -> None:
    """Profiles have every call and every launch."""
    assert sum(row.calls for row in profile_of(capture, "name").rows.values()) == len(capture.ranges)
    for by in ("kernel", "stream", "device"):
        profile = profile_of(capture, by)
        assert sum(row.calls for row in profile.rows.values()) == len(capture.activities)
        assert sum(row.share or 0 for row in profile.rows.values()) == pytest.approx(1)


@pytest.mark.parametrize("make", [kineto, nsight])
def test_a_trace_answers_every_question(make: Callable[[Path], Capture], tmp_path: Path) -> None:
    capture = make(tmp_path)

    check_order(capture)
    check_sql(capture)
    check_folded(capture, tmp_path)
    check_slices(capture, tmp_path)
    check_profiles(capture)


@by_real_file
def test_a_real_trace_answers_every_question(name: str, tmp_path: Path) -> None:
    capture = opened_trace(real_trace(name))

    check_order(capture)
    check_sql(capture)
    check_folded(capture, tmp_path)
    check_slices(capture, tmp_path)


@by_real_file
def test_the_gpu_of_a_real_trace_in_sql_is_that_of_its_file(name: str, typed: Typed) -> None:
    path = real_trace(name)
    asked = "select kind, count(*) as n, sum(duration_ns)::bigint as ns from activities group by 1 order by 1"

    found = {row["kind"]: (row["n"], row["ns"]) for row in typed.json("query", path, asked)}

    told: dict[str, tuple[int, int]] = {}
    for kind, _, start, end, _ in gpu_work(path):
        count, total = told.get(kind, (0, 0))
        told[kind] = count + 1, total + end - start
    assert found == told
    assert "dropped" not in typed("query", path, asked).err


@by_real_file
@pytest.mark.parametrize("by", ["name", "kernel"])
def test_a_real_trace_compared_with_itself_has_no_change(name: str, by: str, typed: Typed) -> None:
    path = real_trace(name)
    if by == "kernel" and not len(opened_trace(path).activities):
        pytest.skip("a trace without a GPU has no kernels")

    rows = typed.json("compare", path, path, "--by", by)["rows"]

    assert rows
    assert {row["verdict"] for row in rows} <= {"same", "not resolved"}
    assert all(row["a_ns"] == row["b_ns"] for row in rows)


def test_kernels_are_compared_launch_by_launch(tmp_path: Path, typed: Typed) -> None:
    paths = []
    for number, length in enumerate((100, 200)):
        made = KinetoTrace().operator("aten::mm", 0, 90_000)
        for launch in range(30):
            made.call(launch * 1_000, launch * 1_000 + 5, launch + 1)
            made.kernel(launch * 1_000 + 50, launch * 1_000 + 50 + length + launch % 3, launch + 1, "gemm")
        paths.append(made.write(tmp_path / f"{number}.json"))

    printed = typed.says("compare", *paths, "--by", "kernel", "--fail-on", "5%", code=4)

    assert "times of a kernel or copy on the GPU" in printed and "gemm by" in printed


def test_a_capture_without_a_gpu_is_not_compared_by_kernel(tmp_path: Path, typed: Typed) -> None:
    path = KinetoTrace().operator("aten::mm", 0, 90).write(tmp_path / "t.json")

    assert "t.json has nothing of a GPU" in typed.refuses("compare", path, path, "--by", "kernel")


def test_the_folded_bytes_of_a_gpu_trace_are_those_of_the_gpu(tmp_path: Path, typed: Typed) -> None:
    made = KinetoTrace().operator("aten::mm", 0, 100).operator("aten::empty", 10, 40)
    made.memory(20, 0xA0, 512).memory(50, 0xB0, 64).memory(60, 0xA0, -512).memory(200, 0xC0, 8)

    typed.shows("export", made.write(tmp_path / "t.json"), "--folded-bytes", tmp_path / "t.folded")

    lines = (tmp_path / "t.folded").read_text().splitlines()
    stacks = {line.partition(";")[2].rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}
    assert stacks == {"aten::mm;aten::empty": 512, "aten::mm": 64, "": 8}


def test_the_host_of_a_gpu_trace_is_reported_as_that_of_a_program(tmp_path: Path, typed: Typed) -> None:
    path = kineto(tmp_path).path

    assert "ProfilerStep#1" in typed.shows("report", path, "--by", "path")
    rows = typed.json("report", path, "--by", "path")["rows"]
    # Each moment is that of the range that began last.
    assert {" > ".join(row["path"]): row["exclusive_ns"] for row in rows} == {
        "ProfilerStep#1": 700,
        "ProfilerStep#1 > aten::mm": 150,
        "ProfilerStep#1 > aten::mm > overlaps": 150,
        "MmBackward0": 200,
    }
