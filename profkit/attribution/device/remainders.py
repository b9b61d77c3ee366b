"""What no row of a GPU trace's table owns, and why: segments and rows in, named remainders out."""

from __future__ import annotations

import numpy as np

from profkit.attribution.account import DeviceShares
from profkit.attribution.device.lanes import BUSY, PART_FIELDS, DevicePart, activity_parts
from profkit.attribution.grouping import Groups
from profkit.attribution.usage import Remainder, Value
from profkit.capture.schema import NONE, ActivityKind, Capture, Column

NO_LAUNCH, NO_RANGE = "launch not recorded", "launched in no range"
_IDLE = {
    DevicePart.QUEUE: "idle, launched but not begun",
    DevicePart.DISPATCH: "idle, host runs its code",
    DevicePart.CALL: "idle, host is in a CUDA call",
    DevicePart.SYNC: "idle, host waits for the GPU",
    DevicePart.OUTSIDE: "idle, host in no range",
    DevicePart.UNKNOWN: "idle, launch not recorded",
}
_WORK = {DevicePart.KERNEL: "kernels", DevicePart.AUXILIARY: "auxiliary kernels", DevicePart.COPY: "copies and sets"}


def remainders_of(shares: DeviceShares, groups: Groups, owner: Column, by: str) -> tuple[Remainder, ...]:
    """Work first, then idle time, each with its reason and with what ran in it; their times sum to the remainder."""
    capture, parts = shares.capture, dict[str, dict[str, int]]()
    rest = np.flatnonzero(owner == NONE)
    columns = (column[rest].tolist() for column in (shares.part, shares.activity, shares.range, shares.ns))
    for part, activity, place, duration in zip(*columns):
        if part in BUSY:
            reason = _of_work(capture, groups, by, part, activity)
        else:
            reason = _of_idle(groups, by, part, place)
            reason = reason if shares.lanes.is_of_devices else reason.removeprefix("idle, ")
        if duration:
            sums, name = parts.setdefault(reason, {}), PART_FIELDS[DevicePart(part)]
            sums[name] = sums.get(name, 0) + duration
    work = _work(capture, groups, by)
    reasons = sorted(dict.fromkeys([*work, *parts]), key=lambda reason: (reason not in work, reason))
    return tuple(_remainder(reason, parts.get(reason, {}), work.get(reason), groups) for reason in reasons)


def _remainder(reason: str, parts: dict[str, int], work: list[int] | None, groups: Groups) -> Remainder:
    values: dict[str, Value] = {"exclusive_ns": sum(parts.values()), **parts}
    if work is None:
        return Remainder(reason, {**values, "idle_ns": values["exclusive_ns"]})
    launches, device_ns, copy_bytes = work
    values |= {"launches": launches, "device_ns": device_ns}
    values |= {"copy_bytes": copy_bytes} if copy_bytes else {}
    return Remainder(reason, values if groups.of_range is not None else {**values, "calls": launches})


def _work(capture: Capture, groups: Groups, by: str) -> dict[str, list[int]]:
    """Launches, their durations and the bytes that they move, by the reason."""
    activities, parts = capture.activities, activity_parts(capture)
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(groups.of_activity == NONE).tolist():
        sums = found.setdefault(_of_work(capture, groups, by, int(parts[row]), row), [0, 0, 0])
        sums[0] += 1
        sums[1] += int(activities.end_ns[row] - activities.start_ns[row])
        sums[2] += max(0, int(activities.bytes[row])) if activities.kind[row] != ActivityKind.KERNEL else 0
    return found


def _of_work(capture: Capture, groups: Groups, by: str, part: int, activity: int) -> str:
    if groups.of_range is None:
        return "other kernels" if by == "gemm" and part == DevicePart.KERNEL else _WORK[DevicePart(part)]
    if capture.activities.range[activity] != NONE:
        return f"launched in no {by}"
    return NO_LAUNCH if capture.activities.call[activity] == NONE else NO_RANGE


def _of_idle(groups: Groups, by: str, part: int, place: int) -> str:
    if groups.of_range is None or part in (DevicePart.UNKNOWN, DevicePart.QUEUE):
        return _IDLE[DevicePart(part)]
    return f"idle, host in no {by if place != NONE or by != 'operator' else 'range'}"
