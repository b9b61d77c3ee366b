"""A worker is watched while it runs: who takes more resident memory than allowed is ended at once.

RLIMIT_AS and control groups do not serve here: the first counts addresses, of which torch reserves many times what it
uses, the second need rights that few containers give. A control group's limit that is there already is respected.
"""

from __future__ import annotations

import select
import time

from profkit.measurement.environment import free_memory_bytes
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess
from profkit.measurement.workers.protocol import Message

LOOK_S = 0.004
MACHINE_LOOKS = 8
"""The whole machine's memory is looked at once in so many looks."""


class MemoryWatch:
    """Looks at a worker's resident memory, swap included, and at the machine's."""

    def __init__(self, limit_bytes: int, reserve_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._reserve_bytes = reserve_bytes
        self._looks = 0
        self.peak_bytes = 0
        """The most that was seen."""

    def ask(self, worker: WorkerProcess, limit_s: float, request: Message) -> Message:
        """The reply; raises WorkerFailure, with status oom for a worker that was ended here."""
        worker.ask(limit_s, request)
        while True:
            select.select(worker.descriptors, [], [], LOOK_S)
            reply = worker.answer()
            if reply is not None:
                return reply
            if time.monotonic() >= worker.deadline:
                raise worker.out_of_time()
            self._look(worker)

    def _look(self, worker: WorkerProcess) -> None:
        held = resident_with_swap(worker.pid)
        self.peak_bytes = max(self.peak_bytes, held)
        if held > self._limit_bytes:
            self._end(worker, f"ended with {_mib(held)} resident, above {_mib(self._limit_bytes)}")
        self._looks += 1
        free = free_memory_bytes() if self._looks % MACHINE_LOOKS == 0 else None
        if free is not None and free < self._reserve_bytes:
            self._end(worker, f"ended because this machine had no more than {_mib(free)} free")

    def _end(self, worker: WorkerProcess, why: str) -> None:
        worker.kill()
        raise WorkerFailure("oom", why)


def resident_with_swap(pid: int) -> int:
    """Of a process, 0 when it is gone or not known yet."""
    held = 0
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith((b"VmRSS:", b"VmSwap:")):
                    held += 1024 * int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return held


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
