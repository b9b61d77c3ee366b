"""The time that a call's kernels take on a GPU, as CUPTI records it: a call goes in, nanoseconds per call come out.

Worker side, after the last sample: a collector that once was on may cost time in every later launch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.capture.schema import ActivityKind, Capture
from profkit.errors import UnavailableError

CALLS = 10


def kernel_ns_per_call(call: Callable[[], Any], path: str, calls: int = CALLS) -> float:
    """Record `calls` calls, each of which waits for the device; UnavailableError with what CUPTI said.

    All kernels count, whichever thread launched them: nothing else runs in a worker. The capture is removed.
    """
    from profkit.capture.environment import RecordingOptions
    from profkit.capture.reading import read
    from profkit.capture.session import RecordingSession

    call()
    recording = RecordingSession(path, RecordingOptions(allocations=False, children=False), torch=False)
    try:
        with recording:
            for _ in range(calls):
                call()
            door = next(door for door in recording.doors if door.name == "cupti")
        capture = read(path)
    finally:
        if os.path.exists(path):
            os.unlink(path)
    if not capture.has_device:
        raise UnavailableError(f"CUPTI recorded nothing: {door.detail}")
    return kernel_ns(capture) / calls


def kernel_ns(capture: Capture) -> int:
    """Sum over all kernels; UnavailableError if records were lost or missing: never a silent zero."""
    if capture.losses.device:
        raise UnavailableError(f"CUPTI lost {capture.losses.device} records")
    is_kernel = capture.activities.kind == ActivityKind.KERNEL
    if not np.any(is_kernel):
        raise UnavailableError("CUPTI recorded no kernel")
    return int(np.sum((capture.activities.end_ns - capture.activities.start_ns)[is_kernel]))
