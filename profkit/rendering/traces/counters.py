"""Memory over time for traces: allocations and samples of a Capture go in, counters of bounded length come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.capture.schema import NONE, Capture

# A viewer draws a few thousand pixels; a counter of millions of points only makes the file large.
MOST_POINTS = 100_000


@dataclass(frozen=True)
class Counter:
    """A number over time that belongs to a process."""

    process: int
    name: str
    unit: str
    time_ns: NDArray[Any]
    value: NDArray[Any]


def memory_counters(capture: Capture) -> tuple[Counter, ...]:
    """For each process that recorded them: live bytes of recorded allocations, and resident memory."""
    found = []
    owner = capture.threads.process[capture.allocations.thread]
    for process in range(len(capture.processes)):
        rows = np.flatnonzero(owner == process)
        if len(rows):
            found.append(Counter(process, "live recorded", "bytes", *thinned(*_live(capture, process, rows))))
        rows = np.flatnonzero(capture.samples.process == process)
        if len(rows):
            order = rows[np.argsort(capture.samples.time_ns[rows], kind="stable")]
            values = capture.samples.resident_bytes[order].astype(np.int64)
            found.append(Counter(process, "resident", "bytes", *thinned(capture.samples.time_ns[order], values)))
    return tuple(found)


def _live(capture: Capture, process: int, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Starts with 0 at the process's start."""
    taken = capture.allocations
    bytes_ = taken.bytes[rows].astype(np.int64)
    is_freed = taken.free_time_ns[rows] != NONE
    times = np.concatenate((taken.time_ns[rows], taken.free_time_ns[rows][is_freed]))
    steps = np.concatenate((bytes_, -bytes_[is_freed]))
    order = np.argsort(times, kind="stable")
    start = min(capture.processes[process].start_ns, int(times.min()))
    return np.concatenate(([start], times[order])), np.concatenate(([0], np.cumsum(steps[order])))


def thinned(times: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """At most MOST_POINTS of them: of every stretch its first, its largest and its last, so peaks stay."""
    if len(times) <= MOST_POINTS:
        return times, values
    size = -(-len(times) * 3 // MOST_POINTS)
    firsts = np.arange(0, len(times), size)
    lasts = np.minimum(firsts + size, len(times)) - 1
    padded = np.full(len(firsts) * size, np.iinfo(np.int64).min)
    padded[: len(values)] = values
    largest = firsts + padded.reshape(len(firsts), size).argmax(axis=1)
    kept = np.unique(np.concatenate((firsts, largest, lasts)))
    return times[kept], values[kept]
