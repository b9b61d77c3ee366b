"""One batch in a process of its own: built, run, watched, and what it took."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from profkit.frameworks.adapter import Implementation
from profkit.frameworks.environments import interpreter_for
from profkit.frameworks.networks import load_builder
from profkit.measurement.arrays import scratch_folder
from profkit.measurement.cores import cores_for
from profkit.measurement.largest_batch.fit import BlockRecord
from profkit.measurement.largest_batch.request import PLAIN, MaxBatchRequest, Trial
from profkit.measurement.largest_batch.watch import MemoryWatch
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings

START_S = 120.0
DATA_FACTOR = 2
"""Times the limit, of data, is what the kernel itself refuses: it counts what is not resident, too, of which TensorFlow
has hundreds of megabytes."""
STEADY_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""The C library gives larger blocks back at once. By itself it raises this bound up to 32 MiB: what is resident then
depends on the gaps of its heap, and differs by a tenth between two runs of the same steps.
"""


@dataclass(frozen=True)
class Outcome:
    """A trial, with what is needed of it for the fit."""

    trial: Trial
    record: BlockRecord | None
    versions: dict[str, str]


def run_trial(request: MaxBatchRequest, batch: int, role: str, limit_bytes: int, reserve_bytes: int) -> Outcome:
    """A failure is the trial's status, whatever it was."""
    watch = MemoryWatch(limit_bytes, reserve_bytes)
    conditions = request.conditions
    trial, record, versions = Trial(batch, role), None, {}
    worker = _worker(request, {} if role == PLAIN else heap_of(request))
    try:
        started = watch.ask(
            worker,
            max(START_S, request.timeout_s),
            {
                "do": "start",
                "framework": request.framework,
                "threads": conditions.threads,
                "mode": conditions.mode,
                "is_training": conditions.is_training,
                "training": conditions.training.field_values(),
            },
        )
        base, versions = int(started["resident_bytes"]), started["versions"]
        trial = Trial(batch, role, base_bytes=base)
        with scratch_folder() as folder:
            path = os.path.join(folder, "allocations.npz")
            ran = watch.ask(
                worker,
                request.timeout_s,
                {
                    "do": "run",
                    "network": request.network_of(batch).to_dict(),
                    "steps": request.steps,
                    "data_bytes": max(0, DATA_FACTOR * limit_bytes - base),
                    "path": path,
                },
            )
            record = _record(path, ran["names"]) if ran["names"] else None
        trial = Trial(
            batch,
            role,
            base_bytes=base,
            resident_bytes=max(ran["peak_resident_bytes"] or watch.peak_bytes, base),
            allocator_bytes=None if record is None else record.peak_bytes,
        )
    except WorkerFailure as failure:
        trial = Trial(batch, role, failure.status, failure.reason, trial.base_bytes)
    finally:
        worker.kill()
    return Outcome(trial, record, versions)


def heap_of(request: MaxBatchRequest) -> dict[str, str]:
    """Variables of the C library."""
    return dict(STEADY_HEAP) if request.has_steady_heap else {}


def _worker(request: MaxBatchRequest, heap: Mapping[str, str]) -> WorkerProcess:
    conditions = request.conditions
    builder = load_builder(request.framework)
    key = f"{request.network.name}/{request.framework}/cpu/{conditions.mode}"
    settings = WorkerSettings(
        request.threads,
        cores_for(request.threads),
        python=request.python or interpreter_for(request.framework),
        worker="profkit.measurement.workers.memory",
    )
    variables = {**heap, **builder.environment(conditions)}
    return WorkerProcess(Implementation(key, request.framework, environment=variables), settings)


def _record(path: str, names: list[str]) -> BlockRecord:
    with np.load(path) as arrays:
        where = [names[place] for place in arrays["where"].tolist()]
        return BlockRecord(arrays["bytes"], arrays["block"], where, int(arrays["begin"]))
