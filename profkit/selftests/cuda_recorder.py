"""The recorder on a CUDA device: launches, copies and memory by CUPTI against what a small program did."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.capture.cupti_finding import find_cupti
from profkit.capture.device_warnings import UNKNOWN_KINDS
from profkit.capture.schema import NONE, ActivityKind, Capture, CopyDirection
from profkit.selftests import cuda_program as program
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, CheckResult
from profkit.selftests.recorded import check_device_conservation, compared, count, rows_named, run_recorded

NAMES = ("launches", "copies", "device memory", "clock of the device", "whole capture", "conservation")


def check(setting: CheckContext) -> list[CheckResult]:
    capture, _ = run_recorded("profkit.selftests.cuda_program", setting.folder, setting.limit_s)
    if not capture.has_device:
        return _nothing_recorded(capture)
    return [
        _launches(capture),
        _copies(capture),
        _memory(capture),
        _clock(capture),
        _losses(capture),
        *check_device_conservation(capture),
    ]


def _nothing_recorded(capture: Capture) -> list[CheckResult]:
    """Where CUPTI cannot be used that is not proven, with its reason; where it could, it is wrong."""
    found = find_cupti()
    is_refused = not found.is_usable or any("the GPU is not recorded" in warning for warning in capture.warnings)
    reason = "; ".join(capture.warnings) or found.reason or "CUPTI recorded nothing of a program that used the device"
    return [CheckResult(name, NOT_PROVEN if is_refused else WRONG, reason) for name in NAMES]


def _launches(capture: Capture) -> CheckResult:
    kernels = _activities(capture, program.LAUNCH_RANGE, ActivityKind.KERNEL)
    calls = capture.activities.call[kernels]
    launches = _in_ranges(capture, capture.calls.range, program.LAUNCH_RANGE) & _is_launch(capture)
    holding = _activities(capture, program.HOLD_RANGE, ActivityKind.KERNEL)
    return compared(
        "launches",
        {
            "launches": (program.LAUNCHES, count(launches)),
            "kernels": (program.LAUNCHES, len(kernels)),
            "kernels with their own launch": (program.LAUNCHES, len(np.unique(calls[calls != NONE]))),
            "holding kernels": (program.HOLDS, len(holding)),
        },
    )


def _copies(capture: Capture) -> CheckResult:
    up = _copies_of(capture, program.UPLOAD_RANGE, CopyDirection.HOST_TO_DEVICE)
    down = _copies_of(capture, program.DOWNLOAD_RANGE, CopyDirection.DEVICE_TO_HOST)
    fills = _activities(capture, program.FILL_RANGE, ActivityKind.SET)
    counts = {}
    for what, size, made, rows in (
        ("copies to the device", "bytes to the device", program.UPLOADS, up),
        ("copies from the device", "bytes from the device", program.DOWNLOADS, down),
        ("fills", "bytes filled", program.FILLS, fills),
    ):
        counts[what] = made, len(rows)
        counts[size] = made * program.COPY_BYTES, int(capture.activities.bytes[rows].sum())
    return compared("copies", counts)


def _memory(capture: Capture) -> CheckResult:
    if not len(capture.memory_events):
        return CheckResult("device memory", NOT_PROVEN, "CUPTI recorded no memory here")
    sizes = capture.memory_events.bytes[_in_ranges(capture, capture.memory_events.range, program.MEMORY_RANGE)]
    return compared(
        "device memory",
        {
            "allocations": (program.ALLOCATIONS, count(sizes > 0)),
            "bytes": (program.ALLOCATIONS * program.MEMORY_BYTES, int(sizes[sizes > 0].sum())),
            "releases": (program.RELEASES, count(sizes < 0)),
            "bytes released": (program.RELEASES * program.MEMORY_BYTES, -int(sizes[sizes < 0].sum())),
        },
    )


def _clock(capture: Capture) -> CheckResult:
    """No kernel begins before its launch does, and none ends before it begins."""
    work = capture.activities
    known = np.flatnonzero((work.kind == ActivityKind.KERNEL) & (work.call != NONE))
    error_ns = max(0, int(capture.facts.get("clock_error_ns", 0)))
    early_ns = capture.calls.start_ns[work.call[known]] - work.start_ns[known]
    worst_ns = int(early_ns.max()) if len(known) else 0
    numbers = {"kernels": len(known), "clock_error_ns": error_ns, "earliest_before_launch_ns": worst_ns}
    backwards = count(work.end_ns < work.start_ns)
    if backwards or worst_ns > error_ns:
        text = f"a kernel begins {worst_ns:,} ns before its launch, the clock's error is {error_ns:,} ns"
        text = f"{backwards} activities end before they begin" if backwards else text
        return CheckResult("clock of the device", WRONG, text, numbers)
    if not len(known):
        return CheckResult("clock of the device", NOT_PROVEN, "no kernel has its own launch", numbers)
    text = f"each of {len(known)} kernels begins after its launch; the clocks differ by at most {error_ns:,} ns"
    return CheckResult("clock of the device", PROVEN, text, numbers)


def _losses(capture: Capture) -> CheckResult:
    notes = [warning for warning in capture.warnings if warning.endswith(UNKNOWN_KINDS)]
    losses = [warning for warning in capture.warnings if warning not in notes]
    troubles = [*([f"CUPTI lost {capture.losses.device} records"] if capture.losses.device else []), *losses]
    numbers = {"dropped": capture.losses.device, "facts": dict(capture.facts)}
    if troubles:
        return CheckResult("whole capture", WRONG, "; ".join(troubles), numbers)
    if notes:
        return CheckResult("whole capture", NOT_PROVEN, "; ".join(notes), numbers)
    return CheckResult("whole capture", PROVEN, "no record was lost", numbers)


def _in_ranges(capture: Capture, column: Any, name: str) -> Any:
    return np.isin(column, rows_named(capture, name))


def _activities(capture: Capture, name: str, kind: ActivityKind) -> Any:
    return np.flatnonzero(_in_ranges(capture, capture.activities.range, name) & (capture.activities.kind == kind))


def _copies_of(capture: Capture, name: str, direction: CopyDirection) -> Any:
    rows = _activities(capture, name, ActivityKind.COPY)
    return rows[capture.activities.direction[rows] == direction]


def _is_launch(capture: Capture) -> Any:
    """Calls that start a kernel: the runtime's, or the driver's where CUPTI shows no others."""
    launching = [number for number, text in enumerate(capture.strings) if "LaunchKernel" in text]
    is_launch = np.isin(capture.calls.name, launching)
    of_runtime = is_launch & (capture.calls.is_driver == 0)
    return of_runtime if of_runtime.any() else is_launch
