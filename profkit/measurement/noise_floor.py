"""The machine's noise floor: by how much the ratio of two kernels scatters between runs, kept beside the peaks."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from profkit.frameworks.cache import cache_folder
from profkit.measurement.environment import machine_id
from profkit.measurement.peaks import write_known
from profkit.measurement.statistics import Floats

ASSUMED = 0.005
"""Until it was measured: of the pairs of docs/measured/noise_replay.md, some are below and some above it."""
AVERAGED_S = (10.0, 15.0, 20.0)


def machine_floor() -> tuple[float, str]:
    """The floor, a standard deviation of log-ratios, and where it is from: `assumed`, or `measured` and when."""
    found: Any = _read(_path()).get(machine_id())
    try:
        floor, date = float(found["floor"]), str(found["date"])
    except (TypeError, KeyError, ValueError):
        return ASSUMED, "assumed"
    return (floor, f"measured {date}") if 0.0 < floor < 1.0 else (ASSUMED, "assumed")


def keep_floor(floor: float) -> None:
    """For later runs on this machine and build."""
    path = _path()
    write_known(path, {**_read(path), machine_id(): {"floor": floor, "date": time.strftime("%Y-%m-%d")}})


def allan_deviation(logs: Floats, round_s: float, average_s: float) -> float | None:
    """Scatter of neighbouring means over `average_s`, windows overlapping; None when the series is too short."""
    count = max(1, round(average_s / round_s))
    if len(logs) < 3 * count:
        return None
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    means = (sums[count:] - sums[:-count]) / count
    steps = means[count:] - means[:-count]
    return math.sqrt(float(np.mean(np.square(steps))) / 2.0)


def floor_of(logs: Floats, round_s: float) -> float | None:
    """Root mean square of the deviations at AVERAGED_S."""
    found = [allan_deviation(logs, round_s, average_s) for average_s in AVERAGED_S]
    known = [each for each in found if each is not None]
    return math.sqrt(float(np.mean(np.square(known)))) if known else None


def _path() -> Path:
    return cache_folder() / "noise.json"


def _read(path: Path) -> dict[str, Any]:
    """A missing or damaged file is an empty one."""
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
