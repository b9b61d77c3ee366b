"""The report of a file: a capture or a run in; its tables, with the text around them, out.

The text around the table of a GPU is made here.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.attribution.account import DEVICES, STEPS, THREADS, clocks_of
from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.gaps import GapTable, layer_gaps
from profkit.attribution.metrics import TIME_PASS
from profkit.attribution.passes import usage_of
from profkit.attribution.usage import Usage
from profkit.capture.run import Run
from profkit.capture.schema import KINETO, NSIGHT, PROFKIT, Capture
from profkit.rendering.quantities import percent_text, plural, time_text
from profkit.rendering.tables.table import Table
from profkit.rendering.terminal import visible
from profkit.rendering.usage.content import View, build_table, step_surroundings, surroundings, warning_lines
from profkit.rendering.usage.gaps import EXPLAINED, gap_table
from profkit.rendering.usage.networks import failure_lines, network_surroundings, network_title, run_lines
from profkit.rendering.usage.repeats import repeat_table

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


# --- Around the table of a GPU ---


def device_surroundings(capture: Capture, usage: Usage) -> Table:
    """The recording, the division of the GPUs' wall clock, and notes; the table is in between."""
    dropped = capture.losses.device
    return Table(
        _device_title(capture, usage),
        _time_lines(usage),
        losses=[f"{dropped:,} records were dropped while recording"] if dropped else [],
        warnings=warning_lines(capture),
        instead=_instead(usage),
        notes=[*usage.notes, *_reading_notes(usage)],
    )


def _device_title(capture: Capture, usage: Usage) -> str:
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
        return ["GPU: sum of durations; tile and transposes are those in the kernels' names"]
    own = "own: share of the GPUs' wall clock; own and the lines below the rows add up to it"
    return [f"GPU: sum of durations; {own}"]


# --- Reports ---

_AROUND = {THREADS: surroundings, STEPS: step_surroundings, DEVICES: device_surroundings}


@dataclass(frozen=True)
class Report:
    """Tables of usage, each with its surroundings, and a run's distance from the baseline."""

    opened: Capture | Run
    usages: Sequence[tuple[Table, Usage]]
    gaps: GapTable | None = None

    def tables(self, view: View, explained: float = EXPLAINED) -> list[Table]:
        """As they are printed: those of steps show one step."""
        tables = [build_table(mean_of_steps(usage), view, around) for around, usage in self.usages]
        repeats = [repeat_table(self.opened)] if isinstance(self.opened, Run) and self.opened.repeats else []
        gaps = [gap_table(self.gaps, explained, view.top if explained else None)] if self.gaps else []
        return [*tables, *gaps, *repeats]


def report_of(opened: Capture | Run, by: str | None = None, **choice: Any) -> Report:
    """The table by one of its groupings; without one, a program that used a GPU or ran steps has tables of them, too.

    `choice` are the further arguments of usage_of. A run that recorded nothing has no tables.
    """
    if isinstance(opened, Run):
        if opened.capture(TIME_PASS) is None:
            return Report(opened, [])
        usage = usage_of(opened, by, **choice)
        gaps = layer_gaps(opened) if opened.baseline else None
        return Report(opened, [(network_surroundings(opened, usage), usage)], gaps)
    usage = usage_of(opened, by, **choice)
    usages = [(_AROUND[usage.clock](opened, usage), usage)]
    for clock in clocks_of(opened)[1:] if by is None and choice.get("clock") is None else ():
        if clock == STEPS or (clock == DEVICES and len(opened.activities)):
            more = usage_of(opened, clock=clock)
            # Losses and damage are reported above the first.
            usages.append((replace(_AROUND[clock](opened, more), losses=[], warnings=[]), more))
    return Report(opened, usages)


def without_table(run: Run) -> Table:
    """The description of a run that ended before anything was recorded."""
    facts = run_lines(run) if run.step_ns or run.error is not None else ["nothing was measured"]
    return Table(network_title(run), facts, losses=failure_lines(run) or ["nothing was recorded"])
