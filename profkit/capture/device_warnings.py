"""What was lost or left out of a GPU's activity: processes and their counts in, sentences for people out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.capture.schema import ActivityKind, Capture, Process

UNKNOWN_KINDS = "records of the GPU are of kinds that this profkit does not know: they are left out"


def device_warnings(processes: Sequence[Process], counts: Sequence[Mapping[str, int]]) -> list[str]:
    """Why the GPU was not recorded, or what is missing; nothing for programs that use none."""
    sentences = []
    states = [_about_cupti(process) for process in processes]
    for process, cupti, count in zip(processes, states, counts):
        if cupti.get("message"):
            sentences.append(f"process {process.pid}: {cupti['message']}")
        if cupti.get("state") == "open" and not count["entries"]:
            sentences.append(f"process {process.pid}: CUPTI was open, but gave no record: did the program use the GPU?")
        if count["entries"] and count["clock_error_ns"] < 0:
            sentences.append(
                f"process {process.pid}: {count['entries']:,} records of the GPU are left out: no reading of its clock "
                "reached the file"
            )

    def add(name: str, what: str) -> None:
        number = sum(count[name] for count in counts)
        if number:
            sentences.append(f"{number:,} {what}")

    add("dropped_by_cupti", "records of the GPU were lost by CUPTI: its buffers were not taken fast enough")
    add("dropped_too_slow", "records of the GPU were lost: the disk did not keep up")
    add("unfinished", "kernels or copies without an end are left out: still running at the end, or not timed by CUPTI")
    add("cut_records", "records of the GPU were cut short by CUPTI: they are left out")
    add("unknown_records", UNKNOWN_KINDS)
    add("clock_steps", "times the GPU's clock was set while recording: kernels around these moments may be misplaced")
    return sentences


def launch_warnings(capture: Capture) -> list[str]:
    """For each process that launched kernels and has none: CUPTI can fail silently."""
    calls, activities = capture.calls, capture.activities
    if not len(calls):
        return []
    is_launch = np.array([*("LaunchKernel" in text for text in capture.strings), False])[calls.name]
    is_launch &= calls.return_code == 0
    has_kernel = set(activities.process[activities.kind == ActivityKind.KERNEL].tolist())
    sentences = []
    processes, counts = np.unique(calls.process[is_launch], return_counts=True)
    for process, count in zip(processes.tolist(), counts.tolist()):
        if process not in has_kernel:
            sentences.append(
                f"process {capture.processes[process].pid}: {count:,} launches of kernels succeeded, but CUPTI gave "
                "no record of a kernel: either they went into a graph that never ran, or CUPTI does not work here"
            )
    return sentences


def _about_cupti(process: Process) -> Mapping[str, Any]:
    about = process.description.get("cupti")
    return about if isinstance(about, dict) else {}
