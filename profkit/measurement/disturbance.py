"""What disturbed a round: run delay of the workers' threads, stolen time, processor time that others took.

Enters: clocks of the system, read between turns. Leaves: the rounds to drop, with the reason. Times of calls are never
looked at.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.measurement.contention import ProcessorClocks, processor_clocks

WINDOW_S = 0.5
"""The processors' clocks count hundredths of a second: they are compared over at least this long."""
LONGEST_DELAY = 0.02
"""Of a turn, that the worker's threads may have waited for a processor."""
OTHERS_SHARE, STOLEN_SHARE = 0.04, 0.02
"""Of a window. Threads also wait for each other: a delay only counts where others took so much of the processors."""
BUSY_SHARE = 0.05
"""Of a whole run, from which on the machine is called busy."""
RUN_DELAY, STOLEN = "run delay", "stolen time"
NO_RUN_DELAY = "run delay was not watched: this system has no /proc/<pid>/task/<tid>/schedstat"
NO_CLOCKS = "run delay and stolen time were not watched: this system's /proc/stat has no clocks of these processors"


@dataclass(frozen=True)
class Turn:
    """One worker's part of a round."""

    index: int
    begin_s: float
    end_s: float
    delay_s: float
    """What its threads waited for a processor."""


@dataclass(frozen=True)
class Window:
    """What the processors did meanwhile."""

    begin_s: float
    end_s: float
    others_share: float
    stolen_share: float


def dropped_rounds(turns: Sequence[Turn], windows: Sequence[Window]) -> dict[str, list[int]]:
    """Rounds by what disturbed them; each once."""
    stolen, delayed = set(), set()
    for turn in turns:
        around = [window for window in windows if window.begin_s < turn.end_s and turn.begin_s < window.end_s]
        if any(window.stolen_share > STOLEN_SHARE for window in around):
            stolen.add(turn.index)
        is_late = turn.delay_s > LONGEST_DELAY * (turn.end_s - turn.begin_s)
        if is_late and any(window.others_share > OTHERS_SHARE for window in around):
            delayed.add(turn.index)
    found = {RUN_DELAY: sorted(delayed), STOLEN: sorted(stolen - delayed)}
    return {reason: rounds for reason, rounds in found.items() if rounds}


def window_of(before: ProcessorClocks, after: ProcessorClocks, own_s: float) -> Window:
    """Between two readings, in which profkit itself took `own_s` of processor time."""
    whole = before.processors * (after.at_s - before.at_s)
    others = (after.busy_s - before.busy_s - own_s) / whole
    stolen = (after.stolen_s - before.stolen_s) / whole
    return Window(before.at_s, after.at_s, *(min(1.0, max(0.0, share)) for share in (others, stolen)))


class DisturbanceWatch:
    """Reads the clocks around every turn of one cell."""

    def __init__(self, cpus: Collection[int]) -> None:
        self._cpus = cpus
        self._threads: dict[int, ThreadTimes] = {}
        """Of each worker after its last turn; it is stopped until the next."""
        self._turns: list[Turn] = []
        self._windows: list[Window] = []
        self._own_s = 0.0
        self._lacks_schedstat = False
        self._mhz: list[float] = []
        self._first = self._last = processor_clocks(cpus)
        self._first_own_s = self._last_own_s = self._own()

    @contextlib.contextmanager
    def turn(self, pid: int, index: int, is_timed_here: bool = True) -> Iterator[None]:
        """Around the turn of a worker; a device that times its own work does not wait for the host's processors."""
        before = self._threads.get(pid) or thread_times(pid)
        begin_s = time.monotonic()
        yield
        end_s = time.monotonic()
        after = thread_times(pid)
        if before is None or after is None:
            self._lacks_schedstat = True
        else:
            self._threads[pid] = after
            ran_s, delay_s = spent(before, after)
            self._own_s += ran_s
            if is_timed_here:
                self._turns.append(Turn(index, begin_s, end_s, delay_s))
        if self._last is not None and end_s - self._last.at_s >= WINDOW_S:
            self._close_window()

    def _close_window(self) -> None:
        now, own_s = processor_clocks(self._cpus), self._own()
        if self._last is not None and now is not None:
            self._windows.append(window_of(self._last, now, own_s - self._last_own_s))
        self._last, self._last_own_s = now, own_s
        mhz = clock_mhz(min(self._cpus))
        self._mhz += [mhz] if mhz is not None else []

    def _own(self) -> float:
        return self._own_s + time.process_time()

    def dropped(self) -> dict[str, list[int]]:
        """Rounds to leave out, so far."""
        if self._last is not None and time.monotonic() > self._last.at_s:
            self._close_window()
        return dropped_rounds(self._turns, self._windows)

    def facts(self) -> dict[str, float]:
        """What is known of the whole time."""
        found = {"load": os.getloadavg()[0]}
        now = processor_clocks(self._cpus)
        if self._first is not None and now is not None and now.at_s - self._first.at_s >= WINDOW_S:
            whole = window_of(self._first, now, self._own() - self._first_own_s)
            found |= {"stolen_share": whole.stolen_share}
            found |= {} if self._lacks_schedstat else {"others_share": whole.others_share}
        return found | ({"least_mhz": min(self._mhz), "most_mhz": max(self._mhz)} if self._mhz else {})

    def not_watched(self) -> list[str]:
        """What this system does not tell."""
        if self._first is None:
            return [NO_CLOCKS]
        return [NO_RUN_DELAY] if self._lacks_schedstat else []


ThreadTimes = dict[int, tuple[int, int]]
"""By thread: nanoseconds that it ran, and that it waited for a processor."""


def thread_times(pid: int) -> ThreadTimes | None:
    """Of all threads of a process; None where the system does not tell."""
    found: ThreadTimes = {}
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # a thread may end meanwhile
                ran, waited = Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[:2]
                found[int(task)] = int(ran), int(waited)
    except (OSError, ValueError):
        return None
    return found or None


def spent(before: ThreadTimes, after: ThreadTimes) -> tuple[float, float]:
    """Seconds that the threads ran and waited between two readings; new threads count from their start."""
    differences = [
        tuple(new - old for new, old in zip(times, before.get(task, (0, 0)))) for task, times in after.items()
    ]
    return sum(each[0] for each in differences) * 1e-9, sum(each[1] for each in differences) * 1e-9


def clock_mhz(cpu: int) -> float | None:
    """A processor's clock now; None where the system does not tell, as in most virtual machines."""
    try:
        return int(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text()) / 1000.0
    except (OSError, ValueError):
        return None
