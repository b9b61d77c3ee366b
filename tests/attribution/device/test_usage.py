"""Tables of GPU traces: real files against sums taken from them without profkit, and made traces, a rule per test."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.grouping import groupings_on
from profkit.attribution.metrics import find_metric
from profkit.attribution.passes import usage_of
from profkit.attribution.usage import Usage, UsageRow
from profkit.capture.importers.kineto import read_kineto
from profkit.capture.importers.nsight import read_nsight
from profkit.errors import UsageError
from tests.capture.importers.foreign_traces import (
    NSIGHT_FILES,
    ON_GPU,
    REAL_FILES,
    KinetoTrace,
    NsightExport,
    event_times,
    gpu_work,
    kineto_events,
    nsight_rows,
    opened_trace,
    real_trace,
)

GPU_FILES = [name for name in REAL_FILES if "cpu-only" not in name]
NVTX_RANGES = (59, 60, 70, 71)


def table(made: KinetoTrace | NsightExport, by: str, folder: Path) -> Usage:
    return usage_of(opened_trace(made.write(folder / "trace")), by, clock=DEVICES)


def rows(usage: Usage) -> dict[str, UsageRow]:
    return {row.name: row for row in usage.rows}


def remainders(usage: Usage) -> dict[str, int | None]:
    return {part.name: part.time_ns for part in usage.remainders}


# --- Real traces ---


def whole_span(path: Path) -> int:
    """From the first to the last moment of the file."""
    if path.suffix != ".sqlite":
        categories = (*ON_GPU, "cuda_runtime", "cpu_op", "user_annotation")
        times = [event_times(path, event) for event in kineto_events(path, *categories)]
    else:
        tables = [f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")]
        times = [row for name in tables for row in nsight_rows(path, f'select start, "end" from {name}')]
        times += nsight_rows(path, f'select start, "end" from NVTX_EVENTS where eventType in {NVTX_RANGES}')
    return int(max(end for _, end in times) - min(start for start, _ in times))


def busy_ns(path: Path) -> int:
    """Time in which something runs, of every GPU: the union of its intervals."""
    total = 0
    of_device = defaultdict(list)
    for _, device, start, end, _ in gpu_work(path):
        of_device[device].append((start, end))
    for intervals in of_device.values():
        reached = min(start for start, _ in intervals)
        for start, end in sorted(intervals):
            total += max(0, end - max(start, reached))
            reached = max(reached, end)
    return total


@pytest.mark.parametrize("name", GPU_FILES)
def test_totals_of_a_real_trace_are_those_of_its_file_by_every_grouping(name: str) -> None:
    path = real_trace(name)
    work = gpu_work(path)
    wall_ns = whole_span(path) * len({device for _, device, *_ in work})
    device_ns = sum(end - start for _, _, start, end, _ in work)
    copied = sum(size for *_, size in work)
    trace = opened_trace(path)

    for by in groupings_on(DEVICES):
        usage = usage_of(trace, by, clock=DEVICES)

        assert usage.wall_ns == wall_ns
        assert usage.totals["device_ns"] == device_ns
        assert usage.parts is not None
        assert sum(usage.parts[part] for part in ("kernel_ns", "auxiliary_ns", "copy_ns")) == busy_ns(path)
        assert sum(usage.parts.values()) == wall_ns
        assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == wall_ns
        assert sum(part.time_ns or 0 for part in usage.remainders) == usage.remainder_ns
        for field, total in (("launches", len(work)), ("device_ns", device_ns), ("copy_bytes", copied)):
            found = sum(value or 0 for value in usage.rows.column(field))
            assert found + (usage.left(field) or 0) == total


def named_work(path: Path) -> dict[str, list[int]]:
    """Durations by the kernel's name as the file has it."""
    found = defaultdict(list)
    if path.suffix == ".sqlite":
        question = "from CUPTI_ACTIVITY_KIND_KERNEL k join StringIds on id = demangledName"
        for name, length in nsight_rows(path, f'select value, k."end" - k.start {question}'):
            found[name].append(length)
    else:
        for event in kineto_events(path, *ON_GPU):
            start, end = event_times(path, event)
            found[event["name"]].append(end - start)
    return found


