"""CPU time of the threads that help the calling one: the pools of BLAS, Numba and profkit's own kernels. Linux.

Read from each thread's own clock. The process's clock less the caller's does not do: the kernel brings the time of
other running threads up to date only at its ticks, milliseconds apart, so a pool that is still busy or spins when an
operator ends is missed or counted at the next one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

NOTE = (
    "pool CPU time is read from the clock of every other thread, around each operator; waiting that spins is part of it"
)


def helper_threads() -> list[int]:
    """Ids of all threads of this process but the calling one; none where the system does not list them."""
    if sys.platform != "linux":
        return []
    return sorted({int(name) for name in os.listdir("/proc/self/task")} - {threading.get_native_id()})


def cpu_clock(threads: list[int]) -> Callable[[], int]:
    """A function that gives the CPU time of these threads together, about 0.7 us each."""
    read = time.clock_gettime_ns
    clocks = [cpu_clock_of(thread) for thread in threads]
    if not clocks:
        return lambda: 0
    if len(clocks) == 1:
        [only] = clocks
        return lambda: read(only)
    return lambda: sum([read(clock) for clock in clocks])


def pool_notes(threads: list[int]) -> list[str]:
    """How pool time was read, and whether threads appeared whose time is missing."""
    late = len(set(helper_threads()) - set(threads))
    return [NOTE, *([f"{late} threads began while the steps were recorded: their time is missing"] if late else [])]


def cpu_clock_of(thread: int) -> int:
    """What pthread_getcpuclockid gives for a thread of this id: its own CPU clock, in scheduler time."""
    return (~thread << 3) | 6
