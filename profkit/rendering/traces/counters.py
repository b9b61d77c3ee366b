"""Memory over time for traces: a Capture goes in, counters of bounded length come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from profkit.capture.schema import HOST, HOST_MEMORY, NONE, PHASES, Capture, Column, MemoryKind, taken
from profkit.rendering.traces.content import Counter

# A viewer draws a few thousand pixels; a counter of millions of points only makes the file large.
MOST_POINTS = 100_000
LIVE = "live"
TOTAL = "allocator's total"


def memory_counters(capture: Capture, processes: Sequence[int]) -> tuple[Counter, ...]:
    """All that was recorded of memory, by process; `processes` are those of the trace."""
    return tuple(
        Counter(row, name, "bytes", *thinned(times - capture.origin_ns, values))
        for process, row in enumerate(processes)
        for name, times, values in _of_process(capture, process)
    )


_Values = tuple[str, Column, Column]  # name, times, bytes


def _of_process(capture: Capture, process: int) -> Iterator[_Values]:
    yield from _allocated(capture, process)
    yield from _resident(capture, process)
    events = capture.memory_events
    is_own = np.maximum(events.process, 0) == process
    is_framework = is_own & (events.kind == MemoryKind.PAGEABLE) & (events.device == NONE)
    yield from _by_phase(capture, np.flatnonzero(is_framework)) if is_framework.any() else _totals(capture, process)
    yield from _of_devices(capture, is_own & ~np.isin(events.kind, HOST_MEMORY))


def _allocated(capture: Capture, process: int) -> Iterator[_Values]:
    """What the recorded allocations of the host hold, from 0 at the process's start."""
    taken = capture.allocations
    rows = np.flatnonzero(capture.threads.process[taken.thread] == process)
    if not len(rows):
        return
    sizes = taken.bytes[rows].astype(np.int64)
    is_freed = taken.free_time_ns[rows] != NONE
    times = np.concatenate((taken.time_ns[rows], taken.free_time_ns[rows][is_freed]))
    changes = np.concatenate((sizes, -sizes[is_freed]))
    order = np.argsort(times, kind="stable")
    start = min(capture.processes[process].start_ns, int(times.min()))
    yield "live recorded", *_from_zero(start, times[order], changes[order])


def _resident(capture: Capture, process: int) -> Iterator[_Values]:
    rows = np.flatnonzero(capture.samples.process == process)
    if len(rows):
        order = rows[np.argsort(capture.samples.time_ns[rows], kind="stable")]
        yield "resident", capture.samples.time_ns[order], capture.samples.resident_bytes[order].astype(np.int64)


def _by_phase(capture: Capture, rows: Column) -> Iterator[_Values]:
    """What a framework's allocator holds, in all and by the phase that requested it.

    A release of memory from before the recording says nothing here; memory that is taken again was released.
    """
    events = capture.memory_events
    rows = rows[np.lexsort((events.time_ns[rows], events.address[rows]))]
    sizes = np.maximum(events.bytes[rows], 0)
    follows = np.append(False, events.address[rows][1:] == events.address[rows][:-1])
    gone = np.where(follows, np.roll(sizes, 1), 0)
    numbers = {phase: number for number, phase in enumerate(PHASES)}
    texts = [*(numbers.get(text, numbers[HOST]) for text in capture.strings), numbers[HOST]]
    phase = np.array(texts)[taken(capture.ranges.phase, events.range[rows])]
    changes = np.zeros((len(PHASES), len(rows)), np.int64)
    place = np.arange(len(rows))
    changes[phase, place] += sizes
    changes[np.roll(phase, 1), place] -= gone
    order = np.argsort(events.time_ns[rows], kind="stable")
    times, changes = events.time_ns[rows][order], changes[:, order]
    used = np.flatnonzero(changes.any(axis=1)).tolist()
    chosen = [(LIVE, changes.any(axis=0), changes.sum(axis=0))]
    chosen += [(f"{LIVE} from {PHASES[row]}", changes[row] != 0, changes[row]) for row in used if len(used) > 1]
    for name, is_change, each in chosen:
        if is_change.any():
            yield name, times[is_change], np.cumsum(each[is_change])


def _totals(capture: Capture, process: int) -> Iterator[_Values]:
    """The allocator's own total when each range ended, where single allocations are not reported."""
    ranges = capture.ranges
    rows = np.flatnonzero(ranges.live_bytes != NONE) if ranges.has("live_bytes") else np.zeros(0, np.int64)
    rows = rows[capture.threads.process[ranges.thread[rows]] == process]
    if len(rows):
        rows = rows[np.argsort(ranges.end_ns[rows], kind="stable")]
        yield TOTAL, ranges.end_ns[rows], ranges.live_bytes[rows]


def _of_devices(capture: Capture, is_device: Column) -> Iterator[_Values]:
    """Live bytes of each GPU, from 0 at the start of the recording: what was before is not known."""
    events = capture.memory_events
    for device in np.unique(events.device[is_device]).tolist():
        mine = np.flatnonzero(is_device & (events.device == device))
        name = f"GPU {device} memory" if device != NONE else "GPU memory"
        yield name, *_from_zero(capture.start_ns, events.time_ns[mine], events.bytes[mine])


def _from_zero(start_ns: int, times: Column, changes: Column) -> tuple[Column, Column]:
    return np.concatenate(([start_ns], times)), np.concatenate(([0], np.cumsum(changes)))


def thinned(times: Column, values: Column) -> tuple[Column, Column]:
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
