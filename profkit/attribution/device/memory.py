"""GPU memory of operators: allocations of a Capture and a grouping in, bytes, live bytes and peaks per row out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profkit.attribution.grouping import Groups
from profkit.capture.schema import HOST_MEMORY, NONE, Capture


@dataclass(frozen=True)
class GroupMemory:
    """What the ranges of each row themselves allocated; frees count for the row that allocated."""

    columns: Mapping[str, list[int]]  # live_bytes: not freed when the trace ended
    total_calls: int
    total_bytes: int
    unattributed_bytes: int  # allocated in no row
    peak_bytes: int  # of all together
    unknown_frees: int  # of what was allocated before the trace began
    lost_frees: int  # an address was allocated again although its free was not recorded


def device_memory(capture: Capture, groups: Groups) -> GroupMemory | None:
    """Follows every address from its allocation to its free; None where none was recorded, or rows are not ranges."""
    memory = capture.memory_events
    rows = np.flatnonzero(~np.isin(memory.kind, HOST_MEMORY))
    if groups.of_range is None or not len(rows):
        return None
    of_range = groups.of_range.tolist()
    # The last entry is that of no row: NONE is its index as well.
    calls, requested, live, peaks = ([0] * (len(groups) + 1) for _ in range(4))
    all_live = all_peak = lost = unknown = 0
    held: dict[tuple[int, int, int], tuple[int, int]] = {}  # by process, device and address: size and row
    columns = (memory[name][rows].tolist() for name in ("process", "device", "address", "bytes", "range"))
    for process, device, address, size, place in zip(*columns):
        where = (process, device, address)
        if where in held:
            freed, row = held.pop(where)
            live[row] -= freed
            all_live -= freed
            lost += size >= 0
        elif size < 0:
            unknown += 1
        if size >= 0:
            row = of_range[place] if place != NONE else NONE
            held[where] = (size, row)
            calls[row] += 1
            requested[row] += size
            live[row] += size
            peaks[row] = max(peaks[row], live[row])
            all_live += size
            all_peak = max(all_peak, all_live)
    sums = {"alloc_calls": calls, "own_alloc_bytes": requested, "live_bytes": live, "peak_bytes": peaks}
    return GroupMemory(
        columns={name: column[:-1] for name, column in sums.items()},
        total_calls=sum(calls),
        total_bytes=sum(requested),
        unattributed_bytes=requested[-1],
        peak_bytes=all_peak,
        unknown_frees=unknown,
        lost_frees=lost,
    )
