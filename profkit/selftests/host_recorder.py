"""The recorder on the host: ranges, marks, processes, allocations and its clock against what a small program did."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from profkit.capture.schema import NONE, AllocationCall, Capture, RangeKind
from profkit.selftests import host_program as program
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, CheckResult
from profkit.selftests.recorded import check_conservation, compared, count, rows_named, run_recorded

CLOCK_NS, CLOCK_SHARE = 2_000, 1e-4
"""How far the recorder's clock may leave the wall clock: reading both takes time, and one is scaled to the other."""


def check(setting: CheckContext) -> list[CheckResult]:
    capture, did = run_recorded("profkit.selftests.host_program", setting.folder, setting.limit_s)
    return [
        _ranges(capture),
        _nvtx(capture, did["has_nvtx"]),
        *_memory(capture),
        _clock(capture, did["clocks"]),
        _losses(capture),
        *check_conservation(capture),
    ]


def _ranges(capture: Capture) -> CheckResult:
    rows = {name: rows_named(capture, f"selftest {name}") for name in ("outer", "inner", "mark", "thread", "child")}
    ranges, process = capture.ranges, capture.threads.process[capture.ranges.thread]
    main = rows["outer"][0] if len(rows["outer"]) else 0
    is_inside = np.isin(ranges.parent[rows["inner"]], rows["outer"])
    is_other_thread = ranges.thread[rows["thread"]] != ranges.thread[main]
    is_same_process = process[rows["thread"]] == process[main]
    return compared(
        "ranges",
        {
            "ranges": (program.OUTER, count(ranges.kind[rows["outer"]] == RangeKind.RANGE)),
            "ranges inside them": (program.OUTER * program.INNER, count(is_inside)),
            "marks": (program.MARKS, count(ranges.kind[rows["mark"]] == RangeKind.MARK)),
            "ranges of another thread": (program.OF_THREAD, count(is_other_thread & is_same_process)),
            "ranges of a child process": (program.OF_CHILD, count(process[rows["child"]] != process[main])),
        },
    )


def _nvtx(capture: Capture, was_used: bool) -> CheckResult:
    if not was_used:
        reason = 'the package nvtx is not installed: pip install "profkit[nvtx]"'
        return CheckResult("NVTX ranges", NOT_PROVEN, reason)
    return compared("NVTX ranges", {"ranges": (program.OF_NVTX, len(rows_named(capture, "selftest nvtx")))})


def _memory(capture: Capture) -> list[CheckResult]:
    """Each kind of allocation has a size that nothing else allocates."""
    table = capture.allocations
    if not len(table):
        reason = "LD_PRELOAD has no effect here: no allocation was recorded"
        return [CheckResult(name, NOT_PROVEN, reason) for name in ("allocations", "mappings")]
    of_malloc = _allocations_in(capture, "selftest allocations", AllocationCall.MALLOC, program.BYTES)
    of_calloc = _allocations_in(capture, "selftest allocations", AllocationCall.CALLOC, program.ZEROED_BYTES)
    of_mmap = _allocations_in(capture, "selftest mappings", AllocationCall.MMAP, program.MAPPED_BYTES)
    allocations = {
        "calls of malloc": (program.ALLOCATIONS, len(of_malloc)),
        "bytes by malloc": (program.ALLOCATIONS * program.BYTES, int(table.bytes[of_malloc].sum())),
        "releases": (program.RELEASED, count(table.free_time_ns[of_malloc] != NONE)),
        "calls of calloc": (program.ZEROED, len(of_calloc)),
        "bytes by calloc": (program.ZEROED * program.ZEROED_BYTES, int(table.bytes[of_calloc].sum())),
    }
    mappings = {
        "mappings": (program.MAPPINGS, len(of_mmap)),
        "releases": (program.MAPPINGS, count(table.free_time_ns[of_mmap] != NONE)),
    }
    return [compared("allocations", allocations), compared("mappings", mappings)]


def _clock(capture: Capture, readings: list[tuple[int, int]]) -> CheckResult:
    """The wall clock was read inside and outside of each range: the recorder's duration must be between."""
    rows = rows_named(capture, "selftest clock")
    if len(rows) != len(readings):
        return compared("clock", {"ranges": (len(readings), len(rows))})
    recorded = (capture.ranges.end_ns - capture.ranges.start_ns)[rows].tolist()
    outside = [
        f"{duration:,} ns, by the wall clock {inner:,} to {outer:,}"
        for duration, (inner, outer) in zip(recorded, readings)
        if not inner - _slack(inner) <= duration <= outer + _slack(outer)
    ]
    clock = capture.processes[0].clock
    numbers = {"clock": clock, "recorded_ns": recorded, "wall_clock_ns": readings}
    if outside:
        return CheckResult("clock", WRONG, f"{clock}: {'; '.join(outside)}", numbers)
    text = f"{len(rows)} ranges by the recorder's clock ({clock}) last as long as by the wall clock"
    return CheckResult("clock", PROVEN, text, numbers)


def _slack(duration_ns: int) -> float:
    return CLOCK_NS + CLOCK_SHARE * duration_ns


def _losses(capture: Capture) -> CheckResult:
    numbers = asdict(capture.losses)
    troubles = [*([f"{capture.losses.records} records were lost"] if capture.losses.records else []), *capture.warnings]
    if troubles:
        return CheckResult("whole capture", WRONG, "; ".join(troubles), numbers)
    return CheckResult("whole capture", PROVEN, "no record was lost, and nothing is damaged", numbers)


def _allocations_in(capture: Capture, name: str, call: AllocationCall, size: int) -> Any:
    table = capture.allocations
    is_wanted = np.isin(table.range, rows_named(capture, name)) & (table.call == call) & (table.bytes == size)
    return np.flatnonzero(is_wanted)