@pytest.mark.parametrize("name", GPU_FILES)
def test_each_kernel_of_a_real_trace_has_the_calls_and_times_of_its_file(name: str) -> None:
    path = real_trace(name)

    found = rows(usage_of(opened_trace(path), "kernel", clock=DEVICES))

    for kernel, durations in named_work(path).items():
        row = found[kernel]
        assert (row.calls, row.device_ns) == (len(durations), sum(durations))
        middle = sorted(durations)[(len(durations) - 1) // 2]
        assert (row.min_ns, row.median_ns, row.max_ns) == (min(durations), middle, max(durations))


def test_copies_of_a_real_kineto_trace_are_grouped_as_their_names_say() -> None:
    path = real_trace("kineto-alexnet-gpu.json.gz")
    events = kineto_events(path, "gpu_memcpy")
    assert {event["name"] for event in events} == {"Memcpy HtoD (Pageable -> Device)"}

    usage = usage_of(read_kineto(path), "copy", clock=DEVICES)

    row = rows(usage)["host to device (pageable to device)"]
    assert row.calls == len(events)
    assert row.copy_bytes == sum(event["args"]["bytes"] for event in events)
    assert row.device_ns == sum(end - start for start, end in (event_times(path, event) for event in events))
    assert rows(usage)["set"].calls == len(kineto_events(path, "gpu_memset"))


@pytest.mark.parametrize("name", NSIGHT_FILES)
def test_copies_of_a_real_export_are_grouped_as_its_numbers_say(name: str) -> None:
    path = real_trace(name)
    question = (
        'select count(*), sum(bytes), sum("end" - start) from CUPTI_ACTIVITY_KIND_MEMCPY '
        "where copyKind = {} and srcKind = {} and dstKind = {}"
    )

    found = rows(usage_of(read_nsight(path), "copy", clock=DEVICES))

    for title, numbers in {
        "host to device (pinned to device)": (1, 1, 2),
        "host to device (pageable to device)": (1, 0, 2),
        "device to host (device to pinned)": (2, 2, 1),
        "device to device": (8, 2, 2),
    }.items():
        row = found[title]
        assert nsight_rows(path, question.format(*numbers)) == [(row.calls, row.copy_bytes, row.device_ns)]


@pytest.mark.parametrize("name", NSIGHT_FILES)
def test_streams_and_gpus_of_a_real_export_are_those_of_its_tables(name: str) -> None:
    path = real_trace(name)
    expected: Counter[str] = Counter()
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        for device, stream, time in nsight_rows(
            path, f'select deviceId, streamId, "end" - start from CUPTI_ACTIVITY_KIND_{kind}'
        ):
            expected[f"GPU {device} stream {stream}"] += time

    usage = usage_of(read_nsight(path), "stream", clock=DEVICES)

    assert {row.name: row.device_ns for row in usage.rows} == expected


def test_a_real_trace_without_a_gpu_divides_the_time_of_its_threads() -> None:
    path = real_trace("kineto-cpu-only.json.gz")
    of_thread = defaultdict(list)
    for event in kineto_events(path, "cpu_op", "user_annotation"):
        of_thread[event["pid"], event["tid"]].append(event_times(path, event))
    spans = [max(end for _, end in each) - min(start for start, _ in each) for each in of_thread.values()]

    usage = usage_of(read_kineto(path), "operator", clock=DEVICES)

    assert usage.devices == 0
    assert usage.wall_ns == sum(spans)
    assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == sum(spans)


# --- Where time goes ---


def test_idle_time_is_told_by_the_thread_that_launches_the_next_work(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 100, 400).call(250, 300, 1).kernel(330, 380, 1)
    made.operator("b", 500, 900).call(600, 700, 9, "cudaDeviceSynchronize").call(800, 850, 2).kernel(840, 1000, 2)

    usage = table(made, "operator", tmp_path)

    a, b = rows(usage)["a"], rows(usage)["b"]
    assert usage.wall_ns == 900
    assert (a.dispatch_ns, a.call_ns, a.queue_ns, a.kernel_ns) == (150 + 20, 50, 30, 50)
    assert (b.dispatch_ns, b.sync_ns, b.call_ns, b.queue_ns, b.kernel_ns) == (100 + 100, 100, 40, 0, 160)
    assert remainders(usage) == {"idle, host in no range": 100}


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("cudaMemcpy", True),
        ("cudaMemcpy2DToArray", True),
        ("cuMemcpyDtoH_v2", True),
        ("cuStreamSynchronize", True),
        ("cudaMemcpyAsync", False),
        ("cudaMemcpyPeer", False),
        ("cuMemcpyHtoDAsync_v2", False),
        ("cuMemcpyDtoDAsync_v2_ptsz", False),
    ],
)
def test_calls_that_wait_for_the_gpu_are_no_asynchronous_ones(name: str, waits: bool, tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).call(10, 40, 9, name).call(50, 60, 1).kernel(70, 100, 1)

    row = rows(table(made, "operator", tmp_path))["a"]

    assert (row.sync_ns, row.call_ns) == ((30, 10) if waits else (0, 40))


