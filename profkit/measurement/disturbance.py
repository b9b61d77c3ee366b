"""What disturbed a round: run delay of the workers' threads, stolen time, processor time that others took.

Input: clocks of the system, read between turns. Output: the rounds to drop, with the reason. Times of calls are never
looked at.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit import _core
from profkit.capture.busy_machine import STOLEN_SHARE
from profkit.measurement.contention import SHORTEST_S, ProcessorClocks, processor_clocks

LONGEST_DELAY = 0.02
"""Of a turn, that the worker's threads may have waited for a processor."""
OTHERS_SHARE = 0.04
"""Of a window. Threads also wait for each other: a delay only counts where others took so much of the processors."""
SPARED_SHARE, BURDENED_SHARE, LEAST_TURNS = 0.02, 0.15, 20
"""Where others take less of a row's turns, and more of all others', that is not due to chance: turns change every few
hundredths of a second.
"""
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
class OthersTurn:
    """What was neither idle nor ours during the turn of a row."""

    key: str
    others_s: float
    whole_s: float
    """Of all its processors."""


@dataclass(frozen=True)
class LoadWindow:
    """What the processors did meanwhile."""

    begin_s: float
    end_s: float
    others_share: float
    stolen_share: float


def dropped_rounds(turns: Sequence[Turn], windows: Sequence[LoadWindow]) -> dict[str, list[int]]:
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


def spared(key: str, turns: Sequence[OthersTurn]) -> tuple[float, float] | None:
    """The share that others took of a row's turns and of all other turns, where they spared the row's; else None.

    The clocks count hundredths of a second: single turns say nothing, the sum of many does.
    """
    own, rest = ([turn for turn in turns if (turn.key == key) == is_own] for is_own in (True, False))
    if min(len(own), len(rest)) < LEAST_TURNS:
        return None
    shares = [sum(turn.others_s for turn in side) / sum(turn.whole_s for turn in side) for side in (own, rest)]
    return (max(0.0, shares[0]), shares[1]) if shares[0] < SPARED_SHARE and shares[1] > BURDENED_SHARE else None


def window_of(before: ProcessorClocks, after: ProcessorClocks, own_s: float) -> LoadWindow:
    """Between two readings, in which profkit itself took `own_s` of processor time."""
    whole = before.processors * (after.at_s - before.at_s)
    others = (after.busy_s - before.busy_s - own_s) / whole
    stolen = (after.stolen_s - before.stolen_s) / whole
    return LoadWindow(before.at_s, after.at_s, *(min(1.0, max(0.0, share)) for share in (others, stolen)))


class DisturbanceWatch:
    """Reads the clocks around every turn of one cell."""

    def __init__(self, cpus: Collection[int]) -> None:
        self._cpus = cpus
        self._threads: dict[int, ThreadTimes] = {}
        """Of each worker after its last turn; it is stopped until the next."""
        self._turns: list[Turn] = []
        self._windows: list[LoadWindow] = []
        self.others_turns: list[OthersTurn] = []
        self._own_s = 0.0
        self._lacks_schedstat = False
        self._mhz: list[float] = []
        self._round_trips_ns: list[float] = []
        self._first = self._last = processor_clocks(cpus)
        self._first_own_s = self._last_own_s = self._own()

    @contextlib.contextmanager
    def turn(
        self,
        pid: int,
        index: int,
        is_timed_here: bool = True,
        used_s: Callable[[], float] | None = None,
        key: str = "",
    ) -> Iterator[None]:
        """Around the turn of a worker; a device that times its own work does not wait for the host's processors.

        `used_s` is the processor time of the worker with all that it started; without it that of its threads counts.
        What others used in the turn is kept by the row's `key`.
        """
        before, used_before_s = self._threads.get(pid) or thread_times(pid), used_s() if used_s else 0.0
        clocks = processor_clocks(self._cpus) if key and used_s else None
        own_before_s = self._own()
        begin_s = time.monotonic()
        yield
        end_s = time.monotonic()
        after = thread_times(pid)
        if before is None or after is None:
            self._lacks_schedstat = True
        else:
            self._threads[pid] = after
            ran_s, delay_s = spent(before, after)
            self._own_s += used_s() - used_before_s if used_s else ran_s
            now = processor_clocks(self._cpus) if clocks is not None else None
            if clocks is not None and now is not None:
                others_s = now.busy_s - clocks.busy_s - (self._own() - own_before_s)
                whole_s = now.processors * (now.at_s - clocks.at_s)
                self.others_turns.append(OthersTurn(key, others_s, whole_s))
            if is_timed_here:
                self._turns.append(Turn(index, begin_s, end_s, delay_s))
        if self._last is not None and end_s - self._last.at_s >= SHORTEST_S:
            self._close_window()

    def _close_window(self) -> None:
        now, own_s = processor_clocks(self._cpus), self._own()
        if self._last is not None and now is not None:
            self._windows.append(window_of(self._last, now, own_s - self._last_own_s))
        self._last, self._last_own_s = now, own_s
        mhz = clock_mhz(min(self._cpus))
        self._mhz += [mhz] if mhz is not None else []
        round_trip_ns = _core.round_trip_ns(*sorted(self._cpus)[:2]) if len(self._cpus) > 1 else 0.0
        self._round_trips_ns += [round_trip_ns] if round_trip_ns else []

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
        if self._first is not None and now is not None and now.at_s - self._first.at_s >= SHORTEST_S:
            whole = window_of(self._first, now, self._own() - self._first_own_s)
            found |= {"stolen_share": whole.stolen_share}
            found |= {} if self._lacks_schedstat else {"others_share": whole.others_share}
        found |= {"least_mhz": min(self._mhz), "most_mhz": max(self._mhz)} if self._mhz else {}
        if len(self._round_trips_ns) > 1:
            tenths = statistics.quantiles(self._round_trips_ns, n=10, method="inclusive")
            found |= {"low_round_trip_ns": tenths[0], "round_trip_ns": tenths[4], "high_round_trip_ns": tenths[8]}
        return found

    def not_watched(self) -> list[str]:
        """What this system does not report."""
        if self._first is None:
            return [NO_CLOCKS]
        return [NO_RUN_DELAY] if self._lacks_schedstat else []


ThreadTimes = dict[int, tuple[int, int]]
"""By thread: nanoseconds that it ran, and that it waited for a processor."""


def thread_times(pid: int) -> ThreadTimes | None:
    """Of all threads of a process; None where the system does not report it."""
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
    """A processor's clock now; None where the system does not report it, as in most virtual machines."""
    try:
        return int(Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").read_text()) / 1000.0
    except (OSError, ValueError):
        return None
