"""The parent's side of one worker: start, request with a time limit, pause, and end, whatever the worker does."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
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
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.scratch import SCRATCH_VARIABLE
from profkit.measurement.arrays import folder_prefixes, scratch_folder
from profkit.measurement.checks.contents import signature
from profkit.measurement.workers import protocol
from profkit.measurement.workers.descendants import Descendants, main_thread_s
from profkit.measurement.workers.protocol import Message
from profkit.measurement.workers.scheduling import Scheduling, is_raised, own_scheduling, restore, scheduling_of
from profkit.measurement.workers.times import Reading, WorkerTimes

# Pausing needs a worker that dies with its parent even while stopped: only Linux has supervisors.
CAN_PAUSE = HAS_SUPERVISOR = sys.platform == "linux"
LONGEST_END_S = 30.0
"""The system frees gigabytes of a killed process in a second or two."""
QUIET_LOOKS, QUIET_LOOK_S, QUIET_SHARE = 3, 0.01, 0.1
LONGEST_UNQUIET_S = 1.0
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


ENDED_BY = "ended by "
"""How the reason of a worker begins that a signal ended; the signal's name follows."""
LONGEST_OUTPUT = 64 << 10


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
    """The settings with which a worker's interpreter starts."""

    threads: int
    cores: Sequence[int]
    memory_limit_bytes: int | None = None
    python: str = sys.executable
    worker: str = "profkit.measurement.workers.operator"
    """The module whose `serve` answers requests."""


