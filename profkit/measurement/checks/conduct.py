"""Whether a row kept to its turns and its threads: processor time of its worker and of all that this started.

Input: a worker's times before and after each turn, and what its samples say they took. Output: doubts, as sentences.
"""

from __future__ import annotations

from dataclasses import dataclass

from profkit.measurement.workers.times import WorkerTimes

LEAST_S = 0.01
"""Less processor time than this is not a doubt: clocks are read a moment before and after a worker is stopped."""
PAUSED_SHARE = 0.01
"""Of the time that it was paused."""
MORE_PROCESSORS = 1.05
"""Times its threads. A worker that keeps to its cores cannot use more."""
SLOWER_WARM_UP = 3.0
"""Untimed calls at the start of a turn meet caches that others have used and threads that sleep."""
MORE_THAN_TIMED = 1.25
SLACK_S = 0.001
"""In each turn."""
LEAST_SHARE = 0.1
"""Of its turns' time, that threads used beside its calls."""


@dataclass
class Conduct:
    """Sums over the turns of one row, in seconds."""

    ran_s: float = 0.0
    cpu_s: float = 0.0
    beside_s: float = 0.0
    """Processor time of other threads and processes than the one that makes the calls, which these do not explain."""
    has_left_cores: bool = False
    is_raised: bool = False
    is_tampered_with: bool = False
    """By others: not its own fault."""
    paused_s: float = 0.0
    paused_cpu_s: float = 0.0

    def take(self, before: WorkerTimes, after: WorkerTimes, timed_s: float, warm_s: float, threads: int) -> None:
        """One turn, and the pause before it."""
        ran_s, cpu_s = after.ran_s - before.ran_s, after.cpu_s - before.cpu_s
        helpers_s = max(0.0, cpu_s - (after.main_s - before.main_s))
        self.ran_s += ran_s
        self.cpu_s += cpu_s
        self.beside_s += max(0.0, helpers_s - explained_s(ran_s, timed_s, warm_s, threads))
        self.has_left_cores |= after.has_left_cores
        self.is_raised |= after.is_raised
        self.is_tampered_with |= after.is_tampered_with
        self.paused_s += after.paused_s - before.paused_s
        self.paused_cpu_s += after.paused_cpu_s - before.paused_cpu_s

    @property
    def processors(self) -> float | None:
        """How many it kept busy during its turns, on average; None where the system does not report it."""
        return self.cpu_s / self.ran_s if self.ran_s > 0.0 and self.cpu_s > 0.0 else None

    def doubts(self, threads: int) -> list[str]:
        """Why its times cannot be compared; empty when they can."""
        found = []
        if self.paused_cpu_s > max(LEAST_S, PAUSED_SHARE * self.paused_s):
            share = 100.0 * self.paused_cpu_s / max(self.paused_s, LEAST_S)
            found.append(
                f"processes that it started used {1e3 * self.paused_cpu_s:.0f} ms of processor time while it was "
                f"paused and others were timed ({share:.0f} % of that time)"
            )
        if self.has_left_cores:
            found.append("its threads left the processors that they were given")
        if self.is_raised:
            found.append("its threads have a higher priority than those of other rows")
        if self.cpu_s > MORE_PROCESSORS * threads * self.ran_s + LEAST_S:
            found.append(
                f"it kept {self.cpu_s / self.ran_s:.1f} processors busy in its turns, where {threads} thread"
                f"{' was' if threads == 1 else 's were'} requested"
            )
        if self.beside_s > max(LEAST_S, LEAST_SHARE * self.ran_s):
            share = 100.0 * self.beside_s / self.ran_s
            found.append(
                f"its other threads or processes computed beside the timed calls, for {share:.0f} % of its turns' time"
            )
        return found


def explained_s(ran_s: float, timed_s: float, warm_s: float, threads: int) -> float:
    """Allowed time of helpers in a turn: the calls on all threads, and pools that spin between calls on all but one."""
    calls_s = MORE_THAN_TIMED * timed_s + SLOWER_WARM_UP * warm_s
    return threads * calls_s + (threads - 1) * max(0.0, ran_s - calls_s) + SLACK_S
