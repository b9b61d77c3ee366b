"""A Run: a network's run in one framework, with how it was checked, its step times, and a Capture of every pass.

The file is a zip (`run.json`, `captures/<n>/...`).
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from profkit.capture.archive import put, take
from profkit.capture.schema import NONE, STRINGS, TABLES, Capture, Column, Losses, Table
from profkit.errors import CaptureError

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
        with zipfile.ZipFile(path) as archive:
            about = _checked(json.loads(archive.read("run.json")), path)
            numbers = range(about.pop("captures"))
            captures = tuple(replace(take(archive, f"captures/{number}/"), path=str(path)) for number in numbers)
            return Run(**about, captures=captures)
    except CaptureError:
        raise
    except (OSError, EOFError, KeyError, ValueError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise CaptureError(f"{path} is not the run of a network, or is damaged: {error}") from None


def _checked(about: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    values = dict(about)
    schema = values.pop("schema", None)
    if schema != SCHEMA:
        raise CaptureError(f"{path} has schema {schema!r}, this profkit reads {SCHEMA!r}: record it again")
    return values


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


def _columns(parts: Sequence[Table], first: Mapping[str, Column]) -> dict[str, Column]:
    """The columns of several tables of one kind, one after another; rows of other tables keep their meaning."""
    kind = type(parts[0]) if parts else Table
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
