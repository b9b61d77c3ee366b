"""Tuning tasks: profkit's kernels, by key and device, for a spec; and the choice that is stored.

On a CPU that is the sizes of a kernel's blocks, on a CUDA device its launch configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from profkit.errors import UsageError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Adapter, Implementation
from profkit.frameworks.native.tuned import Choice, counted_threads
from profkit.measurement.selection import availability_of, matches, unmatched
from profkit.measurement.tuner.search import Tunable, TuningOutcome, TuningTask
from profkit.ops.spec import Spec

TUNED_BACKENDS = ("native", "native_cuda")


class TunedAdapter(Adapter, Protocol):
    """An adapter whose kernels leave something to choose."""

    def tunables(self, implementation: Implementation, spec: Spec, threads: int) -> list[dict[str, Any]]:
        """Name, default and candidates of each choice; empty without any for this spec."""
        ...

    def fingerprint(self, implementation: Implementation) -> dict[str, str]:
        """The device and build to which a choice for this kernel applies."""
        ...


@dataclass(frozen=True)
class Refusal:
    """A kernel that cannot be tuned for a spec, with the status and reason that its row would have."""

    key: str
    spec: Spec
    status: str
    reason: str


def tunable_kernels(op: str, only: Sequence[str], device: str) -> list[Implementation]:
    """Native kernels that the patterns and the device name; a pattern that names none is a UsageError."""
    rows = [item for backend in TUNED_BACKENDS for item in load_adapter(backend).implementations(op)]
    known = [item for item in rows if not item.forms]  # they are tuned as the kernel that they are forms of
    keys = [implementation.key for implementation in known]
    for pattern in only:
        if not any(matches(key, pattern) for key in keys):
            raise UsageError(unmatched(pattern, keys, "--dry-run"))
    named = [item for item in known if not only or any(matches(item.key, pattern) for pattern in only)]
    found = [item for item in named if device in ("all", item.device)]
    if not found:
        devices = ", ".join(sorted({item.device for item in named}))
        raise UsageError(f"{op} has no native kernel on {device} among those named; there is {devices or 'none'}")
    return found


def find_tasks(kernels: Sequence[Implementation], spec: Spec, threads: int) -> tuple[list[TuningTask], list[Refusal]]:
    """The tasks that can be tuned here; a kernel without anything to choose is neither a task nor a refusal."""
    tasks, refusals = [], []
    for kernel in kernels:
        status, reason = availability_of(kernel, spec, {})
        if status:
            refusals.append(Refusal(kernel.key, spec, status, reason))
            continue
        found = [Tunable(**tunable) for tunable in _adapter(kernel.adapter).tunables(kernel, spec, threads)]
        if any(tunable.candidates for tunable in found):
            tasks.append(TuningTask(kernel.key, kernel.adapter, spec, threads, found, kernel.options))
    return tasks, refusals


def choice_of(outcome: TuningOutcome) -> Choice:
    """The stored choice, including that the default is best."""
    task = outcome.task
    row, default = outcome.row_of(outcome.chosen), outcome.row_of({})
    measured = {
        "default_ns": default.median_ns if default else None,
        "tuned_ns": row.median_ns if row else None,
        "ratio": [row.ratio, row.ratio_low, row.ratio_high] if row else None,
        "reason": outcome.reason,
    }
    fingerprint = _adapter(task.adapter).fingerprint(Implementation(task.key, task.adapter))
    threads = counted_threads(task.key, task.threads)
    return Choice(task.key, task.spec.to_dict(), threads, fingerprint, outcome.chosen, measured)


def _adapter(name: str) -> TunedAdapter:
    return cast(TunedAdapter, load_adapter(name))
