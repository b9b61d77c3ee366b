"""One capture with something of everything, made of the schema alone: no word of who recorded it.

mixed_capture() has, from 1,000,000 ns on (all times below are relative to that, `ORIGIN_NS`):
- process 0 (pid 70, torch): threads main, autograd and helper; two steps, 100 to 1000 and 1100 to 2000, both also
  ranges of main. In the first a layer conv1 with an operator, a primitive and a helper's work for it, two spans that
  overlap, a mark, an operator whose time was placed, and one without a layer; in the second one operator, and then
  two at once: backward on autograd (in RUNTIME code), the optimiser on main. One operator is in no step.
- process 1 (pid 80): one thread of a traced program, with a range in a range, a mark and a range left open; no levels.
- Ranges of all kinds and levels, through a door (NVTX, profkit) and through none; payloads, colours, counters, bytes.
- GPU 0 with two streams for process 0 and GPU 1 for process 1: launches, kernels that overlap, a copy, a set without a
  launch, a call without work and outside all ranges.
- Allocations of the host with and without release, memory of both GPUs, and that of the framework's own allocator on
  the host (512 bytes, which are the operator's requested_bytes, and 64 while no range was open).
- Resident memory of process 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from profkit.capture.schema import (
    AGGREGATE,
    BACKWARD,
    EXACT,
    FORWARD,
    LAYER_KINDS,
    NONE,
    OPTIMISER,
    Activities,
    ActivityKind,
    AllocationCall,
    Allocations,
    Calls,
    Capture,
    CopyDirection,
    Device,
    Level,
    MemoryEvents,
    MemoryKind,
    Process,
    RangeKind,
    Ranges,
    Samples,
    Source,
    Steps,
    Threads,
)
from tests.capture.tables import payload_bits, table_of

ORIGIN_NS = 1_000_000
STEPS_NS = ((100, 1_000), (1_100, 2_000))
MAIN, AUTOGRAD, HELPER, CHILD = range(4)

_Row = dict[str, Any]


def mixed_capture() -> Capture:
    """The capture that the head of this file describes."""
    strings: dict[str, int] = {}
    ranges = _ranges()
    row_of = {row["name"]: number for number, row in enumerate(ranges)}
    for row in ranges:
        for name in ("parent", "owner"):
            row[name] = row_of[row[name]] if name in row else NONE
    tables = {
        "threads": table_of(Threads, _threads(), strings, ORIGIN_NS),
        "ranges": table_of(Ranges, ranges, strings, ORIGIN_NS),
        "steps": table_of(Steps, [_at(*times, process=0) for times in STEPS_NS], strings, ORIGIN_NS),
        "calls": table_of(Calls, _calls(row_of), strings, ORIGIN_NS),
        "activities": table_of(Activities, _activities(row_of), strings, ORIGIN_NS),
        "allocations": table_of(Allocations, _allocations(row_of), strings, ORIGIN_NS),
        "memory_events": table_of(MemoryEvents, _memory_events(row_of), strings, ORIGIN_NS),
        "samples": table_of(Samples, [_sample(0, 10_000), _sample(1_500, 20_000)], strings, ORIGIN_NS),
    }
    return Capture(
        path="mixed",
        strings=tuple(strings),
        processes=(
            Process(70, "training", "torch", start_ns=ORIGIN_NS, end_ns=ORIGIN_NS + 2_400),
            Process(80, command=("/usr/bin/python", "load.py"), start_ns=ORIGIN_NS, end_ns=ORIGIN_NS + 2_300),
        ),
        devices=(Device(0, "GPU of a test", 9, 0, multiprocessors=132), Device(1, "another GPU")),
        facts={LAYER_KINDS: {"conv1": "conv2d", "pool1": "pool2d"}},
        recorder="",
        origin_ns=ORIGIN_NS,
        **tables,  # type: ignore[arg-type]
    )


def _threads() -> list[_Row]:
    return [
        _at(0, 2_400, process=0, index=0, os_thread_id=70, name="main", role="main"),
        _at(1_200, 1_900, process=0, index=1, os_thread_id=71, name="autograd", role="autograd"),
        _at(200, 400, process=0, index=2, os_thread_id=72, role="pool"),
        _at(0, 2_300, process=1, index=0, os_thread_id=80, name="main"),
    ]


def _ranges() -> list[_Row]:
    """Grouped by thread, in order of start; `parent` and `owner` by their names, which are given once each."""
    forward = {"phase": FORWARD, "step": 0, "quality": EXACT}
    conv1: _Row = {"layer": "conv1", **forward}
    through_nvtx = {"domain": "layers", "category": "network", "colour": 0xFF00FF00, "source": Source.NVTX}
    bytes_: _Row = {"requested_bytes": 512, "temporary_bytes": 128, "peak_bytes": 640, "live_bytes": 600}
    faults = {"minor_faults": 1, "major_faults": 0, "voluntary_switches": 2, "involuntary_switches": 3}
    span, mark = {"kind": RangeKind.SPAN}, {"kind": RangeKind.MARK}
    backward = {"phase": BACKWARD, "layer": "conv1", "step": 1, "sequence": 1, "forward_thread": MAIN}
    step = {"level": Level.STEP, "source": Source.PROFKIT}
    nvtx = {"source": Source.NVTX}
    return [
        _range("step 0", MAIN, 100, 1_000, step=0, **step, **faults),
        _range("conv1", MAIN, 120, 500, parent="step 0", level=Level.LAYER, **conv1, **through_nvtx, **_payload(3)),
        _range("upload", MAIN, 130, 700, parent="conv1", **span, **nvtx, end_thread=AUTOGRAD),
        _operator("aten::conv2d", MAIN, 150, 450, parent="conv1", **conv1, **bytes_, sequence=1, shapes="[2,3]"),
        _range("download", MAIN, 160, 800, parent="aten::conv2d", **span, **nvtx),
        _primitive("brgemm", MAIN, 200, 400, parent="aten::conv2d", **conv1, pool_cpu_ns=170),
        _range("seen", MAIN, 210, 210, parent="brgemm", **mark, **nvtx),
        _operator(
            "aten::max_pool2d", MAIN, 550, 650, parent="step 0", layer="pool1", **forward | {"quality": AGGREGATE}
        ),
        _operator("aten::zero_", MAIN, 700, 750, parent="step 0", phase=FORWARD, step=0),
        _range("step 1", MAIN, 1_100, 2_000, step=1, **step),
        _operator("aten::mse_loss", MAIN, 1_150, 1_250, parent="step 1", phase=FORWARD, step=1),
        _operator("aten::add_", MAIN, 1_500, 1_900, parent="step 1", phase=OPTIMISER, step=1, requested_bytes=0),
        _operator("aten::to", MAIN, 2_050, 2_100),
        _range("evaluate_function", AUTOGRAD, 1_300, 1_800, level=Level.RUNTIME, step=1),
        _operator("aten::convolution_backward", AUTOGRAD, 1_350, 1_700, parent="evaluate_function", **backward),
        _range("pool", HELPER, 210, 390, level=Level.POOL, **span, owner="brgemm", step=0),
        _range("load", CHILD, 50, 900, **nvtx, domain="data"),
        _range("decode", CHILD, 100, 300, parent="load", **nvtx, **_payload(0.5)),
        _range("decoded", CHILD, 250, 250, parent="decode", **mark, **nvtx),
        _range("wait", CHILD, 1_000, 2_300, **nvtx, is_open=True),
    ]


def _calls(row_of: Mapping[str, int]) -> list[_Row]:
    launch: _Row = {"name": "cudaLaunchKernel", "is_driver": 0, "return_code": 0, "process": 0}
    driver = {"name": "cuLaunchKernel", "is_driver": 1, "return_code": 0, "process": 1}
    copy = {**launch, "name": "cudaMemcpyAsync"}
    failed = {**launch, "name": "cudaDeviceSynchronize", "return_code": 700}
    return [
        _at(150, 160, thread=CHILD, correlation=1, range=row_of["decode"], **driver),
        _at(250, 260, thread=MAIN, correlation=1, range=row_of["brgemm"], **launch),
        _at(600, 620, thread=MAIN, correlation=2, range=row_of["aten::max_pool2d"], **copy),
        _at(1_400, 1_410, thread=AUTOGRAD, correlation=3, range=row_of["aten::convolution_backward"], **launch),
        _at(2_150, 2_160, thread=MAIN, correlation=4, **failed),
    ]


def _activities(row_of: Mapping[str, int]) -> list[_Row]:
    first: _Row = {"process": 0, "device": 0, "context": 1, "stream": 7}
    sizes = {"grid_x": 4, "grid_y": 2, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1, "registers": 32}
    kernel: _Row = {"kind": ActivityKind.KERNEL, **sizes}
    copy = {"kind": ActivityKind.COPY, "bytes": 4_096, "direction": CopyDirection.HOST_TO_DEVICE}
    ends = {"source_kind": MemoryKind.PINNED, "target_kind": MemoryKind.DEVICE}
    gemm = {"name": "void gemm<128, 64>(float const*, float*)", "call": 1, "range": row_of["brgemm"], "correlation": 1}
    backward = {"name": "dgrad", "call": 3, "range": row_of["aten::convolution_backward"], "correlation": 3}
    resize = {"name": "resize", "call": 0, "range": row_of["decode"], "correlation": 1}
    second = {"process": 1, "device": 1, "context": 2, "stream": 7}
    moved = {"name": "Memcpy HtoD", "call": 2, "range": row_of["aten::max_pool2d"], "correlation": 2}
    return [
        _at(200, 500, **second, **kernel, **resize),
        _at(300, 700, **first, **kernel, **gemm),
        _at(350, 600, **first, **kernel, **gemm, graph_node=5),
        _at(640, 690, **first | {"stream": 8}, **copy, **ends, **moved),
        _at(1_450, 1_600, **first, **kernel, **backward),
        _at(1_700, 1_720, **first, kind=ActivityKind.SET, name="Memset", bytes=64, target_kind=MemoryKind.DEVICE),
    ]


def _allocations(row_of: Mapping[str, int]) -> list[_Row]:
    malloc = {"call": AllocationCall.MALLOC}
    freed = {"free_time_ns": 560, "free_thread": MAIN, "free_range": row_of["aten::max_pool2d"]}
    unnamed = {"free_time_ns": 2_200, "free_thread": AUTOGRAD}
    return [
        {
            "time_ns": 170,
            "thread": MAIN,
            "range": row_of["aten::conv2d"],
            "address": 16,
            "bytes": 100,
            **malloc,
            **freed,
        },
        {"time_ns": 1_360, "thread": AUTOGRAD, "range": row_of["aten::convolution_backward"], "address": 32}
        | {"bytes": 50, **malloc, **unnamed},
        {"time_ns": 2_120, "thread": MAIN, "address": 48, "bytes": 20, "call": AllocationCall.CALLOC},
        {"time_ns": 120, "thread": CHILD, "range": row_of["decode"], "address": 16, "bytes": 7, **malloc},
    ]


def _memory_events(row_of: Mapping[str, int]) -> list[_Row]:
    host = {"process": 0, "kind": MemoryKind.PAGEABLE, "thread": MAIN}
    device = {"process": 0, "kind": MemoryKind.DEVICE, "device": 0, "thread": MAIN}
    other = {"process": 1, "kind": MemoryKind.DEVICE, "device": 1, "thread": CHILD}
    return [
        {"time_ns": 110, "bytes": 2_048, "address": 4, **other, "range": row_of["load"]},
        {"time_ns": 155, "bytes": 512, "address": 1, **host, "range": row_of["aten::conv2d"]},
        {"time_ns": 190, "bytes": 1_024, "address": 2, **device, "range": row_of["aten::conv2d"], "pool": 9},
        {"time_ns": 1_050, "bytes": 64, "address": 3, **host},
        {"time_ns": 1_550, "bytes": -512, "address": 1, **host, "range": row_of["aten::add_"]},
        {"time_ns": 1_950, "bytes": -1_024, "address": 2, **device, "range": row_of["step 1"], "pool": 9},
    ]


def _at(start_ns: int, end_ns: int, **values: Any) -> _Row:
    return {"start_ns": start_ns, "end_ns": end_ns, **values}


def _sample(time_ns: int, size: int) -> _Row:
    return {"process": 0, "time_ns": time_ns, "resident_bytes": size}


def _range(name: str, thread: int, start_ns: int, end_ns: int, **values: Any) -> _Row:
    return {"name": name, "thread": thread, "end_thread": thread, **_at(start_ns, end_ns), **values}


def _operator(name: str, thread: int, start_ns: int, end_ns: int, **values: Any) -> _Row:
    return _range(name, thread, start_ns, end_ns, level=Level.OPERATOR, type=name, **values)


def _primitive(name: str, thread: int, start_ns: int, end_ns: int, **values: Any) -> _Row:
    own = {"level": Level.PRIMITIVE, "implementation": "jit:avx2", "fused": "convolution+relu"}
    return _range(name, thread, start_ns, end_ns, **own, **values)


def _payload(value: float) -> _Row:
    return dict(zip(("payload_type", "payload"), payload_bits(value)))
