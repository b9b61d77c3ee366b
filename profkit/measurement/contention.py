"""CPU contention: two readings of the system's clocks in, their share of the time out.

A load average covers the last minute and profkit's own work; these counters show what ran during a measurement.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

SHORTEST_S = 0.5
"""The clocks count hundredths of a second: readings closer together say nothing."""


@dataclass(frozen=True)
class ProcessorClocks:
    """Times of some processors since the system started, in seconds."""

    at_s: float
    processors: int
    busy_s: float
    """In anything: profkit, other programs, the kernel."""
    stolen_s: float
    """Taken by other guests of the same host."""


@dataclass(frozen=True)
class ProcessorUse:
    """A reading, in seconds."""

    at_s: float
    processors: int
    all_s: float  # these processors, in anything: other programs, the kernel, other guests of the same host
    own_s: float  # one process


def processor_clocks(cpus: Collection[int]) -> ProcessorClocks | None:
    """Read the clocks of some processors; None where the system has none."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return None
    wanted = {f"cpu{cpu}" for cpu in cpus}
    rows = [line.split() for line in lines]
    # user nice system idle iowait irq softirq steal; what guests use is part of user.
    found = [[int(ticks) for ticks in row[1:9]] for row in rows if row and row[0] in wanted]
    if len(found) != len(wanted) or any(len(row) < 8 for row in found):
        return None
    busy, stolen = sum(sum(row[:3]) + sum(row[5:7]) for row in found), sum(row[7] for row in found)
    second = os.sysconf("SC_CLK_TCK")
    return ProcessorClocks(time.monotonic(), len(found), busy / second, stolen / second)


def processor_use(pid: int, cpus: Collection[int]) -> ProcessorUse | None:
    """Read the clocks of some processors and of a process that runs on them; None where the system has none."""
    clocks = processor_clocks(cpus)
    try:
        # After the name, which may hold anything, the times are the 12th and 13th number.
        own = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    if clocks is None:
        return None
    own_s = (int(own[11]) + int(own[12])) / os.sysconf("SC_CLK_TCK")
    return ProcessorUse(clocks.at_s, clocks.processors, clocks.busy_s + clocks.stolen_s, own_s)


def others_share(before: ProcessorUse | None, after: ProcessorUse | None) -> float | None:
    """How much of the processors' time between two readings others took, from 0 to 1; None when it is not known."""
    if before is None or after is None or after.at_s - before.at_s < SHORTEST_S:
        return None
    own = after.own_s - before.own_s
    if own <= 0.0:
        return None  # a process that ran must have used some: this system does not count
    share = (after.all_s - before.all_s - own) / (before.processors * (after.at_s - before.at_s))
    return min(1.0, max(0.0, share))
