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
from profkit.capture.checked_json import check, made, shortened
from profkit.capture.schema import NONE, STRINGS, TABLES, Capture, Column, ColumnTable, Losses
from profkit.errors import CaptureError, UsageError
from profkit.ops.networks import Training, network_from_dict
from profkit.ops.networks.work import network_work

SCHEMA = "profkit.run/1"
MAGIC = b"PK\x03\x04"
OTHERS = 0.1
"""Other programs that take more than this share of the processors' time change what is measured."""
BUSY_LOAD = 0.75
"""Where that share is not known: a load average above this share of the processors."""


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
    error: float | None = None  # largest, relative to the largest reference value
    tolerance: float | None = None
    data: str = ""  # where the images come from; synthetic ones say so
    first_step_ns: int | None = None  # with compilation and whatever else happens once
    step_ns: list[int] = field(default_factory=list)  # raw samples, nothing recorded
    recorded_step_ns: dict[str, list[int]] = field(default_factory=dict)  # by pass; interleaved with step_ns
    learning: dict[str, Any] = field(default_factory=dict)  # steps, seconds, losses, precision
    baseline: list[dict[str, Any]] = field(default_factory=list)  # per layer and phase: native time, bound, peaks
    environment: dict[str, Any] = field(default_factory=dict)
    captures: Sequence[Capture] = ()  # one per pass

    def capture(self, measure: str) -> Capture | None:
        """The pass that is good for time, memory or primitives."""
        return next((each for each in self.captures if measure in each.measures), None)

    def whole(self) -> Capture:
        """All passes side by side in one Capture, each a process of its own: for traces and SQL."""
        return side_by_side(self.captures)

    def disturbance(self) -> str:
        """What else the machine did while this was measured, when that makes the times doubtful; else empty."""
        others, cpus = self.environment.get("others_share"), self.environment.get("cpus_usable") or []
        if others is not None:
            taken = f"other programs took {100 * others:.0f}% of the processors' time while it was recorded"
            return taken if others > OTHERS else ""
        load = (self.environment.get("load") or [0.0])[0]
        if not cpus or load <= BUSY_LOAD * len(cpus):
            return ""
        return f"the machine was busy when it was recorded (load {load:.1f} on {len(cpus)} processors)"


def save_run(run: Run, target: str | Path | BinaryIO) -> None:
    """Write the file."""
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
        reason = str(error).splitlines()[0]
        raise CaptureError(f"{path} is not the run of a network, or is damaged: {reason}") from None


class _Environment(TypedDict, total=False):
    """What is read of `environment`."""

    cpu: str
    cpus_usable: list[int]
    load: list[float]
    others_share: float | None


class _Learning(TypedDict, total=False):
    """What is read of `learning`."""

    losses: list[float]
    precision: float | None
    tested: int
    seconds: float


class _PartLoad(TypedDict, total=False):
    """What may be missing in a part of a row of `baseline`."""

    load: float


class _PartTime(_PartLoad):
    """What is read of it."""

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
    check(run.environment, _Environment, "run.json has environment")
    check(run.learning, _Learning, "run.json has learning", finite=False)
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
    if any(not len(each.steps) or each.steps.end_ns[-1] <= each.steps.start_ns[0] for each in run.captures):
        raise ValueError("a pass has no step, or steps without time")


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
