"""The recorder on the host: ranges, marks, processes, allocations and its clock against what a small program did."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, AllocationCall, Capture, RangeKind
from profkit.selftests import host_program as program
from profkit.selftests.conservation import check_conservation
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, Finding
from profkit.selftests.recorded import compared, record_program

PART = "recorder/host"
CLOCK_NS, CLOCK_SHARE = 2_000, 1e-4
"""How far the recorder's clock may leave the wall clock: reading both takes time, and one is scaled to the other."""


def check(setting: CheckContext) -> list[Finding]:
    """Record a small program and compare."""
    capture, did = record_program("profkit.selftests.host_program", setting.folder, setting.limit_s)
    return [
        _ranges(capture),
        _nvtx(capture, did["has_nvtx"]),
        *_memory(capture),
        _clock(capture, did["clocks"]),
        _losses(capture),
        *check_conservation(capture, PART),
    ]


def _ranges(capture: Capture) -> Finding:
    made = {
        "ranges": program.OUTER,
        "ranges inside them": program.OUTER * program.INNER,
        "marks": program.MARKS,
        "ranges of another thread": program.OF_THREAD,
        "ranges of a child process": program.OF_CHILD,
    }
    rows = {name: _rows_of(capture, f"selftest {name}") for name in ("outer", "inner", "mark", "thread", "child")}
    ranges, process = capture.ranges, capture.threads.process[capture.ranges.thread]
    main = rows["outer"][0] if len(rows["outer"]) else 0
    inside = np.isin(ranges.parent[rows["inner"]], rows["outer"])
    recorded = {
        "ranges": _count(ranges.kind[rows["outer"]] == RangeKind.RANGE),
        "ranges inside them": _count(inside),
        "marks": _count(ranges.kind[rows["mark"]] == RangeKind.MARK),
        "ranges of another thread": _count(
            (ranges.thread[rows["thread"]] != ranges.thread[main]) & (process[rows["thread"]] == process[main])
        ),
        "ranges of a child process": _count(process[rows["child"]] != process[main]),
    }
    return compared(PART, "ranges", made, recorded)


def _nvtx(capture: Capture, was_used: bool) -> Finding:
    if not was_used:
        reason = 'the package nvtx is not installed: pip install "profkit[nvtx]"'
        return Finding(PART, "NVTX ranges", NOT_PROVEN, reason)
    recorded = len(_rows_of(capture, "selftest nvtx"))
    return compared(PART, "NVTX ranges", {"ranges": program.OF_NVTX}, {"ranges": recorded})


def _memory(capture: Capture) -> list[Finding]:
    """Each kind of allocation has a size that nobody else asks for."""
    table = capture.allocations
    if not len(table):
        reason = "LD_PRELOAD has no effect here: no allocation was recorded"
        return [Finding(PART, name, NOT_PROVEN, reason) for name in ("allocations", "mappings")]
    made = {
        "calls of malloc": program.ALLOCATIONS,
        "bytes by malloc": program.ALLOCATIONS * program.BYTES,
        "releases": program.RELEASED,
        "calls of calloc": program.ZEROED,
        "bytes by calloc": program.ZEROED * program.ZEROED_BYTES,
    }
    of_malloc = _allocations_in(capture, "selftest allocations", AllocationCall.MALLOC, program.BYTES)
    of_calloc = _allocations_in(capture, "selftest allocations", AllocationCall.CALLOC, program.ZEROED_BYTES)
    of_mmap = _allocations_in(capture, "selftest mappings", AllocationCall.MMAP, program.MAPPED_BYTES)
    recorded = {
        "calls of malloc": len(of_malloc),
        "bytes by malloc": int(table.bytes[of_malloc].sum()),
        "releases": _count(table.free_time_ns[of_malloc] != NONE),
        "calls of calloc": len(of_calloc),
        "bytes by calloc": int(table.bytes[of_calloc].sum()),
    }
    mapped = {"mappings": program.MAPPINGS, "releases": program.MAPPINGS}
    recorded_mappings = {"mappings": len(of_mmap), "releases": _count(table.free_time_ns[of_mmap] != NONE)}
    return [
        compared(PART, "allocations", made, recorded),
        compared(PART, "mappings", mapped, recorded_mappings),
    ]


def _clock(capture: Capture, readings: list[tuple[int, int]]) -> Finding:
    """The wall clock was read inside and outside of each range: the recorder's duration must lie between."""
    rows = _rows_of(capture, "selftest clock")
    if len(rows) != len(readings):
        return compared(PART, "clock", {"ranges": len(readings)}, {"ranges": len(rows)})
    recorded = (capture.ranges.end_ns - capture.ranges.start_ns)[rows].tolist()
    outside = [
        f"{duration:,} ns, by the wall clock {inner:,} to {outer:,}"
        for duration, (inner, outer) in zip(recorded, readings)
        if not inner - _slack(inner) <= duration <= outer + _slack(outer)
    ]
    clock = capture.processes[0].clock
    numbers = {"clock": clock, "recorded_ns": recorded, "wall_clock_ns": readings}
    if outside:
        return Finding(PART, "clock", WRONG, f"{clock}: {'; '.join(outside)}", numbers=numbers)
    text = f"{len(rows)} ranges by the recorder's clock ({clock}) last as long as by the wall clock"
    return Finding(PART, "clock", PROVEN, text, numbers=numbers)


def _slack(duration_ns: int) -> float:
    return CLOCK_NS + CLOCK_SHARE * duration_ns


def _losses(capture: Capture) -> Finding:
    numbers = asdict(capture.losses)
    troubles = [*([f"{capture.losses.records} records were lost"] if capture.losses.records else []), *capture.warnings]
    if troubles:
        return Finding(PART, "whole capture", WRONG, "; ".join(troubles), numbers=numbers)
    return Finding(PART, "whole capture", PROVEN, "no record was lost, and nothing is damaged", numbers=numbers)


def _rows_of(capture: Capture, name: str) -> Any:
    numbers = [number for number, text in enumerate(capture.strings) if text == name]
    return np.flatnonzero(np.isin(capture.ranges.name, numbers))


def _allocations_in(capture: Capture, name: str, call: AllocationCall, size: int) -> Any:
    table = capture.allocations
    is_wanted = np.isin(table.range, _rows_of(capture, name)) & (table.call == call) & (table.bytes == size)
    return np.flatnonzero(is_wanted)


def _count(values: Any) -> int:
    return int(np.count_nonzero(values))
