"""How a cell ended: a Run in, its status and reason out, and whether what ran is what was requested."""

from __future__ import annotations

import json
from typing import Any

from profkit.capture.run import Run
from profkit.measurement.network_run import NetworkRequest
from profkit.measurement.paging import MAJOR_FAULTS, SWAP_BYTES, SWAPPED_PAGES
from profkit.measurement.workers.process import ENDED_BY

OK, OOM, TIMEOUT, FAILED, KILLED, STOPPED = "ok", "oom", "timeout", "failed", "killed", "stopped"
SKIPPED, SWAPPED = "skipped", "swapped"
UNAVAILABLE, UNSUPPORTED, WRONG, DIVERGED = "unavailable", "unsupported", "wrong", "diverged"
MEASURED = (OK, SWAPPED)
"""With numbers; those of a cell that swapped are told, and part of no ratio."""
_NAMES = {"crashed": FAILED, "interrupted": STOPPED}
"""What a Run calls it."""
_FROM_OUTSIDE = tuple(f"{ENDED_BY}{signal}" for signal in ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"))


def status_of(run: Run) -> tuple[str, str]:
    """The status of a cell and its reason."""
    if run.status == OK and (swapped := swap_reason(run)):
        return SWAPPED, swapped
    if run.status == "crashed" and run.reason.startswith(_FROM_OUTSIDE):
        return KILLED, run.reason
    return _NAMES.get(run.status, run.status), run.reason


def swap_reason(run: Run) -> str:
    """What of its memory was in swap, or came back from there, during its steps; empty when nothing did."""
    machines = [process["machine"] for process in run.processes]
    held = max((machine.get(SWAP_BYTES, 0.0) for machine in machines), default=0.0)
    if held:
        return f"{held / 2**20:.1f} MiB of its memory were in swap during the steps"
    for machine in machines:
        pages = machine.get(SWAPPED_PAGES, 0.0)
        if pages and (faults := machine.get(MAJOR_FAULTS, 0.0)):
            return f"it waited {faults:,.0f} times for a page from disk while the machine swapped {pages:,.0f} pages"
    return ""


def differences_of(request: NetworkRequest, run: Run, learns: bool) -> list[str]:
    """In what the run differs from its request, by what its process says that it ran; empty when in nothing."""
    expected: dict[str, Any] = {
        "network": request.network.to_dict(),
        "framework": request.framework,
        "mode": request.conditions.mode,
        "threads": request.threads,
        "processors": request.threads,
        "training": request.is_training or learns,
        "optimizer": request.training.field_values() if request.is_training or learns else None,
    }
    expected = json.loads(json.dumps(expected))  # as the process's words came: a tuple is a list
    found = [
        f"{name}: {expected[name]} requested, {value} ran"
        for worker in run.workers
        for name, value in worker["ran"].items()
        if name in expected and value is not None and value != expected[name]
    ]
    if not learns and run.step_ns and len(run.step_ns) % request.steps:
        found.append(f"steps: {len(run.step_ns)} were timed, not a multiple of {request.steps}")
    return list(dict.fromkeys(found))