def test_a_kernel_owns_time_before_a_copy_beside_it_and_the_note_tells_of_it(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 10).operator("b", 10, 20).call(0, 10, 1).call(10, 20, 2)
    made.copy(100, 200, 1, 64).kernel(150, 300, 2)

    usage = table(made, "operator", tmp_path)

    a, b = rows(usage)["a"], rows(usage)["b"]
    assert (a.copy_ns, a.device_ns, b.kernel_ns, b.device_ns) == (50, 100, 150, 150)
    assert any(note.startswith("0.000 ms of GPU time overlapped other work") for note in usage.notes)


def test_what_computes_owns_time_before_a_collective_beside_it(tmp_path: Path) -> None:
    made = KinetoTrace().operator("aten::mm", 0, 10).operator("nccl:all_reduce", 10, 20).call(0, 10, 1).call(10, 20, 2)
    made.kernel(100, 300, 2, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(P)", stream=9).kernel(150, 250, 1, "sgemm_nn")

    found = rows(table(made, "operator", tmp_path))

    assert (found["aten::mm"].kernel_ns, found["aten::mm"].device_ns) == (100, 100)
    assert (found["nccl:all_reduce"].kernel_ns, found["nccl:all_reduce"].device_ns) == (100, 200)


def test_auxiliary_kernels_of_a_library_stand_apart(tmp_path: Path) -> None:
    made = KinetoTrace().operator("aten::conv2d", 0, 30).call(0, 10, 1).call(10, 20, 2)
    made.kernel(20, 50, 1, "void cudnn::ops::nchwToNhwcKernel<float, float, float>(P)").kernel(50, 90, 2, "my_conv")

    row = rows(table(made, "operator", tmp_path))["aten::conv2d"]

    assert (row.auxiliary_ns, row.kernel_ns, row.device_ns) == (30, 40, 70)


def test_work_without_a_recorded_launch_is_named_so(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 10).kernel(20, 30, 77)

    usage = table(made, "operator", tmp_path)

    assert remainders(usage) == {"launch not recorded": 10, "idle, launch not recorded": 20}
    assert "1 of 1 kernels and copies" in usage.notes[0]


def test_two_gpus_have_a_wall_clock_each(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).call(0, 10, 1).call(10, 20, 2)
    made.kernel(20, 60, 1, device=0).kernel(20, 80, 2, device=1)

    usage = table(made, "device", tmp_path)

    assert (usage.wall_ns, usage.devices) == (200, 2)
    assert {row.name: row.exclusive_ns for row in usage.rows} == {"GPU 0": 40, "GPU 1": 60}


# --- Layers and phases ---


def test_a_backward_operator_belongs_to_the_layer_of_its_forward_one(tmp_path: Path) -> None:
    made = KinetoTrace().annotation("layer1", 0, 100).operator("aten::mm", 10, 50, sequence=3).call(20, 30, 1)
    made.annotation("layer2", 100, 200).operator("aten::mm", 110, 150, sequence=4).call(120, 130, 2)
    for number, start in ((4, 300), (3, 400)):
        made.operator("autograd::engine::evaluate_function: MmBackward0", start, start + 90, sequence=number, tid=8)
        made.operator("MmBackward0", start + 10, start + 80, sequence=number, tid=8)
        made.call(start + 20, start + 30, 10 + number, tid=8)
    made.kernel(40, 60, 1).kernel(140, 170, 2).kernel(340, 380, 14).kernel(440, 490, 13)

    layers, phases = rows(table(made, "layer", tmp_path)), rows(table(made, "phase", tmp_path))

    assert {name: row.device_ns for name, row in layers.items()} == {"layer1": 20 + 50, "layer2": 30 + 40}
    assert {name: row.calls for name, row in layers.items()} == {"layer1": 1, "layer2": 1}
    assert {name: row.device_ns for name, row in phases.items()} == {"forward": 20 + 30, "backward": 40 + 50}


def test_the_backward_operators_of_a_layer_are_in_the_sums_of_the_layers_around_it(tmp_path: Path) -> None:
    made = KinetoTrace().annotation("net", 0, 200).annotation("layer1", 10, 100)
    made.operator("aten::mm", 20, 50, sequence=3).call(30, 40, 1).kernel(50, 70, 1)
    made.operator("autograd::engine::evaluate_function: MmBackward0", 300, 400, sequence=3, tid=8)
    made.operator("MmBackward0", 310, 390, sequence=3, tid=8).call(320, 330, 2, tid=8).kernel(340, 370, 2)

    found = rows(table(made, "layer", tmp_path))

    assert (found["layer1"].device_ns, found["layer1"].device_inclusive_ns) == (50, 50)
    assert (found["net"].device_ns, found["net"].device_inclusive_ns) == (0, 50)
    assert (found["layer1"].host_inclusive_ns, found["net"].host_inclusive_ns) == (90 + 100, 200 + 100)
    assert (found["net"].calls, found["layer1"].calls) == (1, 1)


def test_sequence_numbers_of_two_processes_do_not_mix(tmp_path: Path) -> None:
    export = NsightExport()
    for pid, start in ((5, 0), (6, 5)):
        export.range(f"stage{pid}", start, start + 100, pid).range(
            "aten::mm, seq = 3, op_id = 1", start + 10, start + 50, pid
        )
        export.call(start + 20, start + 30, 1, pid=pid).kernel(start + 40, start + 60, 1, pid=pid, device=pid)
        export.range("MmBackward0, seq = 3, op_id = 9", start + 200, start + 250, pid, tid=9)
        export.call(start + 210, start + 220, 2, pid=pid, tid=9).kernel(
            start + 230, start + 260, 2, pid=pid, device=pid
        )

    usage = table(export, "layer", tmp_path)

    assert {name: row.device_ns for name, row in rows(usage).items()} == {"stage5": 50, "stage6": 50}


def test_sequence_numbers_are_those_of_the_forward_thread_that_an_arrow_tells(tmp_path: Path) -> None:
    made = KinetoTrace()
    for number, tid in ((1, 31), (2, 32)):
        made.annotation(f"replica{number}", 0, 100, tid=tid).operator("aten::mm", 10, 50, sequence=3, tid=tid)
        for start, sequence in ((200, 3), (300, 4)):
            args = {"Sequence number": sequence, "Fwd thread id": number}
            made.event("cpu_op", "MmBackward0", start, start + 50, args, tid=tid + 10)
            made.call(start + 10, start + 20, start + tid, tid=tid + 10)
            made.kernel(start + 30, start + 60, start + tid, device=number)
        # The arrow is of the second operator: the number of the thread holds for the first one too.
        made.operator("aten::add", 60, 70, sequence=4, tid=tid)
        for phase, where, time in (("s", tid, 60), ("f", tid + 10, 300)):
            arrow = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 7, "tid": where}
            made.events.append({**arrow, "ts": time / 1000})

    found = rows(table(made, "layer", tmp_path))

    assert {name: row.device_ns for name, row in found.items()} == {"replica1": 60, "replica2": 60}


