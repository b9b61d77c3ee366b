"""The workers of one thread count: on which cores, with which limits; they live from cell to cell."""

from __future__ import annotations

import secrets
import sys
from dataclasses import asdict
from pathlib import Path

from profkit.frameworks import is_candidate
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.measurement.cores import cores_for, usable_cpus
from profkit.measurement.options import MeasureOptions
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings
from profkit.measurement.workers.requests import wait_for_one


class WorkerPool:
    """The workers of one thread count; they live from cell to cell, so that a framework is imported once."""

    def __init__(self, options: MeasureOptions, threads: int) -> None:
        self.options = options
        self.threads = threads
        self.cores = cores_for(threads)
        self.workers: dict[str, WorkerProcess] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.has_lost_device = False
        """A new process found no CUDA device after a row had run there; a later cell tries again."""

    def start_cores(self, position: int) -> list[int]:
        """Separate cores while several workers start or prepare at once; as many as when they are timed."""
        cpus = usable_cpus()
        offset = position * self.threads % len(cpus)
        return [*cpus[offset:], *cpus[:offset]][: self.threads]

    def start(self, implementation: Implementation, position: int) -> WorkerProcess:
        """Start a worker and ask it to import its framework."""
        python = self.options.interpreters.get(implementation.framework, sys.executable)
        limit = self.options.memory_limit_bytes
        # The flush buffer is not the framework's.
        limit = limit + max(map(flush_bytes, self.options.cache)) if limit else None
        settings = WorkerSettings(self.threads, self.start_cores(position), limit, python)
        worker = WorkerProcess(implementation, settings)
        self.workers[implementation.key] = worker
        request = {
            "do": "start",
            "key": implementation.key,
            "adapter": implementation.adapter,
            "options": dict(implementation.options),
            "conditions": asdict(Conditions(self.threads, tuned=self.options.tuned)),
        }
        worker.is_native = python == sys.executable
        if worker.is_native and is_candidate(implementation.key):
            worker.key = secrets.token_bytes(16)
            request["secret"] = worker.key.hex()
        worker.ask(self.options.timeout_s, request)
        return worker

    def replace(self, implementation: Implementation) -> WorkerFailure | None:
        """Restart a failed worker at once; the failure if that is impossible."""
        self.drop(implementation.key)
        try:
            worker = self.start(implementation, 0)
            self.versions[implementation.key] = wait_for_one(worker)["versions"]
        except WorkerFailure as failure:
            self.drop(implementation.key)
            return failure
        except OSError as error:
            return WorkerFailure("crashed", f"the worker could not be started: {error}")
        worker.pause()
        return None

    def drop(self, key: str) -> None:
        """End a worker that failed; a later cell starts it again."""
        worker = self.workers.pop(key, None)
        self.versions.pop(key, None)
        if worker is not None:
            worker.kill()

    def close(self) -> None:
        """End all workers."""
        for key in list(self.workers):
            self.drop(key)


def flush_bytes(cache: str) -> int:
    """The size that a worker writes to flush the caches: twice the largest one, at least 64 MiB; nothing when hot."""
    if cache == "hot":
        return 0
    sizes = [64 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = path.read_text().strip()
        units = {"K": 1 << 10, "M": 1 << 20}
        sizes.append(2 * int(text.rstrip("KM")) * units.get(text[-1:], 1))
    return max(sizes)
