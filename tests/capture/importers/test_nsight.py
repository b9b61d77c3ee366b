"""Exports of Nsight Systems: real and made SQLite files in, tables with every link out; nothing in them is trusted."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from profkit.attribution.account import DEVICES, THREADS
from profkit.attribution.passes import usage_of
from profkit.capture.importers.nsight import read_nsight
from profkit.capture.opening import Content, content_of
from profkit.capture.schema import NONE, ActivityKind, CopyDirection, Level, MemoryKind
from profkit.errors import CaptureError
from tests.capture.importers.foreign_traces import (
    NSIGHT_FILES,
    NsightExport,
    global_pid,
    launched_in,
    names,
    nsight_rows,
    opened_trace,
    real_trace,
)

# --- Real exports, against SQL alone ---


@pytest.mark.parametrize("name", NSIGHT_FILES)
@pytest.mark.parametrize(
    ("kind", "table"), [(ActivityKind.KERNEL, "KERNEL"), (ActivityKind.COPY, "MEMCPY"), (ActivityKind.SET, "MEMSET")]
)
def test_counts_and_sums_of_a_real_export_are_those_of_its_tables(name: str, kind: ActivityKind, table: str) -> None:
    path = real_trace(name)
    size = "0" if table == "KERNEL" else "sum(bytes)"
    question = f'select count(*), sum("end" - start), min(start), max("end"), {size} from CUPTI_ACTIVITY_KIND_{table}'
    ((count, total_ns, first, last, moved),) = nsight_rows(path, question)

    trace = read_nsight(path)

    mine = trace.activities["kind"] == kind
    starts, ends = trace.activities["start_ns"][mine], trace.activities["end_ns"][mine]
    assert len(starts) == count
    assert int((ends - starts).sum()) == total_ns
    assert (int(starts.min()), int(ends.max())) == (first, last)
    if kind != ActivityKind.KERNEL:
        assert int(trace.activities["bytes"][mine].sum()) == moved


@pytest.mark.parametrize("name", NSIGHT_FILES)
def test_launches_of_a_real_export_are_those_of_an_sql_join(name: str) -> None:
    path = real_trace(name)
    expected = 0
    for table in ("KERNEL", "MEMCPY", "MEMSET"):
        question = (
            f"select count(*) from CUPTI_ACTIVITY_KIND_{table} k where exists (select 1 from "
            "CUPTI_ACTIVITY_KIND_RUNTIME r where r.correlationId = k.correlationId and "
            "(r.globalTid & ~0xffffff) = k.globalPid)"
        )
        expected += nsight_rows(path, question)[0][0]

    trace = read_nsight(path)

    assert int((trace.activities["call"] != NONE).sum()) == expected
    assert len(trace.calls["name"]) == nsight_rows(path, "select count(*) from CUPTI_ACTIVITY_KIND_RUNTIME")[0][0]


@pytest.mark.parametrize("name", NSIGHT_FILES)
def test_the_operator_of_a_real_kernel_is_the_shortest_nvtx_range_around_its_launch(name: str) -> None:
    path = real_trace(name)
    ranges: dict[int, list[tuple[int, int, str]]] = {}
    texts = (
        'select start, e."end", globalTid, coalesce(text, value) from NVTX_EVENTS e left join StringIds on id = textId'
    )
    for start, end, thread, text in nsight_rows(path, f'{texts} where eventType in (59, 60) and e."end" is not null'):
        ranges.setdefault(thread, []).append((start, end, text))
    launches = nsight_rows(
        path,
        "select k.start, k.deviceId, r.start, r.globalTid from CUPTI_ACTIVITY_KIND_KERNEL k join "
        "CUPTI_ACTIVITY_KIND_RUNTIME r on r.correlationId = k.correlationId "
        "and (r.globalTid & ~0xffffff) = k.globalPid",
    )

    trace = read_nsight(path)

    kernels = trace.activities
    rows = {(start, device): row for row, (start, device) in enumerate(zip(kernels["start_ns"], kernels["device"]))}
    checked = 0
    for start, device, launched, thread in launches[::5]:
        around = [each for each in ranges.get(thread, []) if each[0] <= launched < each[1]]
        found = launched_in(trace, rows[start, device])
        if around:
            shortest = min(around, key=lambda each: each[1] - each[0])[2]
            assert shortest == found or shortest.startswith(f"{found}, ")
            checked += 1
        else:
            assert found == ""
    assert checked > 200


# --- Made exports ---


@pytest.fixture
def export() -> NsightExport:
    """A layer that holds an operator of torch, which launches a kernel; a copy is launched in the layer itself."""
    made = NsightExport().add("TARGET_INFO_GPU", id=0, name="GPU of a test", smCount=3)
    made.range("block", 1_000, 90_000).range("aten::mm, seq = 4, op_id = 12, sizes = [[1, 3], [3, 5]]", 2_000, 20_000)
    made.call(4_000, 5_000, 11).kernel(30_001, 40_003, 11, "ampere_sgemm_128x64_nn")
    made.call(50_000, 51_000, 12, "cudaMemcpyAsync_v3020").copy(52_000, 60_000, 12, 4096, ends=(1, 2))
    return made


def test_a_kernel_finds_its_launch_and_the_innermost_range_at_launch(export: NsightExport, tmp_path: Path) -> None:
    path = export.write(tmp_path / "report.sqlite")

    read = opened_trace(path)

    assert content_of(path) is Content.NSIGHT
    assert read.recorder == "nsight"
    assert names(read, read.activities) == ["ampere_sgemm_128x64_nn", "Memcpy HtoD (Pinned -> Device)"]
    assert [launched_in(read, row) for row in (0, 1)] == ["aten::mm", "block"]
    assert names(read, read.calls) == ["cudaLaunchKernel", "cudaMemcpyAsync"]
    assert (read.activities["start_ns"][0], read.activities["end_ns"][0]) == (30_001, 40_003)
    assert read.activities["direction"][1] == CopyDirection.HOST_TO_DEVICE
    assert read.activities["source_kind"][1] == MemoryKind.PINNED
    assert read.ranges["level"].tolist() == [Level.LAYER, Level.OPERATOR]
    assert (read.ranges["sequence"][1], read.text(int(read.ranges["shapes"][1]))) == (4, "[[1, 3], [3, 5]]")
    assert [each.known() for each in read.devices] == [{"id": 0, "name": "GPU of a test", "multiprocessors": 3}]
    assert read.processes[0].pid == 5


def test_correlations_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    made = NsightExport()
    for pid in (5, 6):
        made.range(f"of {pid}", 0, 100, pid=pid, tid=pid).call(10, 20, 1, pid=pid, tid=pid)
        made.kernel(30 + pid, 40, 1, device=pid, pid=pid)

    read = read_nsight(made.write(tmp_path / "r.sqlite"))

    assert [launched_in(read, row) for row in (0, 1)] == ["of 5", "of 6"]


def test_two_processes_that_call_their_only_gpu_0_have_two_gpus(tmp_path: Path) -> None:
    export = NsightExport().add("TARGET_INFO_GPU", id=2, name="A").add("TARGET_INFO_GPU", id=3, name="B")
    for pid, gpu in ((5, 2), (6, 3)):
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=pid)
        export.call(10, 20, 1, pid=pid).kernel(30 + pid, 60, 1, pid=pid, device=0).copy(70 + pid, 90, 2, 64, pid=pid)
    export.kernel(95, 99, 3, pid=7, device=0).memory(50, 0xA0, 512)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert read.activities["device"].tolist() == [2, 3, 2, 3, 0]
    assert read.memory_events["device"].tolist() == [2]
    assert [device.id for device in read.devices] == [2, 3]


def test_a_range_without_an_end_lasts_to_the_last_event_and_is_told(export: NsightExport, tmp_path: Path) -> None:
    export.range("open", 45_000, None)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    row = names(read, read.ranges).index("open")
    assert int(read.ranges["end_ns"][row]) == 90_000
    assert launched_in(read, 1) == "open"
    assert read.warnings == ("1 NVTX ranges have no end: they last to the last event",)


def test_a_range_that_ends_on_another_thread_owns_nothing_and_is_told(export: NsightExport, tmp_path: Path) -> None:
    export.range("crossing", 45_000, 80_000, endGlobalTid=global_pid(5) | 6)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert "crossing" not in names(read, read.ranges)
    assert "1 NVTX ranges end on another thread" in read.warnings[0]


def test_ranges_have_their_domain_and_texts_come_from_the_table_of_strings(tmp_path: Path) -> None:
    made = NsightExport().add("NVTX_EVENTS", eventType=75, domainId=3, text="lib", start=0)
    made.add("NVTX_EVENTS", start=1, end=9, eventType=59, domainId=3, globalTid=7, textId=made.string("work"))

    read = read_nsight(made.write(tmp_path / "r.sqlite"))

    assert names(read, read.ranges) == ["work"]
    assert read.range_title(0) == "lib:work"
    assert [row.name for row in usage_of(read, "domain", clock=THREADS).rows] == ["lib"]
    assert [row.name for row in usage_of(read, "operator", clock=DEVICES).rows] == ["lib:work"]


def test_frees_get_the_size_of_their_allocation(tmp_path: Path) -> None:
    made = NsightExport().range("a", 0, 100)
    made.memory(10, 0xA0, 512).memory(20, 0xA0, None, is_free=True).memory(30, 0xB0, 64).memory(40, 0xB0, 0, True)
    made.memory(50, 0xC0, None, is_free=True).memory(60, 0xD0, 32, is_free=True)

    read = read_nsight(made.write(tmp_path / "r.sqlite"))

    assert read.memory_events["bytes"].tolist() == [512, -512, 64, -64, -32]
    assert read.warnings == ("1 events of GPU memory have no size, or 0 bytes: left out",)


@pytest.mark.parametrize(
    ("kind", "name"), [(2, "Memset (Device)"), (4, "Memset (Managed)"), (None, "Memset (Unknown)")]
)
def test_sets_are_named_after_the_memory_that_they_set(kind: int | None, name: str, tmp_path: Path) -> None:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 1, "globalPid": global_pid(5)}
    export = NsightExport().add("CUPTI_ACTIVITY_KIND_MEMSET", start=1, end=2, bytes=64, memKind=kind, **place)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert names(read, read.activities) == [name]


def test_launches_of_whole_graphs_are_told(export: NsightExport, tmp_path: Path) -> None:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 19, "globalPid": global_pid(5)}
    export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=61_000, end=62_000, graphId=3, **place)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert names(read, read.activities)[-1] == "CUDA graph 3"
    assert "--cuda-graph-trace=node" in read.warnings[0]


def test_a_graph_whose_nodes_were_recorded_too_does_not_count_twice(tmp_path: Path) -> None:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 1, "globalPid": global_pid(5)}
    export = NsightExport().range("g", 0, 100).call(10, 20, 1, "cudaGraphLaunch_v10000")
    export.kernel(30, 40, 1).kernel(45, 60, 1).add(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=30, end=60, graphId=3, **place
    )

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert names(read, read.activities) == ["k", "k"]
    assert read.activities["call"].tolist() == [0, 0]
    assert not read.warnings


# --- Damage ---


@pytest.mark.parametrize(
    "table",
    [
        "StringIds",
        "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        "TARGET_INFO_GPU",
        "META_DATA_EXPORT",
    ],
)
def test_a_missing_table_costs_only_what_it_would_tell(export: NsightExport, table: str, tmp_path: Path) -> None:
    del export.rows[table]

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    missing = {"NVTX_EVENTS": "ranges", "CUPTI_ACTIVITY_KIND_RUNTIME": "calls"}.get(table, "")
    for name, rows in (("ranges", 2), ("calls", 2)):
        assert len(getattr(read, name)["name"]) == (0 if name == missing else rows)
    gone = table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY")
    assert len(read.activities["name"]) == 2 - gone


COLUMNS = [
    *(("NVTX_EVENTS", column) for column in ("start", "end", "eventType", "text", "globalTid", "textId", "domainId")),
    *(
        ("CUPTI_ACTIVITY_KIND_RUNTIME", c)
        for c in ("start", "end", "globalTid", "correlationId", "nameId", "returnValue")
    ),
    *(("CUPTI_ACTIVITY_KIND_KERNEL", c) for c in ("start", "end", "deviceId", "correlationId", "globalPid")),
    *(("CUPTI_ACTIVITY_KIND_KERNEL", c) for c in ("demangledName", "streamId", "contextId")),
    *(("CUPTI_ACTIVITY_KIND_MEMCPY", c) for c in ("bytes", "copyKind", "srcKind", "dstKind")),
    ("StringIds", "value"),
    ("StringIds", "id"),
]


def changed(path: Path, statement: str, *values: Any) -> Path:
    """The database after one statement."""
    with sqlite3.connect(path) as database:
        database.execute(statement, values)
    database.close()
    return path


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_missing_column_is_no_error(export: NsightExport, table: str, column: str, tmp_path: Path) -> None:
    read = read_nsight(changed(export.write(tmp_path / "r.sqlite"), f'alter table {table} drop column "{column}"'))

    is_lost = table == "CUPTI_ACTIVITY_KIND_KERNEL" and column in ("start", "end")
    assert len(read.activities["name"]) == 2 - is_lost
    assert any("1 records of CUPTI_ACTIVITY_KIND_KERNEL are left out" in text for text in read.warnings) == is_lost


WRONG = ["text", 1.5, None, b"\xff\x00", -5, 1 << 62, -(1 << 63)]


@pytest.mark.parametrize("value", WRONG, ids=str)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_values_of_any_type_do_no_harm(
    export: NsightExport, table: str, column: str, value: Any, tmp_path: Path
) -> None:
    read = read_nsight(changed(export.write(tmp_path / "r.sqlite"), f'update {table} set "{column}" = ?', value))

    assert (read.activities["end_ns"] >= read.activities["start_ns"]).all()
    assert (read.activities["bytes"] >= NONE).all()
    assert len(read.activities["name"]) == 2 or read.warnings


def test_a_device_whose_number_does_not_fit_is_unknown_and_no_other_one(export: NsightExport, tmp_path: Path) -> None:
    export.rows["CUPTI_ACTIVITY_KIND_KERNEL"][0]["deviceId"] = 1 << 32

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert read.activities["device"].tolist() == [NONE, 0]


def test_unknown_tables_and_columns_are_ignored(export: NsightExport, tmp_path: Path) -> None:
    plain = read_nsight(export.write(tmp_path / "plain.sqlite"))
    export.add("FUTURE_TABLE", x=1).rows["CUPTI_ACTIVITY_KIND_KERNEL"][0]["future"] = "new"

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert names(read, read.activities) == names(plain, plain.activities)
    assert read.warnings == ()


def test_records_with_an_end_before_their_start_are_left_out_and_told(export: NsightExport, tmp_path: Path) -> None:
    export.kernel(500, 400, 13)

    read = read_nsight(export.write(tmp_path / "r.sqlite"))

    assert len(read.activities["name"]) == 2
    assert read.warnings == (
        "1 records of CUPTI_ACTIVITY_KIND_KERNEL are left out: without a time, or with an end before the start",
    )


def test_an_export_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="without NVTX ranges, CUDA calls or kernels"):
        read_nsight(NsightExport().write(tmp_path / "empty.sqlite"))


@pytest.mark.parametrize("kept", [100, 5000, 0.5])
def test_a_file_that_breaks_off_is_refused(export: NsightExport, kept: float, tmp_path: Path) -> None:
    for number in range(2000):
        export.kernel(100_000 + number, 100_001 + number, 1000 + number)
    path = export.write(tmp_path / "r.sqlite")
    data = path.read_bytes()
    path.write_bytes(data[: int(kept if kept >= 1 else kept * len(data))])

    with pytest.raises(CaptureError, match="cannot be read as an export of Nsight Systems"):
        read_nsight(path)


def test_an_export_is_not_changed_by_reading_it(export: NsightExport, tmp_path: Path) -> None:
    path = export.write(tmp_path / "r.sqlite")
    before = path.read_bytes()
    path.chmod(0o400)

    read_nsight(path)

    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["r.sqlite"]
