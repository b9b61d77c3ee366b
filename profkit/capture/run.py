"""A Run: a network's run in one framework, with how it was checked, its step times, and a Capture of every pass.

The file is a zip (`run.json`, `captures/<n>/...`).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import numpy as np

from profkit.capture.archive import LARGEST, document, opened, put, take
from profkit.capture.busy_machine import LOAD, why_busy
from profkit.capture.checked_json import check, made, shortened
from profkit.capture.schema import NONE, STRINGS, TABLES, Capture, Column, ColumnTable, Losses
from profkit.errors import CaptureError, UsageError, first_line
from profkit.ops.networks import Training, network_from_dict
from profkit.ops.networks.work import network_work

SCHEMA = "profkit.run/1"
MAGIC = b"PK\x03\x04"
MOST_PROCESSES = 1000
LATER = "later"
"""In `failed` of a part of a row of `baseline`: the time was over before its kernels were measured."""


class RunProcess(TypedDict):
    """The part of a Run that belongs to one of its processes (and to those that its passes needed)."""

    steps: int
    """Of `step_ns`, in their order."""
    recorded: dict[str, int]
    """Likewise of `recorded_step_ns`."""
    captures: int
    """Likewise of `captures`."""
    machine: dict[str, float]
    """During its steps: others_share, stolen_share, load, least_mhz, most_mhz, round_trip_ns between two processors
    (median, and low_ and high_ for the first and the last tenth), as far as the system reports it.
    """


class RunWorker(TypedDict):
    """A process that the run started, as it was at its end."""

    argv: list[str]
    output: str
    """The end of what it printed."""
    ran: dict[str, Any]
    """What it says that it ran: network, framework, mode, threads, processors, training, optimizer."""


class Repeat(TypedDict):
    """How the numbers of one parameter (or the losses, or the logits) differ between two runs from the same seed."""

    name: str
    count: int
    different: int
    """Numbers whose bits differ."""
    largest: float | None
    """Difference; None where one of the two is no number."""
    size: float | None
    """The largest number of the first run."""


class Repeats(TypedDict, total=False):
    steps: int
    rows: list[Repeat]


@dataclass
class Run:
    """Everything that is known of one run. Times are integer nanoseconds."""

    network: dict[str, Any]  # Network.to_dict
    framework: str
    mode: str
    threads: int
    is_training: bool
    status: str = "ok"  # ok, unavailable, unsupported, wrong, oom, timeout, crashed, interrupted
    reason: str = ""
    training: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: float | None = None  # nearest to its tolerance, relative to the largest reference value
    tolerance: float | None = None  # of what has this error
    unchecked: list[str] = field(default_factory=list)  # arrays of the first step that could look the same if wrong
    data: str = ""  # where the images come from; synthetic ones say so
    weights: str = ""  # where saved weights come from that it began with
    first_step_ns: int | None = None  # including compilation and other one-time work
    step_ns: list[int] = field(default_factory=list)  # raw samples, nothing recorded
    recorded_step_ns: dict[str, list[int]] = field(default_factory=dict)  # by pass; interleaved with step_ns
    learning: dict[str, Any] = field(default_factory=dict)  # losses, seconds, errors on test and training data
    repeats: Repeats = field(default_factory=Repeats)  # `--repeat`: the same steps twice
    baseline: list[dict[str, Any]] = field(default_factory=list)  # per layer and phase: native time, bound, peaks
    environment: dict[str, Any] = field(default_factory=dict)
    processes: list[RunProcess] = field(default_factory=list)  # `--runs`, in order of time; empty: one
    workers: list[RunWorker] = field(default_factory=list)  # every process that was started
    captures: Sequence[Capture] = ()  # of each process one per pass

    def capture(self, measure: str) -> Capture | None:
        """The pass that measures time, memory or primitives; of several processes one Capture."""
        found = [each for each in self.process_passes(measure) if each is not None]
        if len(found) < 2:
            return found[0] if found else None
        # The same object for every measure of the pass: tables are joined by it.
        joined: dict[tuple[int, ...], Capture] = self.__dict__.setdefault("_joined", {})
        key = tuple(map(id, found))
        if key not in joined:
            joined[key] = joined_pass(found)
        return joined[key]

    def recorded(self, measure: str = "time") -> Capture:
        """`capture`; CaptureError where the run has no such pass."""
        capture = self.capture(measure)
        if capture is None:
            why = f": {self.status}, {self.reason}" if self.status != "ok" else ""
            raise CaptureError(f"{self.framework} has no recording of {measure}{why}")
        return capture

    def process_captures(self) -> list[Sequence[Capture]]:
        """The passes of each process."""
        return [self.captures[part] for part in _parts([each["captures"] for each in self.processes], self.captures)]

    def process_passes(self, measure: str) -> list[Capture | None]:
        """The pass of each process that measures this."""
        return [next((each for each in own if measure in each.measures), None) for own in self.process_captures()]

    def process_steps(self) -> list[list[int]]:
        """The unrecorded steps of each process."""
        return [self.step_ns[part] for part in _parts([each["steps"] for each in self.processes], self.step_ns)]

    def process_recorded(self) -> dict[str, list[list[int]]]:
        """The recorded steps of each process, by pass."""
        return {
            name: [steps[part] for part in _parts([each["recorded"].get(name, 0) for each in self.processes], steps)]
            for name, steps in self.recorded_step_ns.items()
        }

    def whole(self) -> Capture:
        """All passes side by side in one Capture, each a separate process: for traces and SQL."""
        return side_by_side(self.captures)

    def disturbance(self) -> str:
        """What else the machine did while this was measured, when that makes the times doubtful; else empty.

        Of several processes those that a busy machine disturbed do not count, unless more than half of them were.
        """
        if not self.processes:
            load = {LOAD: self.environment["load"][0]} if self.environment.get("load") else {}
            why = self._why_busy(load)
            return f"busy machine: {why}" if why else ""
        busy, count = self.disturbed_processes(), len(self.processes)
        if 2 * len(busy) <= count:
            return ""
        whose = f"{len(busy)} of {count} processes were disturbed: " if count > 1 else ""
        return f"busy machine: {whose}{'; '.join(dict.fromkeys(busy.values()))}"

    def disturbed_processes(self) -> dict[int, str]:
        """Numbers of the processes that met a busy machine, with what it did."""
        found = {number: self._why_busy(process["machine"]) for number, process in enumerate(self.processes)}
        return {number: why for number, why in found.items() if why}

    def _why_busy(self, machine: Mapping[str, float]) -> str:
        return why_busy(machine, self.environment.get("cpus_usable") or [])


def save_run(run: Run, target: str | Path | BinaryIO) -> None:
    about = {item.name: getattr(run, item.name) for item in fields(run) if item.name != "captures"}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("run.json", json.dumps({"schema": SCHEMA, "captures": len(run.captures), **about}))
        for number, capture in enumerate(run.captures):
            put(capture, archive, f"captures/{number}/")


def load_run(path: str | Path) -> Run:
    """Read the file; CaptureError when it is not a run, is damaged, or comes from another version."""
    try:
        with opened(path) as archive:
            about = document(archive, "run.json")
            schema, count = about.pop("schema", None), about.pop("captures", None)
            if schema != SCHEMA:
                raise CaptureError(
                    f"{path} has schema {shortened(schema)}, this profkit reads {SCHEMA!r}: record it again"
                )
            check(count, int, "run.json has captures")
            if count < 0:
                raise ValueError(f"run.json has {count} captures")
            captures = [replace(take(archive, f"captures/{number}/"), path=str(path)) for number in range(count)]
            run = made(Run, about, "run.json", finite=False, captures=tuple(captures))
            _check_values(run)
            return run
    except OSError as error:
        raise CaptureError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise CaptureError(f"{path} is not the run of a network, or is damaged: {first_line(error)}") from None


class _RunEnvironment(TypedDict, total=False):
    cpu: str
    cpus_usable: list[int]
    load: list[float]


class _RunLearning(TypedDict, total=False):
    losses: list[float]
    test_error: float | None
    test_count: int
    train_error: float | None
    train_count: int
    seconds: float


class _PartLoad(TypedDict, total=False):
    """What may be missing in a part of a row of `baseline`."""

    load: float
    failed: dict[str, str]


class _PartTime(_PartLoad):
    key: str | None


class _Parts(TypedDict, total=False):
    """What may be missing in a row of `baseline`."""

    kind: str
    threads: int
    parts: list[_PartTime]
    native_ns: float | None
    one_thread_ns: float | None
    workspace_bytes: int | None
    native_key: str | None
    native_bound_ns: float | None
    without_kernel: list[str]


class BaselineRow(_Parts):
    """What is read of a row of `baseline`."""

    layer: str
    phase: str
    flops: int
    bytes: int
    bound_ns: float
    bound_by: str
    peak_flops_per_s: float
    peak_bytes_per_s: float


def _check_values(run: Run) -> None:
    """ValueError for what no run leaves, though every field has its type."""
    check(run.environment, _RunEnvironment, "run.json has environment")
    check(run.learning, _RunLearning, "run.json has learning", finite=False)
    check(run.baseline, list[BaselineRow], "run.json has baseline")
    try:
        parts = network_work(network_from_dict(run.network), Training(**run.training)).values()
        work = sum(part.flops + part.bytes for part in parts) * sum(len(each.steps) for each in run.captures)
    except (UsageError, TypeError) as error:
        raise ValueError(f"run.json: {error}") from None
    except OverflowError:
        work = LARGEST + 1
    if work > LARGEST:
        raise ValueError("run.json has a network that is too large to be run")
    for threads in (run.threads, *(row.get("threads", 1) for row in run.baseline)):
        if not 0 < threads < 1 << 20:
            raise ValueError(f"run.json has threads {threads}")
    if len(run.processes) > MOST_PROCESSES:
        raise ValueError(f"run.json has {len(run.processes):,} processes, more than {MOST_PROCESSES:,}")
    counted = {
        "steps": (sum(each["steps"] for each in run.processes), len(run.step_ns)),
        "captures": (sum(each["captures"] for each in run.processes), len(run.captures)),
    }
    is_negative = any(min(each["steps"], each["captures"], *each["recorded"].values()) < 0 for each in run.processes)
    if run.processes and (is_negative or any(said != there for said, there in counted.values())):
        raise ValueError("run.json has processes that do not add up to its steps and captures")
    if any(not len(each.steps) or each.steps.end_ns[-1] <= each.steps.start_ns[0] for each in run.captures):
        raise ValueError("a pass has no step, or steps without time")


def _parts(counts: Sequence[int], rows: Sequence[Any]) -> list[slice]:
    """The rows of each process; without `processes` all belong to one."""
    if not counts:
        return [slice(0, len(rows))]
    ends = np.cumsum(counts).tolist()
    return [slice(end - count, end) for count, end in zip(counts, ends)]


def joined_pass(captures: Sequence[Capture]) -> Capture:
    """One pass of several processes, which ran one after another: all their steps; of a peak the largest."""
    facts = dict(captures[0].facts)
    peaks = [each.facts["peak_bytes"] for each in captures if each.facts.get("peak_bytes") is not None]
    notes = [note for each in captures for note in each.facts.get("notes", ())]
    facts |= {"peak_bytes": max(peaks)} if peaks else {}
    facts |= {"notes": list(dict.fromkeys(notes))} if notes else {}
    return replace(side_by_side(captures), facts=facts)


def joined_runs(runs: Sequence[Run]) -> Run:
    """One Run of several runs of the same request, in order of time; values that exist once are those of the first."""
    first = runs[0]
    checks = [(run.error, run.tolerance) for run in runs if run.error is not None and run.tolerance]
    error, tolerance = max(checks, key=lambda pair: pair[0] / pair[1], default=(None, None))
    passes = dict.fromkeys(name for run in runs for name in run.recorded_step_ns)
    return replace(
        first,
        notes=list(dict.fromkeys(note for run in runs for note in run.notes)),
        error=error,
        tolerance=tolerance,
        unchecked=list(dict.fromkeys(name for run in runs for name in run.unchecked)),
        step_ns=[value for run in runs for value in run.step_ns],
        recorded_step_ns={
            name: [each for run in runs for each in run.recorded_step_ns.get(name, ())] for name in passes
        },
        processes=[process for run in runs for process in run.processes],
        workers=[worker for run in runs for worker in run.workers],
        captures=tuple(capture for run in runs for capture in run.captures),
    )


def side_by_side(captures: Sequence[Capture]) -> Capture:
    """One Capture with the rows of all, on the clock that they share; processes, threads and rows are renumbered."""
    if len(captures) == 1:
        return captures[0]
    sizes = {name: [len(getattr(each, name)) for each in captures] for name in (STRINGS, "processes", *TABLES)}
    first = {name: np.cumsum([0, *counts])[:-1] for name, counts in sizes.items()}
    tables = {
        name: kind(**_columns([getattr(each, name) for each in captures], first)) for name, kind in TABLES.items()
    }
    facts = {each.processes[0].name: dict(each.facts) for each in captures if each.processes}
    return Capture(
        path=captures[0].path if captures else "",
        strings=tuple(text for each in captures for text in each.strings),
        processes=tuple(process for each in captures for process in each.processes),
        losses=Losses(sum(each.losses.records for each in captures)),
        warnings=tuple(dict.fromkeys(warning for each in captures for warning in each.warnings)),
        facts=facts,
        measures=tuple(dict.fromkeys(measure for each in captures for measure in each.measures)),
        recorder=", ".join(dict.fromkeys(each.recorder for each in captures)),
        origin_ns=min((each.origin_ns for each in captures), default=0),
        **tables,  # type: ignore[arg-type]
    )


def _columns(parts: Sequence[ColumnTable], first: Mapping[str, Column]) -> dict[str, Column]:
    """The columns of several tables of one kind, one after another; rows of other tables keep their meaning."""
    kind = type(parts[0]) if parts else ColumnTable
    columns = {}
    for item in fields(kind):
        if not any(part.has(item.name) for part in parts):
            continue
        target = kind.references().get(item.name)
        values = [part[item.name] for part in parts]
        if target is not None:
            values = [np.where(each == NONE, NONE, each + begin) for each, begin in zip(values, first[target])]
        columns[item.name] = np.concatenate(values).astype(item.metadata["absent"].dtype)
    return columns
