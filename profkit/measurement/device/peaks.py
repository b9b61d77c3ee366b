"""A GPU's theoretical peak, clocks times units. It is not measured, and rows say so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# float32 multiply-adds per multiprocessor and cycle, by compute capability (CUDA programming guide, throughput of
# arithmetic instructions).
_LANES = {70: 64, 72: 64, 75: 64, 80: 64, 86: 128, 87: 128, 88: 128, 89: 128, 90: 128, 100: 128, 103: 128, 110: 128}
_LANES_OF_NEWER = 128


def theoretical_peaks(facts: Mapping[str, Any], dtype: str) -> dict[str, float]:
    """flops_per_s (of float32 on CUDA cores) and bytes_per_s from `profkit._cuda.devices()`; the unknown is left out.

    Tensor cores have other peaks, which no attribute of a device gives: there is no arithmetic peak for 16-bit types.
    """
    peaks: dict[str, float] = {}
    if facts.get("clock_khz") and dtype == "float32":
        lanes = _LANES.get(int(facts["capability"]), _LANES_OF_NEWER)
        peaks["flops_per_s"] = 2.0 * lanes * facts["multiprocessors"] * facts["clock_khz"] * 1e3
    if facts.get("memory_clock_khz") and facts.get("memory_bus_bits"):
        # Two transfers per clock: the attribute gives half of what memory is sold with.
        peaks["bytes_per_s"] = 2.0 * facts["memory_clock_khz"] * 1e3 * facts["memory_bus_bits"] / 8.0
    if facts.get("l2_bytes"):
        peaks["l2_bytes"] = float(facts["l2_bytes"])
    return peaks
