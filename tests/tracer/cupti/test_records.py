"""The CUPTI door with a double of libcupti: records of several versions' layouts become a Capture."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.capture.schema import NONE, ActivityKind, Capture, CopyDirection, MemoryKind
from tests.tracer.cupti.gpu_programs import PRELUDE, GpuProgram, device_of, kernel_ranges, real_cupti

VERSIONS = {"12.1": "18", "12.2": "20", "12.9": "27", "13.0": "130001", "13.4": "130400"}

EVERYTHING = """
gpu.double_device(0, b"NVIDIA Double")
with profkit.scope("step"):
    with profkit.scope("conv"):
        kernel("implicit_gemm", call())
    with profkit.scope("load"):
        copy(1, 1, 3, 4096, call(COPY))
        gpu.double_peer_copy(big(512), call(COPY), big(gpu.double_now()), big(gpu.double_now() + 100))
        start = gpu.double_now()
        gpu.double_set(big(256), call(), big(start), big(start + 50))
    with profkit.scope("allocate"):
        made = call(MALLOC)
        gpu.double_memory(0, big(0x7F0000000000), big(1 << 20), made, big(0))
        gpu.double_pool(1, big(0x1234), big(4 << 20), big(2 << 20), made)
        gpu.double_memory(1, big(0x7F0000000000), big(1 << 20), call(FREE), big(0x1234))
        gpu.double_pool(3, big(0x1234), big(1 << 20), big(0), made)
    kernel("of the step", call(307, DRIVER))
kernel("of nobody", call(result=2))
start = gpu.double_now()
gpu.double_overhead(1 << 16, big(start), big(start + 700))
"""


@pytest.mark.parametrize("version", VERSIONS.values(), ids=VERSIONS.keys())
def test_every_kind_of_record_arrives_whatever_the_sizes_of_the_version(version: str, gpu: GpuProgram) -> None:
    capture, _ = gpu(EVERYTHING, {"CUPTI_DOUBLE_VERSION": version})

    trace = device_of(capture)
    check_everything(capture, capture.warnings)
    assert trace.facts["cupti"][0]["version"] == int(version)


def test_the_real_librarys_walker_finds_the_same_records(gpu: GpuProgram) -> None:
    library = real_cupti()

    capture, _ = gpu(EVERYTHING, {"CUPTI_DOUBLE_VERSION": "130001", "CUPTI_DOUBLE_WALKER": library})

    check_everything(capture, capture.warnings)


def check_everything(trace: Capture | None, warnings: tuple[str, ...]) -> None:
    """What EVERYTHING must give."""
    assert trace is not None and warnings == ()
    activities, calls, memory = trace.activities, trace.calls, trace.memory_events
    assert kernel_ranges(trace) == {"implicit_gemm": "conv", "of the step": "step", "of nobody": "-"}
    row = [trace.text(int(name)) for name in activities["name"]].index("implicit_gemm")
    shape = [int(activities[f"{what}_{axis}"][row]) for what in ("grid", "block") for axis in "xyz"]
    assert shape == [16, 2, 3, 128, 1, 4]
    assert [int(activities[name][row]) for name in ("registers", "static_shared_bytes", "dynamic_shared_bytes")] == [
        40,
        1024,
        2048,
    ]
    assert [int(activities[name][row]) for name in ("device", "context", "stream", "graph_node")] == [0, 1, 7, NONE]
    assert int(activities["end_ns"][row] - activities["start_ns"][row]) == pytest.approx(5000, abs=2)

    copies = np.flatnonzero(activities["kind"] == ActivityKind.COPY)
    assert sorted(activities["bytes"][copies].tolist()) == [512, 4096]
    assert set(activities["direction"][copies].tolist()) == {CopyDirection.HOST_TO_DEVICE, CopyDirection.PEER_TO_PEER}
    assert MemoryKind.PAGEABLE in activities["source_kind"][copies]
    assert activities["bytes"][activities["kind"] == ActivityKind.SET].tolist() == [256]

    names = {trace.text(int(name)) for name in calls["name"]}
    assert names == {"cudaLaunchKernel", "cudaMemcpy", "cudaMalloc", "cudaFree", "cuLaunchKernel"}
    assert sorted(calls["return_code"].tolist())[-1] == 2 and trace.facts["failed calls"] == 1
    assert calls["is_driver"].sum() == 1
    assert memory["bytes"].tolist() == [1 << 20, -(1 << 20)] and memory["pool"].tolist() == [0, 0x1234]
    assert {trace.text(int(trace.ranges["name"][row])) for row in memory["range"]} == {"allocate"}

    (pool,) = trace.facts["memory_pools"]
    assert (pool["reserved_peak_bytes"], pool["used_peak_bytes"]) == (4 << 20, 2 << 20)
    assert (pool["made"], pool["trimmed"], pool["reserved_end_bytes"]) == (1, 1, 1 << 20)

    assert trace.devices[0].name == "NVIDIA Double" and trace.devices[0].multiprocessors == 108
    assert (trace.devices[0].compute_major, trace.devices[0].memory_bytes) == (8, 40 << 30)
    assert trace.facts["overhead_ns"] == {"CUPTI flushes its buffers": pytest.approx(700, abs=2)}
    assert trace.facts["calls in the range announced to CUPTI"] == 7


def test_a_call_after_its_range_is_not_in_it_however_the_clocks_disagree(gpu: GpuProgram) -> None:
    prelude = PRELUDE.replace('ctypes.CDLL("libcuda.so.1").cuInit(0)\n', "")
    capture, _ = gpu(
        """
with profkit.scope("before CUPTI"):
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    time.sleep(0.1)
    with profkit.scope("told"):
        kernel("inside", call())
        time.sleep(0.1)
    gpu.double_begin_calls_early(big(50_000_000))
    kernel("after it", call())
