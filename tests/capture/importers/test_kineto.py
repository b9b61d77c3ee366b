"""Traces of torch.profiler: real and made files in, tables with every link and exact times out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.importers.kineto import read_kineto
from profkit.capture.opening import Content, content_of
from profkit.capture.schema import NONE, ActivityKind, CopyDirection, Level, MemoryKind
from profkit.errors import CaptureError
from tests.capture.importers.foreign_traces import (
    ON_GPU,
    KinetoTrace,
    by_kineto_file,
    event_times,
    gpu_work,
    kineto_events,
    launched_in,
    names,
    opened_trace,
    real_trace,
)

# --- Real traces, against sums of json and decimal alone ---


@by_kineto_file
def test_counts_and_sums_of_a_real_trace_are_those_of_its_file(name: str) -> None:
    path = real_trace(name)

    trace = read_kineto(path)

    kinds = {"kernel": ActivityKind.KERNEL, "copy": ActivityKind.COPY, "set": ActivityKind.SET}
    work = gpu_work(path)
    for kind, number in kinds.items():
        mine = trace.activities["kind"] == number
        durations = (trace.activities["end_ns"] - trace.activities["start_ns"])[mine]
        expected = [(end - start, size) for what, _, start, end, size in work if what == kind]
        assert len(durations) == len(expected)
        assert int(durations.sum()) == sum(length for length, _ in expected)
        if kind != "kernel":
            assert int(trace.activities["bytes"][mine].sum()) == sum(size for _, size in expected)
    for table, categories in ((trace.calls, ("cuda_runtime",)), (trace.ranges, ("cpu_op", "user_annotation"))):
        expected_times = sorted(event_times(path, event) for event in kineto_events(path, *categories))
        assert sorted(zip(table["start_ns"].tolist(), table["end_ns"].tolist())) == expected_times
    assert trace.warnings == ()


@by_kineto_file
def test_the_whole_span_of_a_real_trace_is_from_its_first_to_its_last_event(name: str) -> None:
    path = real_trace(name)

    trace = read_kineto(path)

    times = [event_times(path, event) for event in kineto_events(path, *ON_GPU, "cuda_runtime", "cpu_op")]
    times += [event_times(path, event) for event in kineto_events(path, "user_annotation")]
    assert trace.start_ns == min(start for start, _ in times)
    assert trace.end_ns == max(end for _, end in times)


def test_each_kernel_of_a_real_trace_has_the_range_that_was_innermost_at_its_launch() -> None:
    path = real_trace("kineto-ns-resolution-gpu.json.gz")
    launches = {event["args"]["correlation"]: event for event in kineto_events(path, "cuda_runtime")}
    ranges = kineto_events(path, "cpu_op", "user_annotation")
    begins, ends = np.array([event_times(path, event) for event in ranges]).T
    threads = np.array([event["tid"] for event in ranges])

    trace = read_kineto(path)

    checked = 0
    for row in range(0, len(trace.activities["name"]), 7):
        launch = launches[int(trace.activities["correlation"][row])]
        start, end = event_times(path, launch)
        call = int(trace.activities["call"][row])
        assert (trace.calls["start_ns"][call], trace.calls["end_ns"][call]) == (start, end)
        open_ones = np.flatnonzero((begins <= start) & (start < ends) & (threads == launch["tid"]))
        innermost = min(open_ones, key=lambda each: ends[each] - begins[each])
        assert launched_in(trace, row) == ranges[innermost]["name"]
        checked += 1
    assert checked > 800


def test_the_gpus_of_a_real_trace_are_named() -> None:
    trace = read_kineto(real_trace("kineto-ns-resolution-gpu.json.gz"))

    assert trace.devices[0].name == "Tesla V100-SXM2-32GB"
    assert trace.facts["backend"] == "nccl"
    assert not {"username", "host_name", "tw_user"} & set(trace.facts)


# --- Made traces ---


@pytest.fixture
def trace() -> KinetoTrace:
    """A layer with an operator in an operator, which launches a kernel; a copy is launched in the layer itself."""
    made = KinetoTrace(deviceProperties=[{"id": 0, "name": "GPU of a test", "numSms": 3}])
    made.annotation("ProfilerStep#1", 0, 100_000).annotation("block", 1_000, 90_000)
    made.operator("aten::conv2d", 2_000, 20_000, sequence=4).operator("aten::cudnn_convolution", 3_000, 19_000)
    made.call(4_000, 5_000, 11).kernel(30_001, 40_003, 11, "ampere_sgemm_128x64_nn")
    made.call(50_000, 51_000, 12, "cudaMemcpyAsync").copy(52_000, 60_000, 12, 4096)
    return made


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.of.any.name"])
def test_a_kernel_finds_its_launch_and_the_innermost_range_at_launch(
    trace: KinetoTrace, name: str, tmp_path: Path
) -> None:
    path = trace.write(tmp_path / name)

    read = opened_trace(path)

    assert content_of(path) is Content.KINETO
    assert names(read, read.activities) == ["ampere_sgemm_128x64_nn", "Memcpy HtoD (Pageable -> Device)"]
    assert [launched_in(read, row) for row in (0, 1)] == ["aten::cudnn_convolution", "block"]
    assert (read.activities["start_ns"][0], read.activities["end_ns"][0]) == (30_001, 40_003)
    assert (read.activities["grid_x"][0], read.activities["block_x"][0]) == (4, 128)
    assert read.activities["bytes"].tolist() == [NONE, 4096]
    assert read.activities["direction"][1] == CopyDirection.HOST_TO_DEVICE
    assert read.activities["source_kind"][1] == MemoryKind.PAGEABLE
    assert read.recorder == "kineto"
    levels = dict(zip(names(read, read.ranges), read.ranges["level"].tolist()))
    assert levels["ProfilerStep#1"] == Level.STEP
    assert levels["block"] == Level.LAYER
    assert levels["aten::conv2d"] == Level.OPERATOR
    assert read.devices[0].known() == {"id": 0, "name": "GPU of a test", "multiprocessors": 3}


def test_times_of_day_keep_every_nanosecond(tmp_path: Path) -> None:
    """1.7e15 microseconds with three decimals need 61 bits: a double would lose the last ones."""
    start = 1_719_853_884_123_456_789
    path = KinetoTrace().operator("a", start, start + 1).write(tmp_path / "t.json")

    read = read_kineto(path)

    assert (read.start_ns, read.end_ns) == (start, start + 1)


def test_a_base_time_is_added_to_every_table(tmp_path: Path) -> None:
    made = KinetoTrace(baseTimeNanoseconds=10**18).operator("a", 1, 9).call(2, 3, 1).kernel(4, 5, 1).memory(3, 1, 64)

    read = read_kineto(made.write(tmp_path / "t.json"))

    assert read.ranges["start_ns"].tolist() == [10**18 + 1]
    assert read.calls["start_ns"].tolist() == [10**18 + 2]
    assert read.activities["start_ns"].tolist() == [10**18 + 4]
    assert read.memory_events["time_ns"].tolist() == [10**18 + 3]


@pytest.mark.parametrize(
    ("decimals", "begin", "end", "call", "operator"),
    [
        (False, 5_000, 8_000, 8_000, "a"),
        (True, 5_000, 8_000, 8_000, ""),
        # Written as 1 and 2 microseconds: it seems to end at 3, while the call begins at 4 or 5.
        (False, 1_900, 4_800, 4_700, "a"),
        (False, 1_900, 4_800, 5_000, ""),
    ],
)
def test_a_call_at_the_end_of_its_range_is_in_it_where_fractions_of_microseconds_were_cut_off(
    decimals: bool, begin: int, end: int, call: int, operator: str, tmp_path: Path
) -> None:
    made = KinetoTrace(decimals=decimals).operator("a", begin, end).call(call, call + 50, 1).kernel(9_000, 9_500, 1)

    assert launched_in(read_kineto(made.write(tmp_path / "t.json")), 0) == operator


def test_where_the_launch_was_not_recorded_the_external_id_names_the_operator(tmp_path: Path) -> None:
    made = KinetoTrace().event("cpu_op", "a", 0, 9, {"External id": 77})
    made.event("kernel", "k", 10, 20, {"device": 0, "stream": 1, "correlation": 5, "External id": 77})
    made.event("kernel", "old", 20, 30, {"device": 0, "stream": 1, "correlation": 77, "External id": 77})

    read = read_kineto(made.write(tmp_path / "t.json"))

    assert [launched_in(read, row) for row in (0, 1)] == ["a", ""]
    assert read.activities["call"].tolist() == [NONE, NONE]


def test_ids_that_two_processes_use_name_no_operator_and_are_told(tmp_path: Path) -> None:
    made = KinetoTrace()
    for pid in (7, 8):
        args = {"External id": 1, "correlation": 5}
        made.event("cpu_op", f"op{pid}", 0, 100, {"External id": 1}, pid=pid)
        made.event("cuda_runtime", "cudaLaunchKernel", 10, 20, args, pid=pid)
        made.event("kernel", f"k{pid}", 30, 60, {"device": pid, "stream": 7, **args}, pid=pid)

    read = read_kineto(made.write(tmp_path / "merged.json"))

    assert read.activities["range"].tolist() == [NONE, NONE]
    assert [warning for warning in read.warnings if "2 kernels or copies have correlation ids" in warning]


@pytest.mark.parametrize("launch", [{"External id": 2}, {}], ids=["other operator", "no operator"])
def test_a_call_of_another_process_is_no_launch_though_its_correlation_is_the_only_one(
    launch: dict[str, int], tmp_path: Path
) -> None:
    made = KinetoTrace()
    made.event("cpu_op", "op7", 0, 100, {"External id": 1}, pid=7).event("cpu_op", "op8", 0, 100, launch, pid=8)
    begin = 10 if launch else 70  # after the kernel's end
    made.event("cuda_runtime", "cudaLaunchKernel", begin, begin + 5, {"correlation": 5, **launch}, pid=8)
    work = {"device": 0, "stream": 7, "correlation": 5} | ({"External id": 1} if launch else {})
    made.event("kernel", "k", 30, 60, work, pid=0)

    read = read_kineto(made.write(tmp_path / "merged.json"))

    assert read.activities["call"].tolist() == [NONE]
    assert launched_in(read, 0) == ("op7" if launch else "")


def test_a_correlation_of_0_is_none(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).call(10, 20, 0, "cudaMalloc").kernel(30, 60, 0)

    assert read_kineto(made.write(tmp_path / "t.json")).activities["call"].tolist() == [NONE]


def test_memory_of_gpus_is_kept_that_of_the_host_is_counted(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).memory(10, 0x7F00_0000_0000, 512, **{"Total Allocated": 900})
    made.memory(20, 0x7F00_0000_0000, -512, **{"Total Allocated": 388, "Total Reserved": 2048})
    made.memory(30, 1, 64, kind=0, device=-1)

    read = read_kineto(made.write(tmp_path / "t.json"))

    assert read.memory_events["bytes"].tolist() == [512, -512]
    assert read.facts["allocator_peak_bytes"] == {"0": {"allocated": 900, "reserved": 2048}}
    assert read.facts["other_events"] == {"[memory] of the host": 1}


def test_modules_of_python_frames_are_layers(tmp_path: Path) -> None:
    made = KinetoTrace().event("python_function", "nn.Module: Linear_0", 0, 100).operator("aten::mm", 10, 20)
    made.event("python_function", "train.py(3): main", 0, 100)

    read = read_kineto(made.write(tmp_path / "t.json"))

    assert names(read, read.ranges) == ["Linear_0", "aten::mm"]
    assert read.ranges["level"].tolist() == [Level.LAYER, Level.OPERATOR]
    assert read.ranges["parent"].tolist() == [NONE, 0]
    assert read.facts["other_events"] == {"python_function": 1}


# --- Damage: what is good is kept, what is not is counted; nothing at all is an error ---


def test_a_file_that_breaks_off_gives_what_stands_before_the_break(trace: KinetoTrace, tmp_path: Path) -> None:
    whole = trace.text()
    cut = whole[: whole.index('"cudaMemcpyAsync"')]
    path = tmp_path / "cut.json"
    path.write_text(cut, encoding="utf-8")

    read = read_kineto(path)

    assert names(read, read.activities) == ["ampere_sgemm_128x64_nn"]
    assert read.warnings[0].startswith("the file is incomplete: it ends too early")
    assert "the 6 events before that were read" in read.warnings[0]


@pytest.fixture(scope="module")
def packed() -> bytes:
    """3000 operators."""
    made = KinetoTrace()
    for number in range(3000):
        made.operator(f"op{number}", 10 * number, 10 * number + 5)
    return gzip.compress(made.text().encode())


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_gzip_that_breaks_off_gives_what_stands_before_the_break(kept: float, packed: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    path.write_bytes(packed[: int(kept * len(packed))])

    read = read_kineto(path)

    assert 0.2 * 3000 < len(read.ranges["name"]) < 3000
    assert "its gzip stream ends too early" in read.warnings[0]


def test_a_byte_that_is_wrong_in_the_middle_of_gzip_is_told(packed: bytes, tmp_path: Path) -> None:
    path, middle = tmp_path / "bad.json.gz", len(packed) // 2
    path.write_bytes(packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :])

    read = read_kineto(path)

    assert read.warnings[0].startswith("the file is incomplete: its gzip stream is damaged")
    assert len(read.ranges["name"]) > 1000


@pytest.mark.parametrize(
    ("more", "trouble"),
    [(bytes(1 << 20), ""), (gzip.compress(b" \n"), ""), (b"x", "its gzip stream")],
    ids=["zeros", "stream", "byte"],
)
def test_what_follows_a_gzip_stream_is_padding_a_stream_or_damage(more: bytes, trouble: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(KinetoTrace().operator("a", 0, 5).text().encode()) + more)

    read = read_kineto(path)

    assert len(read.ranges) == 1
    assert (trouble in "".join(read.warnings)) if trouble else not read.warnings


WRONG_EVENTS: dict[str, list[Any]] = {
    "no object": [7, "text", None, [1]],
    "without a number as time or duration": [
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": "soon", "dur": 1},
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1},
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": None},
        {"ph": "X", "cat": "kernel", "name": "a", "ts": True, "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "a", "ts": [1], "dur": {}},
    ],
    "with a negative duration": [{"ph": "X", "cat": "kernel", "name": "a", "ts": 5, "dur": -1}],
    "with a time that is too large": [
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 10**30, "dur": 1},
        {"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 10**17},
    ],
    "of memory without a number as time or size": [
        {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": "many", "Device Type": 1}},
        {"ph": "i", "name": "[memory]", "ts": None, "args": {"Bytes": 1, "Device Type": 1}},
        {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": 10**30, "Device Type": 1}},
    ],
}


@pytest.mark.parametrize("reason", WRONG_EVENTS)
def test_events_that_cannot_be_used_are_counted_with_the_reason(
    trace: KinetoTrace, reason: str, tmp_path: Path
) -> None:
    good = read_kineto(trace.write(tmp_path / "good.json"))
    wrong = WRONG_EVENTS[reason]
    trace.events[3:3] = wrong

    read = read_kineto(trace.write(tmp_path / "bad.json"))

    assert read.warnings == (f"{len(wrong)} events are left out: {len(wrong)} {reason}",)
    for table in ("ranges", "calls", "activities"):
        assert np.array_equal(getattr(read, table)["start_ns"], getattr(good, table)["start_ns"])


HARMLESS_ARGS: list[Any] = [
    None,
    [],
    "text",
    {"correlation": "11", "device": "0", "stream": None},
    {"correlation": 10**40, "device": 10**40, "stream": 10**40, "grid": [10**40, 1, 1], "bytes": 10**40},
    {"correlation": -(10**17), "device": -(10**9), "grid": "4", "block": [1], "bytes": -7, "registers per thread": {}},
    {"correlation": 1.5, "device": float("inf"), "External id": [], "queued": {}, "context": False},
]


@pytest.mark.parametrize("category", ["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op"])
@pytest.mark.parametrize("args", HARMLESS_ARGS, ids=range(len(HARMLESS_ARGS)))
def test_arguments_of_any_type_do_no_harm(category: str, args: Any, tmp_path: Path) -> None:
    event = {"ph": "X", "cat": category, "name": None, "pid": {}, "tid": [], "ts": 1, "dur": 2, "args": args}
    made = KinetoTrace().operator("a", 0, 10)
    made.events.append(event)

    read = read_kineto(made.write(tmp_path / "t.json"))

    rows = {name: len(getattr(read, name)["start_ns"]) for name in ("ranges", "calls", "activities")}
    assert sum(rows.values()) == 2
    assert read.end_ns == 3000
    assert (read.activities["bytes"] >= NONE).all()


LIMIT, LONG = (1 << 62) - 1000, 1 << 61


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            KinetoTrace().kernel(-LIMIT, -LIMIT + 5000, 1).kernel(LIMIT - 5000, LIMIT, 2, device=1),
            "292 years apart: the times are damaged",
        ),
        (
            KinetoTrace(baseTimeNanoseconds=LIMIT).operator("a", LIMIT - 5000, LIMIT).operator("b", LIMIT, 2 * LIMIT),
            "damaged",
        ),
        (
            KinetoTrace().kernel(0, LONG, 1).kernel(0, LONG, 2).kernel(0, LONG, 3),
            "durations of its activities add up to more than 146 years",
        ),
    ],
)
def test_times_and_sums_that_overflow_are_refused(made: KinetoTrace, said: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=said):
        read_kineto(made.write(tmp_path / "t.json"))


def test_sizes_of_copies_that_cannot_be_are_unknown_and_told(tmp_path: Path) -> None:
    made = KinetoTrace().copy(0, 9, 1, 1 << 61).copy(10, 19, 2, -5).copy(20, 29, 3, 64)

    read = read_kineto(made.write(tmp_path / "t.json"))

    assert read.activities["bytes"].tolist() == [NONE, NONE, 64]
    assert read.warnings == ("2 copies have a negative size or one above 1 PiB: it is taken as unknown",)


def test_an_array_without_an_object_around_it_is_a_trace_too(trace: KinetoTrace, tmp_path: Path) -> None:
    document = json.loads(trace.text())
    path = tmp_path / "array.json"
    path.write_text(json.dumps(document["traceEvents"]), encoding="utf-8")

    assert len(read_kineto(path).activities["name"]) == 2


def test_unknown_keys_and_categories_are_ignored_and_counted(trace: KinetoTrace, tmp_path: Path) -> None:
    trace.about["future"] = {"deep": [1, {"x": None}]}
    trace.event("quantum", "q", 0, 5).event("cuda_sync", "s", 0, 5)
    for event in trace.events:
        event["future"] = 1

    read = read_kineto(trace.write(tmp_path / "t.json"))

    assert len(read.activities["name"]) == 2
    assert read.warnings == ("1 events are of kinds that are in no table: quantum (1)",)
    assert read.facts["other_events"] == {"quantum": 1, "cuda_sync": 1}