def test_the_hooks_of_fsdp_make_layers(tmp_path: Path) -> None:
    export = NsightExport().range("FSDP::pre_forward (block.0)", 0, 10).range("aten::mm, op_id = 1", 20, 40)
    export.range("FSDP::post_forward (block.0)", 50, 60).call(25, 30, 1).kernel(100, 130, 1)

    usage = table(export, "layer", tmp_path)

    assert rows(usage)["block.0"].device_ns == 30
    assert rows(usage)["block.0"].calls == 1


def test_sums_with_everything_inside_count_recursion_once(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).operator("b", 10, 90).operator("a", 20, 80).call(30, 40, 1)
    made.kernel(50, 75, 1)

    found = rows(table(made, "operator", tmp_path))

    assert (found["a"].calls, found["a"].device_ns, found["a"].device_inclusive_ns) == (2, 25, 25)
    assert (found["b"].device_ns, found["b"].device_inclusive_ns) == (0, 25)
    assert (found["a"].host_ns, found["b"].host_ns, found["a"].host_inclusive_ns) == (80, 20, 100)


def test_a_layer_inside_one_of_the_same_name_is_no_second_call(tmp_path: Path) -> None:
    made = KinetoTrace().annotation("block", 0, 100).annotation("block", 10, 90).operator("a", 20, 80).call(30, 40, 1)

    row = rows(table(made.kernel(50, 75, 1), "layer", tmp_path))["block"]

    assert (row.calls, row.device_ns, row.device_inclusive_ns, row.exclusive_ns) == (1, 25, 25, 100)


