"""What there is to tune: kernels of profkit's own, by key and device, for a spec; and the choice that is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profkit.backends.adapter import Implementation
from profkit.backends.native import ADAPTER
from profkit.backends.tuned import Choice
from profkit.errors import UsageError
from profkit.measurement.cell import standing
from profkit.measurement.selection import matches, unmatched
from profkit.measurement.tuning import Outcome, Task, Tunable
from profkit.ops.spec import Spec


@dataclass(frozen=True)
class Refusal:
    """A kernel that cannot be tuned for a spec, with the status and reason that its row would have."""

    key: str
    spec: Spec
    status: str
    reason: str


def tunable_kernels(op: str, only: Sequence[str], device: str) -> list[Implementation]:
    """Native kernels that the patterns and the device name; a pattern that names none is a UsageError."""
    known = list(ADAPTER.implementations(op))
    keys = [implementation.key for implementation in known]
    for pattern in only:
        if not any(matches(key, pattern) for key in keys):
            raise UsageError(unmatched(pattern, keys))
    named = [item for item in known if not only or any(matches(item.key, pattern) for pattern in only)]
    found = [item for item in named if device in ("all", item.device)]
    if not found:
        devices = ", ".join(sorted({item.device for item in named}))
        raise UsageError(f"{op} has no native kernel on {device} among those named; there is {devices or 'none'}")
    return found


def find_tasks(kernels: Sequence[Implementation], spec: Spec, threads: int) -> tuple[list[Task], list[Refusal]]:
    """What can be tuned here; a kernel without anything to choose is neither a task nor a refusal."""
    tasks, refusals = [], []
    for kernel in kernels:
        status, reason = standing(kernel, spec, {})
        if status:
            refusals.append(Refusal(kernel.key, spec, status, reason))
            continue
        found = [Tunable(**tunable) for tunable in ADAPTER.tunables(kernel, spec, threads)]
        if any(tunable.candidates for tunable in found):
            tasks.append(Task(kernel.key, kernel.adapter, spec, threads, found))
    return tasks, refusals


def choice_of(outcome: Outcome) -> Choice:
    """What is kept: also that the default is best."""
    task = outcome.task
    row, default = outcome.row_of(outcome.chosen), outcome.row_of({})
    measured = {
        "default_ns": default.median_ns if default else None,
        "tuned_ns": row.median_ns if row else None,
        "ratio": [row.ratio, row.ratio_low, row.ratio_high] if row else None,
        "reason": outcome.reason,
    }
    fingerprint = ADAPTER.fingerprint(Implementation(task.key, task.adapter))
    return Choice(task.key, task.spec.to_dict(), task.threads, fingerprint, outcome.chosen, measured)
