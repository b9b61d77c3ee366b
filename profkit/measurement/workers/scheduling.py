"""On which processors and with which priority threads may run: what a candidate could change, of others too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Scheduling:
    """Of one thread."""

    cores: frozenset[int]
    nice: int
    policy: int


def scheduling_of(pids: Iterable[int]) -> dict[int, Scheduling]:
    """Of all threads of these processes, by their numbers; empty where the system does not report it."""
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError, AttributeError):
            for thread in map(int, os.listdir(f"/proc/{pid}/task")):
                with contextlib.suppress(ProcessLookupError):
                    cores = frozenset(os.sched_getaffinity(thread))
                    nice = os.getpriority(os.PRIO_PROCESS, thread)
                    found[thread] = Scheduling(cores, nice, os.sched_getscheduler(thread))
    return found


def own_scheduling() -> Scheduling:
    """Of this process's threads; cores and policy only where the system has them."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    policy = os.sched_getscheduler(0) if hasattr(os, "sched_getscheduler") else 0
    return Scheduling(frozenset(cores), os.getpriority(os.PRIO_PROCESS, 0), policy)


def is_raised(threads: Mapping[int, Scheduling], own: Scheduling) -> bool:
    """Whether one of them goes before threads that are scheduled as `own`."""
    return any(each.nice < own.nice or each.policy not in (own.policy, *_NO_BETTER) for each in threads.values())


def restore(before: Mapping[int, Scheduling], now: Mapping[int, Scheduling]) -> list[int]:
    """Restore cores and priority of threads for which they were changed; returns these threads."""
    changed = [thread for thread, each in now.items() if thread in before and each != before[thread]]
    for thread in changed:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(thread, before[thread].cores)
            os.setpriority(os.PRIO_PROCESS, thread, before[thread].nice)
            if before[thread].policy in _NO_BETTER:  # others have a priority of their own, which is not known here
                os.sched_setscheduler(thread, before[thread].policy, os.sched_param(0))
    return changed


_NO_BETTER = tuple(getattr(os, name) for name in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE") if hasattr(os, name))
