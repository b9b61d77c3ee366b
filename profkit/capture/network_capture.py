"""A network's run in one framework: how it was checked, its step times, and what the sources saw; one file each.

The file is a zip (`capture.json`, `recordings/<n>/...`), so that it can be written without the compiled module.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

from profkit.capture.recording import ALLOCATIONS, NUMBERS, TEXTS, Recording, put, take
from profkit.capture.schema import NONE
from profkit.errors import CaptureError

SCHEMA = "profkit.network/1"
MAGIC = b"PK\x03\x04"
OTHERS = 0.1
"""Other programs that take more than this share of the processors' time change what is measured."""
BUSY_LOAD = 0.75
"""Where that share is not known: a load average above this share of the processors."""


@dataclass
class NetworkCapture:
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
    recordings: Sequence[Recording] = ()

    def recording(self, measure: str) -> Recording | None:
        """The pass that is good for time, memory or primitives."""
        return next((each for each in self.recordings if measure in each.measures), None)

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


def save_network_capture(capture: NetworkCapture, target: str | Path | BinaryIO) -> None:
    """Write the file."""
    about = {item.name: getattr(capture, item.name) for item in fields(capture) if item.name != "recordings"}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("capture.json", json.dumps({"schema": SCHEMA, "recordings": len(capture.recordings), **about}))
        for number, recording in enumerate(capture.recordings):
            put(recording, archive, f"recordings/{number}/")


def load_network_capture(path: str | Path) -> NetworkCapture:
    """Read the file; CaptureError when it is not a capture, is damaged, or comes from another version."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = _checked(json.loads(archive.read("capture.json")), path)
            numbers = range(about.pop("recordings"))
            recordings = tuple(_sound(take(archive, f"recordings/{number}/")) for number in numbers)
            return NetworkCapture(**about, recordings=recordings)
    except CaptureError:
        raise
    except (OSError, EOFError, KeyError, ValueError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise CaptureError(f"{path} is not a capture of a network, or is damaged: {error}") from None


def _checked(about: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    values = dict(about)
    schema = values.pop("schema", None)
    if schema != SCHEMA:
        raise CaptureError(f"{path} has schema {schema!r}, this profkit reads {SCHEMA!r}: record it again")
    return values


def _sound(recording: Recording) -> Recording:
    """The recording, when its columns fit together: whoever reads them need not look for missing or wild rows."""
    spans, steps = recording.spans, recording.steps
    rows = len(recording)
    sizes = {len(column) for column in recording.allocations.values()}
    if recording.allocations and (set(recording.allocations) != set(ALLOCATIONS) or len(sizes) > 1):
        raise ValueError("columns of the allocations are missing")
    for name in (*NUMBERS, *TEXTS):
        if spans[name].shape != (rows,) or spans[name].dtype.kind != "i":
            raise ValueError(f"column {name} does not have {rows} whole numbers")
    if steps["start_ns"].shape != steps["end_ns"].shape or steps["start_ns"].ndim != 1:
        raise ValueError("steps have more begins than ends, or fewer")
    limits = {"step": len(steps["start_ns"]), "thread": len(recording.threads), "parent": rows, "owner": rows}
    limits |= dict.fromkeys(TEXTS, len(recording.strings))
    for name, limit in limits.items():
        if rows and not (spans[name].min() >= NONE and spans[name].max() < limit):
            raise ValueError(f"column {name} names something that is not there")
    if rows and spans["thread"].min() < 0:
        raise ValueError("a span has no thread")
    return recording
