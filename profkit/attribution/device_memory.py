"""GPU memory of operators: allocations of a DeviceTrace and a grouping in, bytes, live bytes and peaks per row out."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.attribution.device_groups import Groups
from profkit.capture.device_trace import NONE, DeviceTrace


@dataclass(frozen=True)
class DeviceMemory:
    """What the ranges of each row themselves allocated; frees count for the row that allocated."""

    calls: list[int]
    bytes: list[int]
    live_bytes: list[int]  # not given back when the trace ended
    peaks: list[int]  # most that was live at once
    total_bytes: int
    unattributed_bytes: int  # allocated in no row
    peak_bytes: int  # of all together
    unknown_frees: int  # of what was allocated before the trace began


def device_memory(trace: DeviceTrace, groups: Groups) -> DeviceMemory | None:
    """None where no allocation was recorded, or the rows are no ranges."""
    memory = trace.memory
    if not len(memory["bytes"]) or groups.of_range is None:
        return None
    count = len(groups.names)
    calls, totals, live, peaks = ([0] * count for _ in range(4))
    held: dict[tuple[int, int], tuple[int, int]] = {}  # device and address: size and row
    all_live = all_peak = total = unattributed = unknown = 0
    columns = (memory[name].tolist() for name in ("device", "address", "bytes", "range"))
    for device, address, size, place in zip(*columns):
        if size < 0:
            freed, row = held.pop((device, address), (0, NONE))
            unknown += not freed
            all_live -= freed
            if row != NONE:
                live[row] -= freed
            continue
        row = int(groups.of_range[place]) if place != NONE else NONE
        held[device, address] = (size, row)
        total += size
        all_live += size
        all_peak = max(all_peak, all_live)
        if row == NONE:
            unattributed += size
            continue
        calls[row] += 1
        totals[row] += size
        live[row] += size
        peaks[row] = max(peaks[row], live[row])
    return DeviceMemory(calls, totals, live, peaks, total, unattributed, all_peak, unknown)