# --- Memory ---


def test_memory_counts_for_the_operator_that_allocated_it(tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 100).operator("b", 100, 200).call(0, 5, 1).kernel(10, 20, 1)
    made.memory(10, 0xA0, 512).memory(20, 0xB0, 256).memory(110, 0xA0, -512).memory(120, 0xA0, 128)
    made.memory(250, 0xC0, 64).memory(260, 0xDD, -64).memory(270, 0xB0, 32)

    usage = table(made, "operator", tmp_path)

    a, b = rows(usage)["a"], rows(usage)["b"]
    assert (a.own_alloc_bytes, a.peak_bytes, a.live_bytes, a.alloc_calls) == (768, 768, 0, 2)
    assert (b.own_alloc_bytes, b.peak_bytes, b.live_bytes, b.alloc_calls) == (128, 128, 128, 1)
    assert (usage.total_alloc_bytes, usage.unattributed_alloc_bytes, usage.total_peak_bytes) == (992, 96, 768)
    assert usage.notes[-2:] == (
        "1 frees are of GPU memory that was allocated before the recording",
        "1 allocations were never freed, yet their addresses were used again",
    )


def test_pinned_memory_of_the_host_is_no_gpu_memory(tmp_path: Path) -> None:
    export = NsightExport().range("a", 0, 100).call(0, 5, 1).kernel(10, 20, 1)
    export.memory(10, 0xA0, 4096, kind=1).memory(20, 0xB0, 512)

    usage = table(export, "operator", tmp_path)

    assert usage.total_alloc_bytes == 512


# --- Tables of kernels and copies ---

# Table 5.1 of the study of AlexNet on a Titan X, its TensorFlow columns: seconds and calls.
PLAIN = {
    "128x64_nn": (0.016219, 21),
    "128x128_tn": (0.18607, 60),
    "128x128_nn": (0.16892, 42),
    "128x128_nt": (0.16529, 60),
}
BATCHED = {
    "128x64_nn": (0.14928, 26),
    "128x64_nt": (0.089606, 21),
    "128x128_nn": (0.31289, 45),
    "128x128_nt": (0.30616, 42),
    "64x64_nt": (0.39549, 64),
    "64x64_nn": (0.11230, 21),
}


