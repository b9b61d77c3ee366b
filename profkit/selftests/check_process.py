"""Workers of the selftest: one process per group of checks, each request with a time limit, the whole with another."""

from __future__ import annotations

import time
from collections.abc import Mapping

from profkit.frameworks.adapter import Implementation
from profkit.measurement.cores import usable_cpus
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings, oom_kills
from profkit.measurement.workers.protocol import Message
from profkit.measurement.workers.requests import ask_one
from profkit.selftests.findings import NOT_PROVEN, WRONG

START_S = 60.0
"""Longest start of an interpreter, or of a driver that brings its devices up."""
OUT_OF_TIME = "out of time"


LACKING = ("unavailable", "oom", OUT_OF_TIME)
"""Failures that say nothing of profkit: there was no device, no memory or no time."""


def status_of(failure: WorkerFailure) -> tuple[str, str]:
    """Of what ended with this failure, and its reason: what hung, died or raised is wrong."""
    if failure.status in LACKING:
        return NOT_PROVEN, failure.reason
    return WRONG, f"{failure.status}: {failure.reason}"


class TimeLimit:
    """How long one request may take, and all of them together."""

    def __init__(self, request_s: float, all_s: float | None) -> None:
        self.request_s = request_s
        self.all_s = all_s
        self._end = None if all_s is None else time.monotonic() + all_s

    def left_s(self) -> float:
        """Of the whole; WorkerFailure when nothing is."""
        left = float("inf") if self._end is None else self._end - time.monotonic()
        if left <= 0.0:
            raise self.over()
        return left

    def over(self) -> WorkerFailure:
        """The message for all checks that were not run."""
        return WorkerFailure(OUT_OF_TIME, f"the {self.all_s:g} s of a selftest were over (--full has no limit)")


class CheckProcess:
    """A worker process that is started at the first request, and again after a failure."""

    def __init__(
        self, name: str, environment: Mapping[str, str], threads: int, limit: TimeLimit, uses_device: bool = False
    ) -> None:
        self._implementation = Implementation(name, "", environment=environment)
        self._settings = WorkerSettings(threads, usable_cpus(), worker="profkit.selftests.worker")
        self._limit = limit
        self._uses_device = uses_device
        self._oom_kills = 0
        self._worker: WorkerProcess | None = None

    def ask(self, request: Message, limit_s: float | None = None) -> Message:
        """The answer; WorkerFailure when it is an error, or the process died or did not answer in time."""
        if self._worker is None:
            self._start()
        return self._ask(request, limit_s or self._limit.request_s)

    def _start(self) -> None:
        self._limit.left_s()
        self._oom_kills = oom_kills()
        try:
            self._worker = WorkerProcess(self._implementation, self._settings)
        except OSError as error:
            raise WorkerFailure("crashed", f"the worker could not be started: {error}") from None
        try:
            self._ask({"do": "start", "uses_device": self._uses_device}, START_S)
        except WorkerFailure as failure:
            if failure.status != "timeout":
                raise
            # Nothing of profkit's has run yet.
            what = "a new process and its device" if self._uses_device else "a new process"
            raise WorkerFailure("unavailable", f"{what} did not start within {START_S:g} s") from None

    def _ask(self, request: Message, limit_s: float) -> Message:
        left_s = self._limit.left_s()
        assert self._worker is not None
        try:
            return ask_one(self._worker, min(limit_s, left_s), request)
        except WorkerFailure as failure:
            failure = self._classified(failure, request)
            self.close()  # what went wrong may stick to the process, as an error of a CUDA device does
            raise self._limit.over() if failure.status == "timeout" and left_s < limit_s else failure from None

    def _classified(self, failure: WorkerFailure, request: Message) -> WorkerFailure:
        """A CPU kernel that runs out of memory requested too much for its small shapes, unless the system had none."""
        if failure.status != "oom" or request["do"] != "run_kernel" or self._uses_device:
            return failure
        is_short = oom_kills() > self._oom_kills
        return failure if is_short else WorkerFailure("crashed", f"{failure.reason}, though the system has memory")

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
