"""The processes below a worker's supervisor, in any session: found at every turn, stopped and continued with it.

The supervisor is their subreaper, so orphans stay below it. Looking through all of /proc at every turn would cost more
than the turn: the system says which process number it gave last (/proc/loadavg), so only younger ones are looked at.
Linux only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass

FULL_SCAN_S, FULL_SCAN_SHARE = 1.0, 0.02
"""All of /proc is looked through again after this long, and for at most this share of the time: numbers can come round,
and who may write to /proc/sys/kernel/ns_last_pid chooses them.
"""
LONGEST_STOP_S = 0.2
"""A process in the kernel stops when it leaves it; one that waits for a device may not do so for long."""
_STOPPED = "TtZX"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True)
class ProcessFacts:
    """What /proc/<pid>/stat says."""

    state: str
    parent: int
    children_s: float
    """Processor time of children that have ended and were waited for."""
    start: int
    """In ticks: with the number it names a process for ever."""


class Descendants:
    """Those of one supervisor that live, the worker among them."""

    def __init__(self, root: int, mark: str = "") -> None:
        self._root = root
        self._mark = os.fsencode(mark)
        """A variable of their environment, as NAME=value, that no other process has."""
        self._known: dict[int, int] = {}
        """Their starts, by number."""
        self._looked_up_to = self._second_look_from = 0
        self._next_full_s = 0.0
        self._is_told = True
        """Whether new processes have had the numbers that the system reported."""

    @property
    def pids(self) -> list[int]:
        """As found by the last look."""
        return list(self._known)

    def look(self) -> list[int]:
        """Find those that were started since the last look, and forget those that ended; the new ones."""
        for pid, start in list(self._known.items()):
            found = process_facts(pid)
            if found is None or found.start != start:
                del self._known[pid]
        found_now: dict[int, ProcessFacts] = {}
        numbers, told = self._numbers()
        for pid in numbers:
            facts = process_facts(pid) if pid not in self._known else None
            if facts is not None and facts.state not in "ZX":
                found_now[pid] = facts
        new: list[int] = []
        while below := [pid for pid, facts in found_now.items() if self._is_below(facts)]:
            for pid in below:
                facts = found_now.pop(pid)
                if _is_process(pid):
                    self._known[pid] = facts.start
                    new.append(pid)
        self._is_told &= told is None or all(pid in told for pid in new)
        return new

    def stop(self) -> None:
        """Stop all, and what they started meanwhile; when this returns, none of them runs."""
        deadline = time.monotonic() + LONGEST_STOP_S
        while True:
            self.look()
            running = [pid for pid in self._known if not is_stopped(pid)]
            if not running:
                # A process that one of them was just starting when it was stopped exists now.
                if not self.look():
                    return
                continue
            if time.monotonic() > deadline:
                return
            send_signal(signal.SIGSTOP, running)
            os.sched_yield()

    def resume(self) -> None:
        """Let all run again."""
        send_signal(signal.SIGCONT, self._known)

    def kill(self) -> None:
        """End those that live, when their supervisor is gone: its number may be another's by now.

        Orphans of a supervisor that was killed are no longer below anything known; their environment names them.
        """
        self._root = 0
        deadline = time.monotonic() + LONGEST_STOP_S
        while True:
            is_new = self._find_marked()
            self.stop()
            send_signal(signal.SIGKILL, self._known)
            if not is_new or time.monotonic() > deadline:
                return

    def is_asleep(self) -> bool:
        """Whether no thread of them runs or waits for a processor."""
        return all(state not in "RD" for pid in self._known for state in thread_states(pid))

    def cpu_s(self) -> float:
        """Processor time of all, those that have ended and were waited for included."""
        return sum(map(process_cpu_s, self._known)) + sum(map(_children_s, (self._root, *self._known)))

    def _find_marked(self) -> bool:
        """Whether there are processes with the mark that were not known; they are now."""
        if not self._mark:
            return False
        before = len(self._known)
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            if pid not in self._known and self._mark in _environment(pid):
                facts = process_facts(pid)
                if facts is not None:
                    self._known[pid] = facts.start
        return len(self._known) > before

    def _is_below(self, facts: ProcessFacts) -> bool:
        return facts.parent > 0 and (facts.parent == self._root or facts.parent in self._known)

    def _numbers(self) -> tuple[Iterable[int], range | None]:
        """The processes to check, and the numbers assigned since the check before the last, if the system reports them.

        Not since the last: a number is given a moment before its process is seen.
        """
        last, now_s = last_pid(), time.monotonic()
        begin, self._second_look_from, self._looked_up_to = self._second_look_from, self._looked_up_to, last or 0
        told = range(begin + 1, last + 1) if last is not None and 0 < begin <= last else None
        if told is not None and self._is_told and now_s < self._next_full_s:
            return told, told
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        self._next_full_s = now_s + max(FULL_SCAN_S, len(numbers) * 15e-6 / FULL_SCAN_SHARE)
        return numbers, told


def last_pid() -> int | None:
    """The last number assigned to a process or thread; None where the system does not report it."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return None


def process_facts(pid: int) -> ProcessFacts | None:
    """Of a process or thread; None without one."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # After the program's name, which may hold anything.
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return ProcessFacts(words[0].decode(), int(words[1]), (int(words[13]) + int(words[14])) / _TICKS, int(words[19]))


def is_stopped(pid: int) -> bool:
    """Whether no thread of a process can run, because it is stopped or has ended."""
    return all(state in _STOPPED for state in thread_states(pid))


def thread_states(pid: int) -> list[str]:
    """Of all threads of a process; none when it is gone."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [facts.state for thread in threads if (facts := process_facts(int(thread))) is not None]


def process_cpu_s(pid: int) -> float:
    """Processor time of a process, threads that have ended included; 0 when it is gone."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # the system's own number of that process's clock
    return 0.0


def main_thread_s(pid: int) -> float:
    """Processor time of a process's first thread; 0 where the system does not report it."""
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[0]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def send_signal(number: int, pids: Iterable[int]) -> None:
    """A signal to each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _environment(pid: int) -> list[bytes]:
    """With which a process, or the one that it was forked from, was started; empty for another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _children_s(pid: int) -> float:
    facts = process_facts(pid)
    return 0.0 if facts is None else facts.children_s


def _is_process(pid: int) -> bool:
    """Whether it is a process, not a thread of another: /proc shows both."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return any(line == b"Tgid:\t%d\n" % pid for line in file)
    except OSError:
        return False
