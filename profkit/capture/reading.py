"""Capture files: a path goes in, the tables come out. What is damaged is left out and named in the warnings."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from profkit.capture.tables import Allocations, Capture, Losses, Process, Ranges, Samples, Threads

if TYPE_CHECKING:
    from profkit._core import CaptureContent, CaptureProcess


def read(path: str | os.PathLike[str], running: Collection[int] = ()) -> Capture:
    """The capture in this file; one that is still being written is read up to its present end.

    `running` are processes known to be alive, so that their missing end is not taken for a crash.
    CaptureError when the file is no capture or cannot be read at all.
    """
    from profkit import _core

    name = os.fspath(path)
    content = _core.read_capture(name)
    processes = tuple(_process(entry) for entry in content["processes"])
    return Capture(
        path=name,
        created_unix_ns=content["created_unix_ns"],
        strings=tuple(content["strings"]),
        processes=processes,
        threads=Threads(**content["threads"]),
        ranges=Ranges(**content["ranges"]),
        allocations=Allocations(**content["allocations"]),
        samples=Samples(**content["samples"]),
        losses=_losses(content["counters"]),
        warnings=(*content["warnings"], *_missing_ends(processes, content, running)),
    )


def _losses(counters: dict[str, int]) -> Losses:
    return Losses(
        records=counters["dropped_records"],
        disk_full=counters["dropped_disk_full"],
        too_slow=counters["dropped_too_slow"],
        too_deep=counters["dropped_too_deep"],
        stalled_ns=counters["stalled_ns"],
    )


def _process(entry: CaptureProcess) -> Process:
    about = _description(entry["description"])
    command = about.get("command")
    return Process(
        pid=_integer(about.get("pid")),
        parent_pid=_integer(about.get("parent_pid")),
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        clock=str(about.get("clock", "unknown")),
        start_ns=entry["start_ns"],
        end_ns=entry["end_ns"],
        has_ended=entry["has_ended"],
        empty_range_ns=entry["empty_range_ns"],
        clock_read_ns=entry["clock_read_ns"],
        cross_core_skew_ns=entry["cross_core_skew_ns"],
        clock_drift_ppm=entry["clock_drift_ppm"],
        clock_error_ns=entry["clock_error_ns"],
        frees_of_unknown=entry["frees_of_unknown"],
        description=about,
    )


def _description(text: str) -> dict[str, Any]:
    """What the process wrote about itself; empty when that is damaged, so that its events are still shown."""
    try:
        about = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _missing_ends(processes: Sequence[Process], content: CaptureContent, running: Collection[int]) -> list[str]:
    """Sentences about processes that were killed, that run on, or that never wrote a block."""
    sentences = []
    unended = [process.pid for process in processes if not process.has_ended]
    alive = [str(pid) for pid in unended if pid in running]
    if alive:
        subject = f"process {alive[0]} is" if len(alive) == 1 else f"{len(alive)} processes ({_shortened(alive)}) are"
        sentences.append(f"{subject} still running; what is recorded from now on is not shown here")
    killed = [str(pid or "(unknown)") for pid in unended if pid not in running]
    if killed:
        one = len(killed) == 1
        subject = f"process {killed[0]}" if one else f"{len(killed)} processes ({_shortened(killed)})"
        rest = f"{'its' if one else 'their'} last moments may be missing"
        sentences.append(f"{subject} did not end in order: killed, crashed or still running; {rest}")
    silent = content["counters"]["processes_started"] - len(processes)
    if silent > 0:
        noun = "process" if silent == 1 else "processes"
        sentences.append(f"{silent} {noun} started recording and left nothing in the file")
    return sentences


def _shortened(names: Sequence[str], limit: int = 5) -> str:
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
