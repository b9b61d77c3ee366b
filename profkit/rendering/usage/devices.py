"""What a report of a GPU trace says around its table: a Capture and its Usage in, texts out as data."""

from __future__ import annotations

import os
from collections import Counter

from profkit.attribution.usage import Usage
from profkit.capture.schema import KINETO, NSIGHT, PROFKIT, Capture
from profkit.rendering.quantities import percent_text, time_text
from profkit.rendering.tables.table import Table
from profkit.rendering.terminal import visible
from profkit.rendering.usage.content import plural, warning_lines

_RECORDERS = {KINETO: "torch.profiler", NSIGHT: "Nsight Systems", PROFKIT: "CUPTI"}
_WORK = {"kernel_ns": "kernels", "auxiliary_ns": "auxiliary kernels", "copy_ns": "copies"}
_IDLE = {
    "dispatch_ns": "host code",
    "call_ns": "CUDA calls",
    "sync_ns": "synchronisation",
    "queue_ns": "launched but not begun",
    "outside_ns": "host in no range",
    "unknown_ns": "launch not recorded",
}


def device_surroundings(capture: Capture, usage: Usage) -> Table:
    """What was recorded, where the GPUs' wall clock went, and notes; the table stands in between."""
    dropped = capture.losses.device
    return Table(
        _title(capture, usage),
        _time_lines(usage),
        losses=[f"{dropped:,} records were dropped while recording"] if dropped else [],
        warnings=warning_lines(capture),
        instead=_instead(usage),
        notes=[*usage.notes, *_reading_notes(usage)],
    )


def _title(capture: Capture, usage: Usage) -> str:
    subject = usage.subject or {}
    models = Counter(str(each.get("name", "")) for each in subject.get("devices", ()))
    known = [f"{count} x {name}" if count > 1 else name for name, count in models.items() if name]
    devices = plural(usage.devices or 0, "GPU") if usage.devices else "no GPU activity"
    steps = subject.get("steps", 0)
    facts = [
        _RECORDERS.get(capture.recorder, capture.recorder),
        devices + (f" ({', '.join(known)})" if known else ""),
        plural(len(capture.processes), "process", "processes"),
        plural(len(capture.threads), "thread"),
        *([plural(steps, "step")] if steps else []),
        f"{time_text(usage.elapsed_ns)} elapsed",
    ]
    return f"{visible(os.path.basename(capture.path))}: {', '.join(filter(None, facts))}"


def _time_lines(usage: Usage) -> list[str]:
    """The whole wall clock in its parts."""
    parts = usage.parts or {}
    if not usage.devices:
        return []
    work = [_part(name, parts.get(key, 0), usage) for key, name in _WORK.items() if parts.get(key)]
    idle_ns = usage.wall_ns - sum(parts.get(key, 0) for key in _WORK)
    idle = [_part(name, parts.get(key, 0), usage) for key, name in _IDLE.items() if parts.get(key)]
    clock = f"wall clock of {plural(usage.devices, 'GPU')}, {time_text(usage.wall_ns)}"
    return [
        f"{clock}: {', '.join([*work, _part('idle', idle_ns, usage)])}",
        *([f"idle: {', '.join(idle)}"] if idle else []),
    ]


def _part(name: str, time_ns: int, usage: Usage) -> str:
    share = percent_text(100.0 * time_ns / usage.wall_ns) if usage.wall_ns else ""
    return f"{name} {time_text(time_ns)} ({share})"


def _instead(usage: Usage) -> list[str]:
    if usage.rows:
        return []
    if usage.by == "layer":
        sources = "torch.profiler.record_function, nn.Module frames (with_stack), FSDP's hooks or NVTX ranges"
        return [f"no layers were recorded: they come from {sources} around operators"]
    if usage.by == "phase":
        return ["no phases were recorded: they come from autograd, optimisers and ranges named after them"]
    what = {"gemm": "no matrix product", "copy": "no copy", "operator": "no range on the host"}
    return [f"{what.get(usage.by, 'no GPU activity')} was recorded"]


def _reading_notes(usage: Usage) -> list[str]:
    if not usage.devices:
        return []
    if usage.by == "launch":
        return ["GPU: sum of durations; ?: the launch was not recorded, or is in no operator"]
    if usage.by == "gemm":
        return ["GPU: sum of durations; tile and transposes are those that the kernels' names tell"]
    own = "own: share of the GPUs' wall clock; own and the lines below the rows add up to it"
    return [f"GPU: sum of durations; {own}"]