class WorkerProcess:
    """One implementation in its own process, its own session and its own thread settings."""

    def __init__(self, implementation: Implementation, settings: WorkerSettings) -> None:
        self.implementation = implementation
        self.deadline = 0.0
        self._limit_s = 0.0
        self._oom_kills = oom_kills()
        self._scratch = contextlib.ExitStack()
        scratch = self._scratch.enter_context(scratch_folder())
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._number, self._asked_for = 0, ""
        self._received, self._printed = b"", ""
        self.key = b""
        """The key with which native code in a candidate's worker signs its replies; empty for other workers."""
        self.is_native = False
        """Whether native code holds its calls on the CPU."""
        self._is_forged, self._asked_ns = False, 0
        self.unexplained_ns = 0
        """Of the last request: time that passed here and that the worker does not account for."""
        request_read, request_write = os.pipe()
        reply_read, reply_write = os.pipe()
        status_read, status_write = os.pipe()
        environment = dict(os.environ)
        environment.update({name: str(settings.threads) for name in THREAD_VARIABLES})
        environment.update(implementation.environment)
        environment[SCRATCH_VARIABLE] = scratch
        options = {
            "parent": os.getpid(),
            "cores": list(settings.cores),
            "memory_limit_bytes": settings.memory_limit_bytes,
            "package": str(Path(profkit.__file__).parent),
            "worker": settings.worker,
            "is_foreign": settings.python != sys.executable,
            "folders": folder_prefixes(),
            "read_fd": request_read,
            "write_fd": reply_write,
            "status_fd": status_write,
        }
        try:
            self.process = subprocess.Popen(
                [settings.python, "-c", protocol.BOOTSTRAP, json.dumps(options)],
                pass_fds=(request_read, reply_write, status_write),
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                env=environment,
                # Its own session: Ctrl-C on the terminal reaches the parent only, which ends workers in order.
                start_new_session=True,
            )
        except BaseException:  # at the end of its pipe one that Ctrl-C met half started ends by itself
            for descriptor in (request_write, reply_read, status_read):
                os.close(descriptor)
            self._errors.close()
            self._scratch.close()
            raise
        finally:
            for descriptor in (request_read, reply_write, status_write):
                os.close(descriptor)
        self.pid = 0
        """The worker itself, below its supervisor; known from its first words on."""
        self._requests: BinaryIO = os.fdopen(request_write, "wb")
        self._replies = reply_read
        os.set_blocking(reply_read, False)
        self._code: int | None = None
        mark = f"{SCRATCH_VARIABLE}={scratch}"
        self._below = Descendants(self.process.pid, mark) if HAS_SUPERVISOR else None
        self._cores = set(settings.cores)
        self._own_scheduling = own_scheduling()
        """Of this process before the worker could change it."""
        self._scheduling: dict[int, Scheduling] = {}
        """Of its threads when it was stopped; nothing may change that until it continues."""
        self.times = WorkerTimes()
        """Of itself and all that it started."""
        # Readable when the worker has died, even if a child it left behind still holds the other pipe.
        self._status = status_read

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that become readable when there may be an answer."""
        return [self._replies, self._status]

    def ask(self, limit_s: float, request: Message) -> None:
        """Send a request; the answer is fetched with `answer` when a descriptor is readable or time is over."""
        self._limit_s = limit_s
        self.deadline = time.monotonic() + limit_s
        self._is_forged = bool(self.key and self._number and self._has_unasked())
        # Nobody can prepare a reply to a number that is not known yet.
        self._number = 1 + secrets.randbits(52)
        self._asked_ns, self._asked_for = time.monotonic_ns(), request.get("do", "")
        # A dead worker does not take it: its pipe is then at its end, and `answer` will say so.
        with contextlib.suppress(OSError):
            protocol.send(self._requests, {"number": self._number, **request})

    def answer(self) -> Message | None:
        """The reply to the last request, None if it has not arrived; WorkerFailure for an error, death or garbage."""
        if self._is_forged:
            raise self._forgery("a reply without a request")
        ended = self._has_ended()  # looked at before reading: its last reply may be in the pipe
        while True:
            line, newline, rest = self._received.partition(b"\n")
            if newline:
                self._received = rest
                reply = self._parsed(self._without_signature(line))
                if HAS_SUPERVISOR and not self.pid:  # its first words, before any other code is there
                    self.pid = int(reply["worker"])
                elif reply.pop("number", None) == self._number:
                    spent_ns = reply.pop("spent_ns", 0)
                    spent_ns = spent_ns if isinstance(spent_ns, int) else 0
                    self.unexplained_ns = time.monotonic_ns() - self._asked_ns - spent_ns
                    if "error" in reply:
                        raise reported_failure(reply["error"])
                    if not protocol.has_valid_numbers(self._asked_for, reply):
                        raise WorkerFailure("crashed", "its process reports invalid times", alive=True)
                    return reply
                continue
            if len(self._received) > protocol.LONGEST_REPLY:
                self.kill()
                raise WorkerFailure("crashed", f"its process sent more than {protocol.LONGEST_REPLY >> 20} MiB")
            # A process that never stops sending must not keep this loop.
            if self._number and time.monotonic() >= self.deadline:
                return None
            try:
                piece = os.read(self._replies, 1 << 16)
            except BlockingIOError:
                if ended:
                    raise self._death() from None
                return None
            if not piece:
                raise self._death()
            self._received += piece

    def _has_unasked(self) -> bool:
        """Whether something came after the last reply."""
        with contextlib.suppress(OSError):
            self._received += os.read(self._replies, 1 << 16)
        return bool(self._received)

    def _without_signature(self, line: bytes) -> bytes:
        # The first words are those of the supervisor's child, before any other code is there.
        if not self.key or (HAS_SUPERVISOR and not self.pid):
            return line
        text, _, digits = line.rpartition(b" ")
        if digits != b"%016x" % signature(self.key, text):
            raise self._forgery("a reply that is not profkit's")
        return text

    def _forgery(self, what: str) -> WorkerFailure:
        self.kill()
        return WorkerFailure("wrong", f"its process sent {what}: it is forged")

    def _parsed(self, line: bytes) -> Message:
        try:
            return protocol.parse(line)
        except ValueError:
            self.kill()
            raise WorkerFailure("crashed", "the worker sent something that is not a reply") from None

    def out_of_time(self) -> WorkerFailure:
        """End the worker because its deadline is over."""
        self.kill()
        return WorkerFailure(
            "timeout", f"no answer within {self._limit_s:g} s (--timeout {2 * self._limit_s:g}s waits longer)"
        )

    def pause(self) -> None:
        """Stop every thread of the worker and of what it started, so that nothing computes while another is timed."""
        self._signal(signal.SIGSTOP)
        if self._below is not None and self._is_there():
            self._below.stop()
            self._scheduling = scheduling_of({self.pid, *self._below.pids})
            self.times.has_left_cores |= not all(each.cores <= self._cores for each in self._scheduling.values())
            self.times.is_raised |= is_raised(self._scheduling, self._own_scheduling)
            self.times.pause(self._reading(self._below))

    def resume(self) -> None:
        """Let the worker run again."""
        if self._below is not None and self._is_there():
            self._below.look()
            if restore(self._scheduling, scheduling_of({self.pid, *self._below.pids})):
                self.times.is_tampered_with = True
            self.times.resume(self._reading(self._below))
            self._below.resume()
        self._signal(signal.SIGCONT)

    def becomes_quiet(self) -> bool:
        """Let the idle worker finish work that its calls left running; whether nothing runs then.

        Threads of a pool may wait awake for a moment. True as well where the system does not report it.
        """
        if self._below is None or not self._is_there():
            return True
        self.resume()
        deadline, still = time.monotonic() + LONGEST_UNQUIET_S, 0
        while still < QUIET_LOOKS and time.monotonic() < deadline and self._is_there():
            before_s = self._below.cpu_s()
            time.sleep(QUIET_LOOK_S)
            self._below.look()
            is_still = self._below.cpu_s() - before_s < QUIET_SHARE * QUIET_LOOK_S and self._below.is_asleep()
            still = still + 1 if is_still else 0
        return still == QUIET_LOOKS

    def move_to_cores(self, cores: Sequence[int]) -> None:
        """Put every thread of the worker, and of what it started, onto these cores."""
        if not self._is_there():
            return
        self._cores, self._scheduling = set(cores), {}
        if self._below is not None:
            self._below.look()
        for pid in {self.pid, *(self._below.pids if self._below is not None else [])}:
            # A thread may end meanwhile, and not every system has affinity.
            with contextlib.suppress(OSError, AttributeError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(ProcessLookupError):
                        os.sched_setaffinity(int(task), cores)

    def kill(self) -> None:
        """End the worker and everything that it started; safe to call again."""
        self._end()
        self._printed = self.output()
        for stream in (self._requests, self._errors):
            with contextlib.suppress(OSError):
                stream.close()
        for descriptor in self.descriptors if self._replies >= 0 else []:
            os.close(descriptor)
        self._replies = self._status = -1
        self._scratch.close()
        self.pid = 0

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if HAS_SUPERVISOR:
                self.process.terminate()
                self.process.send_signal(signal.SIGCONT)  # the worker may have stopped it
            else:
                os.killpg(self.process.pid, signal.SIGKILL)
        # One that a driver keeps after its device was lost cannot be ended by anybody: it is left behind.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=LONGEST_END_S)
        if self._below is not None:
            self._below.kill()  # a worker may have ended its supervisor first

    @property
    def argv(self) -> list[str]:
        """The command line of its interpreter."""
        return [str(word) for word in self.process.args]  # type: ignore[union-attr]

    def output(self, most: int = LONGEST_OUTPUT) -> str:
        """The end of what the worker printed, to both streams; also after its end."""
        if self._errors.closed:
            return self._printed
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - most))
        return self._errors.read().decode(errors="replace")

    def last_lines(self, lines: int = 3) -> str:
        """The end of what the worker printed, for the reason of a crash."""
        text = self.output(4096)
        return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if CAN_PAUSE and self._is_there():
            with contextlib.suppress(ProcessLookupError):  # its death is reported by the next answer
                os.killpg(self.pid, number)

    def _is_there(self) -> bool:
        """The system may give the number of one that has ended to another process."""
        return self.pid > 0 and not self._has_ended()

    def _reading(self, below: Descendants) -> Reading:
        return Reading(time.monotonic(), below.cpu_s(), main_thread_s(self.pid))

    def _has_ended(self, wait_s: float = 0.0) -> bool:
        """Whether the worker has ended, with which code if its supervisor says so: what it started may still live."""
        if self._status < 0:
            return True
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        if self._code is None and poll.poll(1000 * wait_s):
            said = os.read(self._status, 16)
            self._code = int(said) if said else self.process.poll()
            return True
        return self._code is not None

    def _death(self) -> WorkerFailure:
        """The cause of a worker's death; one that only closed its pipe is ended here."""
        # A process that is just ending closes its pipe a moment before it is gone.
        if self._has_ended(wait_s=1.0) and self._code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._code = self.process.wait(timeout=1.0)
        code = self._code
        words = self.last_lines()
        said = f": {words}" if words else ""
        self._end()
        if code is None:
            return WorkerFailure("crashed", f"the worker closed its pipe and went on{said}")
        if code >= 0:
            return WorkerFailure("crashed", f"the process ended with exit code {code}{said}")
        name = signal.Signals(-code).name
        if -code == signal.SIGKILL and oom_kills() > self._oom_kills:
            return WorkerFailure("oom", "killed by the system because memory ran out")
        if "bad_alloc" in words or "MemoryError" in words:
            return WorkerFailure("oom", f"{ENDED_BY}{name}{said}")
        return WorkerFailure("crashed", f"{ENDED_BY}{name}{said}")


def reported_failure(error: object) -> WorkerFailure:
    """The failure that a worker reports; a user's code may have changed the code that reports it."""
    status, reason = (error.get("status"), error.get("reason")) if isinstance(error, dict) else (None, None)
    if status in protocol.FAILURES and isinstance(reason, str):
        return WorkerFailure(str(status), reason[: protocol.LONGEST_TEXT], alive=True)
    return WorkerFailure("crashed", f"its process reports an invalid error: {str(error)[:200]}", alive=True)


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
