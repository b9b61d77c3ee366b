"""Memory of a recorded network over time, for traces: a Recording goes in, counters of live bytes come out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profkit.capture.recording import Recording
from profkit.capture.schema import HOST, NONE, PHASES
from profkit.rendering.traces.counters import Counter, thinned

LIVE = "live"
TOTAL = "allocator's total"
_Change = tuple[int, str, int]  # time, phase that asked for the memory, bytes


def memory_counters(recording: Recording, process: int, origin_ns: int) -> tuple[Counter, ...]:
    """What recorded allocations hold, in all and by the phase that asked for it; else the allocator's own total."""
    changes = list(_changes(recording))
    if changes:
        phases = [phase for phase in PHASES if any(change[1] == phase for change in changes)]
        found = [_counter(LIVE, changes, process, origin_ns)]
        if len(phases) > 1:
            found += [
                _counter(f"{LIVE} from {phase}", [c for c in changes if c[1] == phase], process, origin_ns)
                for phase in phases
            ]
        return tuple(found)
    totals = recording.spans["live_bytes"]
    rows = np.flatnonzero(totals != NONE)
    if not len(rows):
        return ()
    rows = rows[np.argsort(recording.spans["end_ns"][rows], kind="stable")]
    times = recording.spans["end_ns"][rows] - origin_ns
    return (Counter(process, TOTAL, "bytes", *thinned(times, totals[rows])),)


def _changes(recording: Recording) -> Iterator[_Change]:
    """Takes and gives of memory whose allocation was recorded; a release of older memory says nothing here."""
    table = recording.allocations
    if not table or not len(table["time_ns"]):
        return
    phases = recording.text("phase")
    live: dict[int, tuple[str, int]] = {}
    order = np.argsort(table["time_ns"], kind="stable")
    for span, time, address, size in zip(*(table[n][order].tolist() for n in ("span", "time_ns", "address", "bytes"))):
        gone = live.pop(address, None)  # also when taken again: then its release was not recorded
        if gone is not None:
            yield time, gone[0], -gone[1]
        if size > 0:
            phase = (phases[span] if span != NONE else None) or HOST
            live[address] = (phase, size)
            yield time, phase, size


def _counter(name: str, changes: list[_Change], process: int, origin_ns: int) -> Counter:
    times = np.array([change[0] for change in changes], np.int64) - origin_ns
    values = np.cumsum(np.array([change[2] for change in changes], np.int64))
    return Counter(process, name, "bytes", *thinned(times, values))
