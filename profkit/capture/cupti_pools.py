"""CUDA's memory pools: their sizes over time in, one summary of each pool out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from profkit.capture.schema import Column

_MADE, _DESTROYED, _TRIMMED = 1, 2, 3  # as CUPTI numbers what happens to a pool


def memory_pools(pools: Mapping[str, Column]) -> list[dict[str, Any]]:
    """For each pool of each process the most it reserved of the device's memory, how much of that allocations used at
    most, and what happened to it."""
    if not len(pools["address"]):
        return []
    keys = np.stack([pools[name].astype(np.uint64) for name in ("process", "device", "address")])
    _, pool_of, counts = np.unique(keys, axis=1, return_inverse=True, return_counts=True)
    rows_of_each = np.split(np.argsort(pool_of.ravel(), kind="stable"), np.cumsum(counts)[:-1])
    return [_summary(pools, rows) for rows in rows_of_each]


def _summary(pools: Mapping[str, Column], rows: Column) -> dict[str, Any]:
    operations = pools["operation"][rows]
    last = rows[np.argsort(pools["time_ns"][rows], kind="stable")[-1]]
    return {
        "process": int(pools["process"][last]),
        "device": int(pools["device"][last]),
        "address": int(pools["address"][last]),
        "reserved_peak_bytes": int(pools["reserved_bytes"][rows].max()),
        "used_peak_bytes": int(pools["used_bytes"][rows].max()),
        "reserved_end_bytes": 0 if pools["operation"][last] == _DESTROYED else int(pools["reserved_bytes"][last]),
        "made": int(np.count_nonzero(operations == _MADE)),
        "destroyed": int(np.count_nonzero(operations == _DESTROYED)),
        "trimmed": int(np.count_nonzero(operations == _TRIMMED)),
    }
