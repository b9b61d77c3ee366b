"""The machine's measured peaks (FMA loop, copy bandwidth), kept in a cache file with the machine they belong to."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profkit import _core
from profkit.frameworks.cache import cache_folder
from profkit.measurement.environment import machine_id


def machine_peaks(dtype: str, threads: int, remeasure: bool = False) -> dict[str, float]:
    """flops_per_s and bytes_per_s for this dtype and thread count: measured once per machine and build.

    What was measured while others used the machine is too low: it is measured again until the machine was quiet,
    and the highest value stays, as a peak is a maximum.
    """
    path = cache_folder() / "peaks.json"
    known = read_known(path)
    name = f"{machine_id()} | {dtype} | {threads} threads"
    found = {} if remeasure else known.get(name, {})
    if not found.get("quiet"):
        known[name] = found = {
            "flops_per_s": max(_core.peak_flops(dtype, threads), found.get("flops_per_s", 0.0)),
            "bytes_per_s": max(_core.copy_bandwidth(threads), found.get("bytes_per_s", 0.0)),
            "quiet": float(os.getloadavg()[0] < 0.5),
        }
        write_known(path, known)
    return {name: found[name] for name in ("flops_per_s", "bytes_per_s")}


def read_known(path: Path) -> dict[str, dict[str, float]]:
    """What the cache file says; a missing or damaged file is an empty one."""
    try:
        data = json.loads(path.read_text())
        return {
            name: {field: float(peaks[field]) for field in ("flops_per_s", "bytes_per_s", "quiet")}
            for name, peaks in data.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def write_known(path: Path, known: Mapping[str, Any]) -> None:
    """Replace the cache file whole; a folder that cannot be written only costs measuring again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(known, file, indent=1)
        os.replace(file.name, path)
    except OSError:
        return
