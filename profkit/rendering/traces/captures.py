"""A capture as a trace: a Capture goes in, TraceContent with everything that was recorded comes out.

Each process has its threads, and above them its steps with their phases and layers. Kernels, copies and sets are on a
lane per stream (more where they overlap), arrows lead from a call to what it launched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from profkit.attribution.kernels.names import parse_kernel
from profkit.capture.run import Run
from profkit.capture.schema import NONE, ActivityKind, Capture, Column
from profkit.rendering.traces.arguments import Described
from profkit.rendering.traces.arrows import with_allocation_arrows
from profkit.rendering.traces.building import RANKS, Slices, TraceBuilder, joined
from profkit.rendering.traces.content import Arrows, TraceContent
from profkit.rendering.traces.counters import memory_counters
from profkit.rendering.traces.outline import outline
from profkit.rendering.traces.queues import Queues, gpus_of, kernel_launches

About = tuple[tuple[str, str], ...]


def capture_about(capture: Capture) -> About:
    """Where a capture comes from, how exact it is, and what is missing."""
    from profkit import __version__

    facts: list[tuple[str, str]] = [("capture", capture.path), ("exported by", f"profkit {__version__}")]
    recorders = [capture.recorder]
    if capture.processes:
        first = capture.processes[0]
        facts.append(("program", " ".join(first.command)))
        recorders.append(str(first.description.get("profkit", "")))
        if first.clock:
            facts.append(("clock", first.clock))
            facts.append(("clock error ns", f"{capture.clock_error_ns:.0f}"))
            facts.append(("cost of an empty range ns", f"{first.empty_range_ns:.1f}"))
    facts.append(("recorded by", " ".join(filter(None, recorders))))
    facts.append(("processes", str(len(capture.processes))))
    facts.append(("records lost", str(capture.losses.records)))
    facts += [(name, str(value)) for name, value in capture.facts.items() if isinstance(value, (str, int, float))]
    facts += [(f"warning {number}", text) for number, text in enumerate(capture.warnings, 1)]
    return tuple((name, text) for name, text in facts if text)


def run_about(run: Run) -> About:
    """What ran, with what, how it ended, and the notes of every pass."""
    network = dict(run.network)
    facts = [
        ("network", str(network.pop("network", ""))),
        ("parameters", ", ".join(f"{name} {value}" for name, value in network.items())),
        ("framework", f"{run.framework} {run.mode}, {run.threads} threads"),
        ("step", "training" if run.is_training else "inference"),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("data", run.data),
        ("status", run.status + (f": {run.reason}" if run.reason else "")),
    ]
    for capture in run.captures:
        name = capture.processes[0].name
        facts.append((f"clock error ns, {name}", f"{capture.clock_error_ns:.0f}"))
        facts += [(f"note, {name}", str(note)) for note in capture.facts.get("notes", ())]
    facts += [(f"note {number}", note) for number, note in enumerate(run.notes, 1)]
    return tuple(facts)


OUTLINE = "steps, phases, layers"
_NAME_LENGTH = 80


def trace_content(capture: Capture, flows: int = 0, about: About = ()) -> TraceContent:
    """The trace, with arrows for `flows` of the largest allocations; `about` precedes the capture's description."""
    builder = TraceBuilder(capture.strings)
    processes = _add_processes(capture, builder)
    described = Described(capture, builder)
    event_of_range, event_of_call = _add_host(capture, builder, described)
    for process in np.unique(np.maximum(capture.steps.process, 0)).tolist():
        _add_outline(capture, builder, process)
    work = _add_work(capture, builder, described, processes, event_of_call) if len(capture.activities) else {}
    content = builder.finished(
        base_unix_ns=capture.created_unix_ns,
        counters=memory_counters(capture, processes),
        about=(*about, *capture_about(capture)),
        members=_members(capture),
        gpus=gpus_of(capture),
        **work,
    )
    return with_allocation_arrows(content, capture, event_of_range, flows) if flows > 0 else content


# --- Processes and tracks ---


def _add_processes(capture: Capture, builder: TraceBuilder) -> Sequence[int]:
    """Processes and threads, in the order of the capture; gives the rows of the processes."""
    for process in capture.processes:
        name = process.name or _program(process.command) or f"process {process.pid}"
        builder.add_process(process.pid, name, process.command)
    threads = capture.threads
    ids = zip(threads.process.tolist(), threads.os_thread_id.tolist(), threads.index.tolist())
    texts = zip(capture.texts(threads.name), capture.texts(threads.role))
    for (owner, tid, index), (known, role) in zip(ids, texts):
        is_main = tid == capture.processes[owner].pid
        title = known or ("main" if is_main else f"thread {tid or index}")
        if role and role not in title:
            title = f"{title} ({role})"
        # Viewers know the main thread by the id of its process.
        builder.add_track(owner, builder.processes[owner].pid if is_main else tid, title)
    if not builder.processes and capture.has_device:
        builder.add_process(0, "(process not recorded)")
    return range(len(builder.processes))


