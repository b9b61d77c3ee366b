"""The machine's noise floors: by how much ratios, and times, scatter between runs; kept beside the peaks."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.checked_json import read_kept
from profkit.frameworks.cache import cache_folder
from profkit.measurement.statistics.estimates import Floats

ASSUMED = 0.005
"""Until it was measured: of the pairs of docs/measured/noise_replay.md, some are below and some above it."""
ASSUMED_OF_TIMES = 0.015
"""Times have no partner that shares the machine's slow changes: between 0.5 and 3.1 % in the same recordings."""
AVERAGED_S = (10.0, 15.0, 20.0)


def machine_floor() -> tuple[float, str]:
    """The floor, a standard deviation of log-ratios, and where it is from: `assumed`, or `measured` and when."""
    return _known("floor", ASSUMED)


def machine_time_floor() -> tuple[float, str]:
    """The same of times that are not paired with others."""
    return _known("time_floor", ASSUMED_OF_TIMES)


def _known(name: str, assumed: float) -> tuple[float, str]:
    from profkit.measurement.environment import machine_id  # not at the top: reports import this file and need no floor

    found: Any = read_kept(_path()).get(machine_id())
    try:
        floor, date = float(found[name]), str(found["date"])
    except (TypeError, KeyError, ValueError):
        return assumed, "assumed"
    return (floor, f"measured {date}") if 0.0 < floor < 1.0 else (assumed, "assumed")


def keep_floors(of_ratios: float, of_times: float | None) -> None:
    """For later runs on this machine and build."""
    from profkit.measurement.environment import machine_id
    from profkit.measurement.peaks import write_known

    path = _path()
    found = {"floor": of_ratios, "time_floor": of_times, "date": time.strftime("%Y-%m-%d")}
    write_known(path, {**read_kept(path), machine_id(): found})


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
