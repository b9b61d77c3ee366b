"""A network's run in one framework: how it was checked, its step times, and what the sources saw; one file each.

The file is a zip (`capture.json`, `recordings/<n>/...`), so that it can be written without the compiled module.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

from profkit.capture.recording import Recording, put, take
from profkit.errors import CaptureError

SCHEMA = "profkit.network/1"
MAGIC = b"PK\x03\x04"


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


def save_network_capture(capture: NetworkCapture, target: str | Path | BinaryIO) -> None:
    """Write the file."""
    about = {item.name: getattr(capture, item.name) for item in fields(capture) if item.name != "recordings"}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("capture.json", json.dumps({"schema": SCHEMA, **about}))
        for number, recording in enumerate(capture.recordings):
            put(recording, archive, f"recordings/{number}/")


def load_network_capture(path: str | Path) -> NetworkCapture:
    """Read the file; CaptureError when it is none, is damaged, or comes from another version."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = _checked(json.loads(archive.read("capture.json")), path)
            folders = sorted({entry.split("/")[1] for entry in archive.namelist() if entry.startswith("recordings/")})
            recordings = tuple(take(archive, f"recordings/{number}/") for number in sorted(folders, key=int))
            return NetworkCapture(**about, recordings=recordings)
    except CaptureError:
        raise
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise CaptureError(f"{path} is no capture of a network, or is damaged: {error}") from None


def _checked(about: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    values = dict(about)
    schema = values.pop("schema", None)
    if schema != SCHEMA:
        raise CaptureError(f"{path} has schema {schema!r}, this profkit reads {SCHEMA!r}: record it again")
    return values
