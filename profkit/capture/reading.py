"""Capture files: a path goes in, the tables come out. What is damaged is left out and named in the warnings."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from profkit.capture.checked_json import parse_json
from profkit.capture.device_capture import with_device
from profkit.capture.device_warnings import device_warnings, launch_warnings
from profkit.capture.schema import (
    NONE,
    RANGE_COUNTERS,
    Allocations,
    Capture,
    Losses,
    Process,
    Ranges,
    Samples,
    Threads,
)
from profkit.errors import listed

if TYPE_CHECKING:
    from profkit._core import CaptureContent, CaptureProcess

LARGEST_PID = 2**31 - 1
LONGEST_NS = 1e9  # that a clock reading or an empty range can take; more is damage


def read(path: str | os.PathLike[str], running: Collection[int] = ()) -> Capture:
    """The capture in this file; one that is still being written is read up to its present end.

    `running` are processes known to be alive, so that their missing end is not taken for a crash.
    CaptureError when the file is not a capture or cannot be read.
    """
    from profkit import _core

    name = os.fspath(path)
    content = _core.read_capture(name)
    processes = tuple(_process(entry) for entry in content["processes"])
    counts = [entry["device"] for entry in content["processes"]]
    capture = Capture(
        path=name,
        created_unix_ns=content["created_unix_ns"],
        strings=tuple(content["strings"]),
        processes=processes,
        threads=Threads(**content["threads"]),
        ranges=_ranges(content["ranges"]),
        allocations=Allocations(**content["allocations"]),
        samples=Samples(**content["samples"]),
        losses=_losses(content["counters"], counts),
    )
    capture = with_device(capture, content["device"], counts)
    warnings = (
        *content["warnings"],
        *_replaced_names(content),
        *_untraced_programs(content["counters"]["untraced_execs"]),
        *_missing_ends(processes, content, running),
        *device_warnings(processes, counts),
        *launch_warnings(capture),
    )
    return replace(capture, warnings=warnings)


def _ranges(columns: dict[str, Any]) -> Ranges:
    """Without counters and payloads where no range has them: nearly half of its bytes."""
    has_counters = len(columns["minor_faults"]) and columns["minor_faults"].max() != NONE
    unused: tuple[str, ...] = () if has_counters else RANGE_COUNTERS
    unused += () if columns["payload_type"].any() else ("payload_type", "payload")
    return Ranges(**{name: column for name, column in columns.items() if name not in unused})


def _losses(counters: dict[str, int], counts: Sequence[dict[str, int]]) -> Losses:
    # The header of a file that was not closed lacks the counts of its processes.
    of_device = sum(each["dropped_by_cupti"] + each["dropped_too_slow"] for each in counts)
    return Losses(
        records=counters["dropped_records"],
        disk_full=counters["dropped_disk_full"],
        too_slow=counters["dropped_too_slow"],
        too_deep=counters["dropped_too_deep"],
        stalled_ns=counters["stalled_ns"],
        replaced_names=counters["replaced_names"],
        device=max(counters["dropped_device"], of_device),
        untraced_programs=counters["untraced_execs"],
    )


def _process(entry: CaptureProcess) -> Process:
    about = _description(entry["description"])
    return Process(
        pid=_process_number(about.get("pid")),
        parent_pid=_process_number(about.get("parent_pid")),
        command=_texts(about.get("command")),
        doors=_texts(about.get("doors")),
        clock=str(about.get("clock", "unknown")),
        start_ns=entry["start_ns"],
        end_ns=entry["end_ns"],
        has_ended=entry["has_ended"],
        empty_range_ns=_measured(entry["empty_range_ns"], 0.0),
        clock_read_ns=_measured(entry["clock_read_ns"], 0.0),
        cross_core_skew_ns=_measured(entry["cross_core_skew_ns"], -1.0),
        clock_drift_ppm=entry["clock_drift_ppm"],
        clock_error_ns=entry["clock_error_ns"],
        frees_of_unknown=entry["frees_of_unknown"],
        description=about,
    )


def _description(text: str) -> dict[str, Any]:
    """What the process wrote about itself; empty when that is damaged, so that its events are still shown."""
    try:
        about = parse_json(text.encode())
    except ValueError:
        return {}
    return about if isinstance(about, dict) else {}


def _process_number(value: object) -> int:
    """A number that the system can give to a process; 0: not known."""
    return value if type(value) is int and 0 < value <= LARGEST_PID else 0


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _measured(ns: float, unknown: float) -> float:
    return ns if math.isfinite(ns) and 0 <= ns <= LONGEST_NS else unknown


def _replaced_names(content: CaptureContent) -> list[str]:
    count = content["counters"]["replaced_names"]
    if not count:
        return []
    times = "once" if count == 1 else f"{count:,} times"
    return [f'{times} a name was recorded as "(too many names)": a process holds 262,144 names and 8 MiB of their text']


def _untraced_programs(count: int) -> list[str]:
    if not count:
        return []
    subject = "1 program was" if count == 1 else f"{count:,} programs were"
    where = "in an environment without profkit's library in LD_PRELOAD"
    return [f"{subject} started (exec) {where}: nothing of what followed is recorded"]


def _missing_ends(processes: Sequence[Process], content: CaptureContent, running: Collection[int]) -> list[str]:
    """Sentences about processes that were killed, that run on, or that never wrote a block."""
    sentences = []
    unended = [process.pid for process in processes if not process.has_ended]
    alive = [str(pid) for pid in unended if pid in running]
    if alive:
        subject = f"process {alive[0]} is" if len(alive) == 1 else f"{len(alive)} processes ({listed(alive)}) are"
        sentences.append(f"{subject} still running; what is recorded from now on is not shown here")
    killed = [str(pid or "(unknown)") for pid in unended if pid not in running]
    if killed:
        one = len(killed) == 1
        subject = f"process {killed[0]}" if one else f"{len(killed)} processes ({listed(killed)})"
        rest = f"{'its' if one else 'their'} last moments may be missing"
        sentences.append(f"{subject} {_why_unended(content['counters'], one)}; {rest}")
    silent = content["counters"]["processes_started"] - len(processes)
    if silent > 0:
        noun = "process" if silent == 1 else "processes"
        sentences.append(f"{silent} {noun} started recording and left nothing in the file")
    return sentences


def _why_unended(counters: dict[str, int], is_one: bool) -> str:
    """The counters are written over, which a full disk allows: they show who ended although no block could be added."""
    if not counters["dropped_disk_full"]:
        return "did not end normally: killed, crashed or still running"
    if counters["processes_ended"] >= counters["processes_started"]:
        return f"ended, but the file has no end of {'it' if is_one else 'them'}: the disk was full, or writing failed"
    return "left no end in the file: the disk was full, or writing failed"
