"""The least time that an operator can take by peak arithmetic and by bandwidth: the roofline of one spec."""

from __future__ import annotations

from collections.abc import Mapping

from profkit.frameworks.native.costs import winograd_flops, winograd_of
from profkit.ops.spec import Spec

COMPUTE, MEMORY = "compute", "memory"
DIRECT = "direct"


def least_seconds(
    spec: Spec, peaks: Mapping[str, float], is_cold: bool, cache_bytes: float, flops: float | None = None
) -> dict[str, float]:
    """Least seconds by each bound that the peaks know; `flops` where a method needs others than the direct one."""
    least = {}
    if peaks.get("flops_per_s"):
        least[COMPUTE] = (spec.least_flops() if flops is None else flops) / peaks["flops_per_s"]
    # Hot arrays that fit the last-level cache do not come from memory, and its bandwidth is no bound.
    if peaks.get("bytes_per_s") and (is_cold or spec.min_bytes() > cache_bytes):
        least[MEMORY] = spec.min_bytes() / peaks["bytes_per_s"]
    return least


def binding(least: Mapping[str, float]) -> str:
    """Which bound sets the least possible time; nothing when none is known."""
    return max(least, key=lambda name: least[name], default="")


def method_of(key: str, spec: Spec) -> tuple[str, float]:
    """How a row computes, and the operations that this cannot avoid; by which method a framework works is not known.

    Everything but profkit's Winograd kernels counts as direct.
    """
    if spec.op != "conv2d" or key.split("/")[1] != "native":
        return ("", spec.least_flops())
    sizes = winograd_of(key, spec)
    if sizes is None:
        return (DIRECT, spec.least_flops())
    return (f"Winograd {sizes.side}x{sizes.side}", winograd_flops(sizes, spec))
