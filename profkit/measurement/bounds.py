"""The least time that an operator can take by peak arithmetic and by bandwidth: the roofline of one spec."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.ops.spec import Spec

COMPUTE, MEMORY = "compute", "memory"


def least_seconds(spec: Spec, peaks: Mapping[str, float], is_cold: bool, cache_bytes: float) -> dict[str, float]:
    """Least seconds by each bound that the peaks know."""
    least = {}
    if peaks.get("flops_per_s"):
        least[COMPUTE] = spec.flops() / peaks["flops_per_s"]
    # Hot arrays that fit the last-level cache do not come from memory, and its bandwidth is no bound.
    if peaks.get("bytes_per_s") and (is_cold or spec.min_bytes() > cache_bytes):
        least[MEMORY] = spec.min_bytes() / peaks["bytes_per_s"]
    return least


def binding(least: Mapping[str, float]) -> str:
    """Which bound sets the least possible time; nothing when none is known."""
    return max(least, key=lambda name: least[name], default="")
