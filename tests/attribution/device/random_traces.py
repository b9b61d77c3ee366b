"""Random GPU traces for hypothesis: ranges that may overlap, calls, work on several GPUs, memory; few of them match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from profkit.capture.schema import KINETO, NONE, Capture, Column, Level
from profkit.capture.trace_tables import Strings, ThreadIds, linked_capture

STRINGS = (
    "aten::mm", "aten::conv2d", "block.0", "ProfilerStep#1", "cudaLaunchKernel", "cudaDeviceSynchronize", "cudaMemcpy",
    "ampere_sgemm_128x64_nn", "nchwToNhwcKernel", "Memcpy HtoD (Pinned -> Device)", "maxwell_sgemmBatched_64x64_nt",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
)  # fmt: skip
OPERATORS, CALLS, KERNELS = (0, 1, 2, 3), (4, 5, 6), (7, 8, 10, 11)
COPY = 9
LAST_NS = 30


def times(draw: st.DrawFn) -> dict[str, int]:
    """A start and an end."""
    start = draw(st.integers(0, LAST_NS))
    return {"start_ns": start, "end_ns": draw(st.integers(start, LAST_NS))}


@st.composite
def range_rows(draw: st.DrawFn) -> dict[str, int]:
    name = draw(st.sampled_from(OPERATORS))
    level = {2: Level.LAYER, 3: Level.STEP}.get(name, Level.OPERATOR)
    sequence = draw(st.sampled_from([NONE, 1]))
    return {"level": level, "thread": draw(st.integers(0, 2)), "name": name, "sequence": sequence, **times(draw)}


@st.composite
def call_rows(draw: st.DrawFn) -> dict[str, int]:
    correlation = draw(st.sampled_from([NONE, 1, 2, 3, 4]))
    name = draw(st.sampled_from(CALLS))
    return {"thread": draw(st.integers(0, 2)), "name": name, "correlation": correlation, **times(draw)}


@st.composite
def activity_rows(draw: st.DrawFn) -> dict[str, int]:
    kind = draw(st.integers(0, 2))
    moved = {"bytes": draw(st.integers(0, 99)), "direction": 1, "source_kind": 2, "target_kind": 3}
    return {
        "kind": kind,
        "device": draw(st.integers(0, 1)),
        "process": draw(st.integers(0, 1)),
        "stream": draw(st.integers(7, 8)),
        "name": draw(st.sampled_from(KERNELS)) if kind == 0 else COPY,
        "correlation": draw(st.sampled_from([NONE, 1, 2, 3, 4])),
        **(moved if kind else dict.fromkeys(moved, NONE)),
        **times(draw),
    }


@st.composite
def memory_rows(draw: st.DrawFn) -> dict[str, int]:
    return {
        "thread": draw(st.integers(0, 2)),
        "process": 0,
        "device": draw(st.integers(0, 1)),
        "time_ns": draw(st.integers(0, LAST_NS)),
        "address": draw(st.integers(1, 3)),
        "bytes": draw(st.sampled_from([-8, 8, 16])),
        "kind": 3,
    }


def columns(rows: Sequence[Mapping[str, int]], names: str) -> dict[str, Column]:
    """Rows as columns."""
    return {name: np.array([row[name] for row in rows], np.int64) for name in names.split()}


@st.composite
def device_traces(draw: st.DrawFn, least_work: int = 0) -> Capture:
    """Threads 0 and 1 are of process 0, thread 2 is of process 1."""
    ranges = columns(draw(st.lists(range_rows(), max_size=8)), "level thread start_ns end_ns name sequence")
    calls = columns(draw(st.lists(call_rows(), max_size=6)), "thread start_ns end_ns name correlation")
    processes = np.array([0, 0, 1])
    calls["process"] = processes[calls["thread"]]
    work = draw(st.lists(activity_rows(), min_size=least_work, max_size=8))
    activities = columns(
        work, "kind device process stream start_ns end_ns name correlation bytes direction source_kind target_kind"
    )
    memory = columns(draw(st.lists(memory_rows(), max_size=6)), "thread process device time_ns address bytes kind")
    places, strings = ThreadIds(), Strings()
    for number, process in enumerate(processes.tolist()):
        places.thread(70 + process, number)
    for text in STRINGS:
        strings.number(text)
    return linked_capture(ranges, calls, activities, memory, places, strings, path="random.json", recorder=KINETO)
