"""The machine's measured peaks (FMA loop, copy bandwidth), kept in a cache file with the machine they belong to."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from profkit import _core
from profkit.measurement.environment import machine_id


def cache_folder() -> Path:
    """PROFKIT_CACHE, else the user's cache folder."""
    base = os.environ.get("PROFKIT_CACHE")
    if base:
        return Path(base)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "profkit"


def machine_peaks(dtype: str, threads: int, remeasure: bool = False) -> dict[str, float]:
    """flops_per_s and bytes_per_s for this dtype and thread count: measured once per machine and build."""
    path = cache_folder() / "peaks.json"
    known = read_known(path)
    name = f"{machine_id()} | {dtype} | {threads} threads"
    if remeasure or name not in known:
        known[name] = {
            "flops_per_s": _core.peak_flops(dtype, threads),
            "bytes_per_s": _core.copy_bandwidth(threads),
        }
        write_known(path, known)
    return known[name]


def read_known(path: Path) -> dict[str, dict[str, float]]:
    """What the cache file says; a missing or damaged file is an empty one."""
    try:
        data = json.loads(path.read_text())
        return {
            name: {"flops_per_s": float(peaks["flops_per_s"]), "bytes_per_s": float(peaks["bytes_per_s"])}
            for name, peaks in data.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def write_known(path: Path, known: dict[str, dict[str, float]]) -> None:
    """Replace the cache file whole; a folder that cannot be written only costs measuring again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(known, file, indent=1)
        os.replace(file.name, path)
    except OSError:
        return
