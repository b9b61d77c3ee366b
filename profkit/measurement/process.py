"""The parent's side of one worker: start, ask with a time limit, pause, and end, whatever the worker does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import profkit
from profkit.backends.adapter import Implementation
from profkit.measurement import protocol
from profkit.measurement.protocol import Message

# Pausing needs a worker that dies with its parent even while stopped; only Linux offers that.
CAN_PAUSE = sys.platform == "linux"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class WorkerFailure(Exception):  # noqa: N818 - the outcome of a row, not an error of profkit
    """A worker gave up or was given up; carries the status and reason of its row."""

    def __init__(self, status: str, reason: str, *, alive: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.alive = alive
        """The worker answered with an error and can take the next request."""


@dataclass(frozen=True)
class WorkerSettings:
    """What is fixed when a worker's interpreter starts."""

    threads: int
    cores: Sequence[int]
    memory_limit_bytes: int | None = None
    python: str = sys.executable


class WorkerProcess:
    """One implementation in its own process, its own session and its own thread settings."""

    def __init__(self, implementation: Implementation, settings: WorkerSettings) -> None:
        self.implementation = implementation
        self.deadline = 0.0
        self._limit_s = 0.0
        self._oom_kills = oom_kills()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        request_read, request_write = os.pipe()
        reply_read, reply_write = os.pipe()
        for descriptor in (request_read, reply_write):
            os.set_inheritable(descriptor, True)
        environment = dict(os.environ)
        environment.update({name: str(settings.threads) for name in THREAD_VARIABLES})
        environment.update(implementation.environment)
        options = {
            "parent": os.getpid(),
            "cores": list(settings.cores),
            "memory_limit_bytes": settings.memory_limit_bytes,
            "package": str(Path(profkit.__file__).parent),
            "read_fd": request_read,
            "write_fd": reply_write,
        }
        try:
            self.process = subprocess.Popen(
                [settings.python, "-c", protocol.BOOTSTRAP, json.dumps(options)],
                pass_fds=(request_read, reply_write),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=environment,
                # Its own session: Ctrl-C on the terminal reaches the parent only, which ends workers in order.
                start_new_session=True,
            )
        finally:
            os.close(request_read)
            os.close(reply_write)
        self._requests: BinaryIO = os.fdopen(request_write, "wb")
        self.replies: BinaryIO = os.fdopen(reply_read, "rb")

    def ask(self, limit_s: float, request: Message) -> None:
        """Send a request; the reply is fetched with `answer` when `replies` is readable or the deadline is over."""
        self._limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        # A dead worker does not take it: `replies` is then at its end, and `answer` will say so.
        with contextlib.suppress(OSError):
            protocol.send(self._requests, request)

    def answer(self) -> Message:
        """The reply to the last request; raises WorkerFailure for an error, a death or garbage."""
        try:
            reply = protocol.receive(self.replies)
        except ValueError:
            raise WorkerFailure("crashed", "the worker sent something that is not a reply") from None
        if reply is None:
            raise self._death()
        if "error" in reply:
            raise WorkerFailure(reply["error"]["status"], reply["error"]["reason"], alive=True)
        return reply

    def out_of_time(self) -> WorkerFailure:
        """End the worker because its deadline is over."""
        self.kill()
        return WorkerFailure(
            "timeout", f"no answer within {self._limit_s:g} s (--timeout {2 * self._limit_s:g}s waits longer)"
        )

    def pause(self) -> None:
        """Stop every thread of the worker, so that no idle pool spins while another worker is measured."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the worker run again."""
        self._signal(signal.SIGCONT)

    def move_to_cores(self, cores: Sequence[int]) -> None:
        """Put every thread of the worker onto these cores."""
        # A thread may end meanwhile, and not every system has affinity.
        with contextlib.suppress(OSError, AttributeError):
            for task in os.listdir(f"/proc/{self.process.pid}/task"):
                os.sched_setaffinity(int(task), cores)

    def kill(self) -> None:
        """End the worker and everything it started; safe to call again."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self._requests, self.replies, self._errors):
            with contextlib.suppress(OSError):
                stream.close()

    def last_words(self, lines: int = 3) -> str:
        """The end of what the worker printed, for the reason of a crash."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 4096))
        text = self._errors.read().decode(errors="replace")
        return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if CAN_PAUSE:
            with contextlib.suppress(ProcessLookupError):  # its death is reported by the next answer
                os.killpg(self.process.pid, number)

    def _death(self) -> WorkerFailure:
        code = self.process.wait()
        words = self.last_words()
        said = f": {words}" if words else ""
        if code >= 0:
            return WorkerFailure("crashed", f"the process ended with exit code {code}{said}")
        name = signal.Signals(-code).name
        if -code == signal.SIGKILL and oom_kills() > self._oom_kills:
            return WorkerFailure("oom", "killed by the system because memory ran out")
        if "bad_alloc" in words or "MemoryError" in words:
            return WorkerFailure("oom", f"ended by {name}{said}")
        return WorkerFailure("crashed", f"ended by {name}{said}")


def oom_kills() -> int:
    """How often the kernel has killed for lack of memory, in this control group or machine-wide."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            text = Path(path).read_text()
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
