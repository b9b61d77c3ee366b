"""What a reader of a GPU trace's table must know besides its numbers: a trace and its segments in, sentences out."""

from __future__ import annotations

import numpy as np

from profkit.attribution.device_lanes import BUSY, Lanes
from profkit.capture.device_trace import NONE, ActivityKind, DeviceTrace


def notes_of(trace: DeviceTrace, lanes: Lanes, by: str) -> tuple[str, ...]:
    """Each is a sentence without a full stop."""
    if not lanes.is_of_devices:
        return ("no GPU activity was recorded: all times are of the host's threads",)
    notes = []
    activities = trace.activities
    count = len(activities["call"])
    lost = activities["call"] == NONE
    if lost.any():
        lost_ns = int((activities["end_ns"] - activities["start_ns"])[lost].sum())
        notes.append(
            f"{np.count_nonzero(lost):,} of {count:,} kernels and copies ({lost_ns / 1e6:.3f} ms) have no recorded "
            "launch: it came before the recording, or was not recorded, so no operator can be named"
        )
    durations = activities["end_ns"] - activities["start_ns"]
    busy_ns = int(lanes.duration_ns[np.isin(lanes.part, BUSY)].sum())
    hidden_ns = int(durations.sum()) - busy_ns
    if hidden_ns:
        notes.append(
            f"{hidden_ns / 1e6:.3f} ms of GPU time lie beside other work of the same GPU: they are in the column GPU, "
            "but own no wall clock"
        )
    failed = (trace.calls["return_code"] != NONE) & (trace.calls["return_code"] != 0)
    if failed.any():
        notes.append(f"{np.count_nonzero(failed):,} CUDA calls returned an error code")
    early = _early(trace)
    if early:
        notes.append(f"{early:,} kernels or copies begin before their launch: the clocks of host and GPU differ")
    if by == "gemm" and not _has_kernels(trace):
        notes.append("no kernel was recorded")
    return tuple(notes)


def _early(trace: DeviceTrace) -> int:
    known = trace.activities["call"] != NONE
    begins = trace.calls["start_ns"][trace.activities["call"][known]]
    return int(np.count_nonzero(trace.activities["start_ns"][known] < begins))


def _has_kernels(trace: DeviceTrace) -> bool:
    return bool((trace.activities["kind"] == ActivityKind.KERNEL).any())