def _program(command: Sequence[str]) -> str:
    """`python train.py --fast`: the command without the folders of its program."""
    text = " ".join((*(PurePath(word).name for word in command[:1]), *command[1:]))
    return text if len(text) <= _NAME_LENGTH else text[: _NAME_LENGTH - 1] + "…"


def _add_host(capture: Capture, builder: TraceBuilder, described: Described) -> tuple[Column, Column]:
    """Ranges and calls on the tracks of their threads. Gives the event of each range and of each call.

    profkit's doors and CUPTI have different clocks, so calls are beside the ranges of a traced program; other
    recorders have one clock, and their calls are inside the ranges that made them.
    """
    ranges, threads = described.ranges(), list(range(len(capture.threads)))
    if not len(capture.calls):
        return builder.add(ranges, threads, is_ordered=True), np.zeros(0, np.int64)
    calls = described.calls()
    if not capture.ranges.has("source"):
        # Among calls the rows of parents are others; without them nesting follows from times and ranks.
        events = {name: column for name, column in ranges.events.items() if name != "parent"}
        rows = builder.add(*_with_lost(joined([replace(ranges, events=events), calls]), threads, builder))
        return rows[: len(ranges)], rows[len(ranges) :]
    event_of_range = builder.add(ranges, threads, is_ordered=True)
    callers = set(calls.events["place"].tolist())
    tracks = []
    for row in threads:
        title = f"{builder.tracks[row].name} (CUDA calls)"
        # A thread without calls needs no track: row 0 represents it and is unchanged.
        tracks.append(builder.add_lane(row, title, RANKS // 2) if row in callers else 0)
    return event_of_range, builder.add(*_with_lost(calls, tracks, builder))


def _with_lost(slices: Slices, tracks: Sequence[int], builder: TraceBuilder) -> tuple[Slices, Sequence[int]]:
    """The slices and their tracks; those of unknown threads get a separate one."""
    place = slices.events["place"]
    if not (place == NONE).any():
        return slices, tracks
    lost = builder.add_track(0, 0, "(thread not recorded)")
    events = {**slices.events, "place": np.where(place == NONE, len(tracks), place)}
    return replace(slices, events=events), [*tracks, lost]


def _add_outline(capture: Capture, builder: TraceBuilder, process: int) -> None:
    slices = outline(capture, process)
    columns: dict[str, Column] = {
        "place": np.zeros(len(slices), np.int32),
        "rank": np.array([made.depth for made in slices], np.int8),
        "start_ns": np.array([made.start_ns for made in slices], np.int64) - capture.origin_ns,
        "end_ns": np.array([made.end_ns for made in slices], np.int64) - capture.origin_ns,
        "name": np.array([builder.string(made.name) for made in slices], np.int32),
        "category": np.full(len(slices), builder.string("outline"), np.int32),
    }
    builder.add(Slices(columns), [builder.add_track_above(process, OUTLINE)])


# --- GPUs ---


def _add_work(
    capture: Capture, builder: TraceBuilder, described: Described, processes: Sequence[int], event_of_call: Column
) -> dict[str, Any]:
    """What GPUs did, on lanes of all streams. Gives the fields of a TraceContent that belong to it."""
    queues = Queues(capture, processes)
    is_kernel = capture.activities.kind == ActivityKind.KERNEL
    launch = np.where(is_kernel, np.cumsum(is_kernel) - 1, NONE)
    event = builder.add(described.activities(queues.place, launch), queues.add_tracks(builder), nests=False)
    return {
        "queues": queues.all(builder),
        "launches": kernel_launches(capture.activities, np.flatnonzero(is_kernel)),
        "flows": _arrows(capture, event_of_call, event),
        "labels": _labels(capture, builder),
    }


def _arrows(capture: Capture, event_of_call: Column, event_of_activity: Column) -> Arrows:
    """From each call to what it launched."""
    launched = np.flatnonzero(capture.activities.call != NONE)
    start, end = event_of_call[capture.activities.call[launched]], event_of_activity[launched]
    order = np.lexsort((end, start))
    return Arrows(start[order].astype(np.int32), end[order].astype(np.int32))


def _labels(capture: Capture, builder: TraceBuilder) -> dict[int, int]:
    """Short names of kernels for formats that keep the whole one elsewhere."""
    found: dict[int, int] = {}
    for number in np.unique(capture.activities.name).tolist():
        text = capture.text(number)
        short = parse_kernel(text).short if text else ""
        if short and short != text:
            found[number] = builder.string(short)
    return found


def _members(capture: Capture) -> About:
    """What tools for torch.profiler's traces look for beside the events."""
    named = {
        "id": "id",
        "name": "name",
        "compute_major": "computeMajor",
        "compute_minor": "computeMinor",
        "multiprocessors": "numSms",
        "memory_bytes": "totalGlobalMem",
    }
    devices = [
        {named[name]: value for name, value in each.known().items() if name in named} for each in capture.devices
    ]
    rank = capture.facts.get("rank")
    return (
        ("schemaVersion", "1"),
        ("deviceProperties", json.dumps(devices)),
        ("distributedInfo", json.dumps({"rank": rank if isinstance(rank, int) else 0})),
    )