def test_the_table_of_matrix_products_by_tile_transposes_and_batching_is_that_of_the_study(tmp_path: Path) -> None:
    made = KinetoTrace()
    now = 0
    expected = {}
    for kernel, suffix, columns in (("maxwell_sgemm", "", PLAIN), ("maxwell_sgemmBatched", " batched", BATCHED)):
        for shape, (seconds, calls) in columns.items():
            total_ns = round(seconds * 1e9)
            expected[f"{shape} f32{suffix}"] = (calls, total_ns)
            for call in range(calls):
                length = total_ns // calls + (call < total_ns % calls)
                made.kernel(now, now + length, 1, f"{kernel}_{shape}")
                now += length
    made.kernel(now, now + 100, 1, "elementwise_kernel").copy(now, now + 50, 1, 64)

    usage = table(made, "gemm", tmp_path)

    assert {row.name: (row.calls, row.device_ns) for row in usage.rows} == expected
    assert sum(row.calls for row in usage.rows if row.name.endswith("batched")) == 219
    assert sum(row.calls for row in usage.rows if not row.name.endswith("batched")) == 183
    assert usage.notes[-1] == (
        "matrix products take 100.0% of GPU time: 183 plain (536.499 ms) and 219 batched (1,365.726 ms)"
    )
    assert {part.name: part.values["launches"] for part in usage.remainders if "launches" in part.values} == {
        "other kernels": 1,
        "copies and sets": 1,
    }


COPIES = {
    "Memcpy HtoD (Pageable -> Device)": "host to device (pageable to device)",
    "Memcpy HtoD (Pinned -> Device)": "host to device (pinned to device)",
    "Memcpy DtoH (Device -> Pinned)": "device to host (device to pinned)",
    "Memcpy DtoD (Device -> Device)": "device to device",
    "Memcpy PtoP (Device -> Device)": "peer to peer",
    "Memcpy HtoD": "host to device (unknown to unknown)",
    "Memcpy of tomorrow": "other (unknown to unknown)",
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_told_apart_by_direction_and_kind_of_memory(name: str, tmp_path: Path) -> None:
    made = KinetoTrace().operator("a", 0, 50).call(0, 10, 1).copy(20, 30, 1, 1000, name).copy(30, 50, 1, 500, name)

    usage = table(made, "copy", tmp_path)

    (row,) = usage.rows
    assert (row.name, row.calls, row.copy_bytes, row.device_ns) == (COPIES[name], 2, 1500, 30)
    assert find_metric("copy_rate").values(usage) == [50.0]


def test_launches_pair_operators_with_kernels(tmp_path: Path) -> None:
    made = KinetoTrace().operator("aten::mm", 0, 50).call(10, 20, 1).operator("aten::bmm", 50, 90).call(60, 70, 2)
    made.kernel(100, 130, 1, "sgemm").kernel(130, 170, 2, "sgemm").kernel(170, 180, 2, "sgemm").kernel(180, 185, 9, "x")

    found = rows(table(made, "launch", tmp_path))

    assert {name: (row.calls, row.device_ns) for name, row in found.items()} == {
        "aten::mm: sgemm": (1, 30),
        "aten::bmm: sgemm": (2, 50),
        "?: x": (1, 5),
    }


def test_instances_of_one_template_are_told_apart_by_the_words_that_differ(tmp_path: Path) -> None:
    made = KinetoTrace().kernel(0, 10, 1, "void wgrad<float, 6, 7, true>(int)").kernel(10, 30, 1, "alone<4>(int)")
    made.kernel(30, 60, 1, "void wgrad<float, 5, 7, true>(int)").kernel(60, 99, 1, "void wgrad<float, 6, 8, true>(int)")

    found = rows(table(made, "kernel", tmp_path))

    assert sorted(str(row.short) for row in found.values()) == ["alone", "wgrad [5 7]", "wgrad [6 7]", "wgrad [6 8]"]
    assert found["void wgrad<float, 6, 8, true>(int)"].short == "wgrad [6 8]"


def test_streams_name_the_process_only_where_several_share_a_gpu(tmp_path: Path) -> None:
    export = NsightExport().kernel(0, 10, 1, pid=5).kernel(20, 40, 2, pid=6).kernel(50, 80, 3, pid=6, device=1)

    usage = table(export, "stream", tmp_path)

    assert {row.name: row.device_ns for row in usage.rows} == {
        "GPU 0 process 5 stream 7": 10,
        "GPU 0 process 6 stream 7": 20,
        "GPU 1 stream 7": 30,
    }


def test_an_unknown_grouping_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no grouping 'colour'; .*groupings: operator, layer, "):
        table(KinetoTrace().kernel(0, 1, 1), "colour", tmp_path)
