"""GPU memory of operators: allocations of a Capture and a grouping in, bytes, live bytes and peaks per row out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profkit.attribution.grouping import Groups
from profkit.capture.schema import HOST_MEMORY, NONE, Capture


@dataclass(frozen=True)
class DeviceMemory:
    """What the ranges of each row themselves allocated; frees count for the row that allocated."""

    columns: Mapping[str, list[int]]  # live_bytes: not given back when the trace ended
    total_calls: int
    total_bytes: int
    unattributed_bytes: int  # allocated in no row
    peak_bytes: int  # of all together
    unknown_frees: int  # of what was allocated before the trace began
    lost_frees: int  # an address was allocated again although its free was not recorded


def device_memory(capture: Capture, groups: Groups) -> DeviceMemory | None:
    """None where no allocation was recorded, or the rows are not ranges."""
    if groups.of_range is None:
        return None
    memory = capture.memory_events
    rows = np.flatnonzero(~np.isin(memory.kind, HOST_MEMORY))
    return _Account(groups).of(capture, rows) if len(rows) else None


class _Account:
    """Follows every address from its allocation to its free."""

    def __init__(self, groups: Groups) -> None:
        self._of_range = groups.of_range.tolist() if groups.of_range is not None else []
        # The last entry is that of no row: NONE is its index as well.
        self._calls, self._bytes, self._live, self._peaks = ([0] * (len(groups.names) + 1) for _ in range(4))
        self._all_live = self._all_peak = self._lost = self._unknown = 0
        self._held: dict[tuple[int, int, int], tuple[int, int]] = {}  # process, device, address: size and row

    def of(self, capture: Capture, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> DeviceMemory:
        memory = capture.memory_events
        columns = (memory[name][rows].tolist() for name in ("process", "device", "address", "bytes", "range"))
        for process, device, address, size, place in zip(*columns):
            where = (process, device, address)
            if size < 0:
                self._unknown += not self._give_back(where)
            else:
                self._lost += self._give_back(where)
                self._allocate(where, size, self._of_range[place] if place != NONE else NONE)
        return DeviceMemory(
            columns={
                "alloc_calls": self._calls[:-1],
                "own_alloc_bytes": self._bytes[:-1],
                "live_bytes": self._live[:-1],
                "peak_bytes": self._peaks[:-1],
            },
            total_calls=sum(self._calls),
            total_bytes=sum(self._bytes),
            unattributed_bytes=self._bytes[-1],
            peak_bytes=self._all_peak,
            unknown_frees=self._unknown,
            lost_frees=self._lost,
        )

    def _allocate(self, where: tuple[int, int, int], size: int, row: int) -> None:
        self._held[where] = (size, row)
        self._calls[row] += 1
        self._bytes[row] += size
        self._live[row] += size
        self._peaks[row] = max(self._peaks[row], self._live[row])
        self._all_live += size
        self._all_peak = max(self._all_peak, self._all_live)

    def _give_back(self, where: tuple[int, int, int]) -> bool:
        """Whether something was held there."""
        if where not in self._held:
            return False
        size, row = self._held.pop(where)
        self._live[row] -= size
        self._all_live -= size
        return True
