"""The machine's measured peaks (FMA loop, copy bandwidth), kept in a cache file with the machine they belong to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from profkit import _core
from profkit.capture.atomic_write import atomic_write
from profkit.capture.checked_json import fits, read_kept
from profkit.frameworks.cache import cache_folder
from profkit.measurement.contention import others_share, processor_use
from profkit.measurement.cores import usable_cpus
from profkit.measurement.environment import machine_id

QUIET_SHARE = 0.03
"""Of the processors' time, that others may have taken while a peak was measured: the clocks count hundredths of a
second, and a system that does nothing takes about one percent.
"""


class _Peaks(TypedDict):
    flops_per_s: float
    bytes_per_s: float
    quiet: float


def machine_peaks(dtype: str, threads: int, remeasure: bool = False) -> dict[str, float]:
    """flops_per_s and bytes_per_s for this dtype and thread count: measured once per machine and build.

    `quiet` is 1 or, when others used the machine meanwhile, 0.

    What was measured while others used the machine is too low: it is measured again until the machine was quiet
    meanwhile, and the highest value stays, as a peak is a maximum.
    """
    path = cache_folder() / "peaks.json"
    known = read_known(path)
    name = f"{machine_id()} | {dtype} | {threads} threads"
    found = {} if remeasure else known.get(name, {})
    if not found.get("quiet"):
        cpus = usable_cpus()
        before = processor_use(os.getpid(), cpus)
        flops, bandwidth = _core.peak_flops(dtype, threads), _core.copy_bandwidth(threads)
        share = others_share(before, processor_use(os.getpid(), cpus))
        known[name] = found = {
            "flops_per_s": max(flops, found.get("flops_per_s", 0.0)),
            "bytes_per_s": max(bandwidth, found.get("bytes_per_s", 0.0)),
            "quiet": float(share is None or share < QUIET_SHARE),
        }
        write_known(path, known)
    return {name: found[name] for name in ("flops_per_s", "bytes_per_s", "quiet")}


def read_known(path: Path) -> dict[str, dict[str, float]]:
    """The contents of the cache file; a missing or damaged file counts as empty, a damaged entry as missing."""
    return {
        name: peaks
        for name, peaks in read_kept(path).items()
        if fits(peaks, _Peaks) and min(peaks["flops_per_s"], peaks["bytes_per_s"]) > 0.0
    }


def write_known(path: Path, known: Mapping[str, Any]) -> None:
    """Replace the cache file whole; a folder that cannot be written only costs measuring again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, syncs=False) as file:
            file.write(json.dumps(known, indent=1).encode())
    except OSError:
        return