gpu.double_begin_calls_early(big(0))
kernel("of nobody", call())
""",
        prelude=prelude,
    )

    trace = device_of(capture)
    assert kernel_ranges(trace) == {"inside": "told", "after it": "before CUPTI", "of nobody": "-"}
    assert trace.facts["calls in the range announced to CUPTI"] == 1
    assert trace.facts["calls in the range open at their time"] == 1
    assert trace.facts["calls in no range"] == 1


def test_times_are_on_the_captures_clock_though_cuptis_is_another_one(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("range"):
    number = call()
    time.sleep(0.3)
    kernel("inside", number, after=0, lasts=10_000)
    time.sleep(0.05)
""")

    trace = device_of(capture)
    start, end = int(trace.ranges["start_ns"][0]), int(trace.ranges["end_ns"][0])
    # The double's clock is an hour ahead and gains 20 ppm.
    assert start <= trace.calls["start_ns"][0] <= trace.calls["end_ns"][0]
    assert trace.calls["end_ns"][0] + 290_000_000 < trace.activities["start_ns"][0]
    assert trace.activities["start_ns"][0] < trace.activities["end_ns"][0] < end
    assert 0 <= trace.facts["clock_error_ns"] < 50_000_000  # a busy machine may come between two readings


def test_records_before_their_calls_are_joined_and_lost_calls_are_counted(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("early"):
    kernel("before its call", 1)
    assert call() == 1
with profkit.scope("lost"):
    kernel("call is lost", call(lost=1))
kernel("call of nobody", 4_000_000_000)
""")

    trace = device_of(capture)
    assert kernel_ranges(trace) == {"before its call": "early", "call is lost": "-", "call of nobody": "-"}
    assert trace.facts["activities without a call"] == 2
    assert trace.facts["ids of ranges without a call"] == 1


def test_nodes_of_a_graph_share_a_call_and_stay_apart(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("replay"):
    number = call(GRAPH)
    for node in (11, 12, 13):
        kernel(f"node {node}", number, node=node)
""")

    trace = device_of(capture)
    assert kernel_ranges(trace) == {"node 11": "replay", "node 12": "replay", "node 13": "replay"}
    assert trace.activities["graph_node"].tolist() == [11, 12, 13]
    assert len(set(trace.activities["correlation"].tolist())) == len(trace.calls["name"]) == 1


def test_unknown_cut_and_unfinished_records_are_counted_and_the_others_kept(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("range"):
    kernel("whole", call())
    gpu.double_record_of_kind(38)
    gpu.double_record_of_kind(4242)
    gpu.double_kernel(b"runs still", call(), big(gpu.double_now()), big(0), 7, big(0))
    gpu.double_push_foreign(big(77))
    kernel("after the odd ones", call())
    kernel("cut", call())
    gpu.double_cut(big(100))
    kernel("in the next buffer", call())
""")

    trace = device_of(capture)
    assert set(kernel_ranges(trace)) == {"whole", "after the odd ones", "in the next buffer"}
    assert set(kernel_ranges(trace).values()) == {"range"}
    assert (trace.facts["records of unknown kinds"], trace.facts["unfinished work"]) == (2, 1)
    assert trace.facts["cut records"] == 1
    assert len([text for text in capture.warnings if "left out" in text]) == 3


@pytest.mark.parametrize("left", [0, 3, 4, 20, 90, 159])
def test_a_buffer_cut_anywhere_gives_the_records_before_the_cut(left: int, gpu: GpuProgram) -> None:
    capture, _ = gpu(f'kernel("whole", call())\nkernel("cut", 99)\ngpu.double_cut(big(216 - {left}))\n')

    trace = device_of(capture)
    assert set(kernel_ranges(trace)) == {"whole"}
    assert trace.facts["cut records"] == (0 if left == 0 else 1)


def test_dropped_records_are_counted_and_shown(gpu: GpuProgram) -> None:
    capture, _ = gpu('kernel("kept", call())\ngpu.double_drop(big(1234))\n')

    trace = device_of(capture)
    assert trace.losses.device == capture.losses.device == capture.losses.records == 1234
    assert "1,234 records of the GPU were lost by CUPTI: its buffers were not taken fast enough" in capture.warnings


def test_many_buffers_come_through_in_a_long_run(gpu: GpuProgram) -> None:
    capture, _ = gpu("""
with profkit.scope("long"):
    number = call()
    for place in range(30_000):
        gpu.double_kernel(b"many", number, big(10**13 + place), big(10**13 + place + 1), 7, big(0))
asked = gpu.double_flush_calls()
while gpu.double_flush_calls() < asked + 2:  # by its period: nobody asked
    time.sleep(0.01)
""")

    trace = device_of(capture)
    assert len(trace.activities["kind"]) == 30_000 and capture.losses.records == 0


def test_without_a_capture_nothing_is_told_to_cupti(gpu: GpuProgram) -> None:
    _, printed = gpu("""
from profkit import _core
_core.tracer_stop()
before = gpu.double_push_calls()
for _ in range(100):
    with profkit.scope("off"):
        pass
print(gpu.double_push_calls() - before)
""")

    assert printed.split() == ["0"]


def test_ranges_that_end_out_of_order_leave_cuptis_stack_right(gpu: GpuProgram) -> None:
    capture, printed = gpu("""
outer, inner = profkit.scope("outer"), profkit.scope("inner")
outer.__enter__(); inner.__enter__()
outer.__exit__(None, None, None)
kernel("in the inner one", call())
inner.__exit__(None, None, None)
kernel("in none", call())
print(gpu.double_open_ids())
""")

    assert kernel_ranges(device_of(capture)) == {"in the inner one": "inner", "in none": "-"}
    assert printed.split() == ["0"]
