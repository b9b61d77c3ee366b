"""The least time that an operator can take by peak arithmetic and by bandwidth: the roofline of one spec."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod
from typing import Any

from profkit.frameworks.native.costs import winograd_flops, winograd_of
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec

COMPUTE, MEMORY = "compute", "memory"
DIRECT = "direct"
BEYOND_MACHINE = "faster than the machine"
BEYOND_FACTOR = 1.25
"""A measured peak is too low by less than this, or by more only on a machine that was busy and says so."""
STRASSEN_BLOCK = 32
"""Products of smaller matrices are not divided further by anybody."""


def least_seconds(
    spec: Spec, peaks: Mapping[str, float], is_cold: bool, cache_bytes: float, flops: float | None = None
) -> dict[str, float]:
    """Least seconds by each bound that the peaks know; `flops` where a method needs others than the direct one."""
    least = {}
    if peaks.get("flops_per_s"):
        least[COMPUTE] = (spec.least_flops() if flops is None else flops) / peaks["flops_per_s"]
    # Hot arrays that fit the last-level cache do not come from memory, so its bandwidth is not a bound.
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
    if spec.op != "conv2d" or parts_of(key).framework != "native":
        return ("", spec.least_flops())
    sizes = winograd_of(key, spec)
    if sizes is None:
        return (DIRECT, spec.least_flops())
    return (f"Winograd {sizes.side}x{sizes.side}", winograd_flops(sizes, spec))


def least_seconds_of_any(spec: Spec, peaks: Mapping[str, float], is_cold: bool, cache_bytes: float) -> float:
    """Below the time of every known algorithm; 0 where the machine's peaks are not known."""
    least = least_seconds(spec, peaks, is_cold, cache_bytes, least_flops_of_any(spec))
    return max(least.values(), default=0.0)


def least_flops_of_any(spec: Any) -> float:
    """Operations that no known algorithm avoids: direct, Winograd, FFT, each with Strassen's products of matrices.

    However large the tiles of Winograd or of an FFT, each output of a channel and filter needs a product; transforms
    are not counted. Whatever an operator does, it loads its inputs, vectors as fast as they are multiplied and added.
    """
    loads = float(sum(prod(shape) for shape in spec.input_shapes().values()))
    if spec.op == "matmul":
        return max(loads, 2.0 * float(spec.batch * spec.m * spec.n * spec.k) * strassen_share(spec.m, spec.n, spec.k))
    if spec.op != "conv2d":
        return loads
    channels, filters = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    rows, columns = spec.window.out_size
    # Of a gradient of the input: at least one product for each element of dy. Of weights: one for each tap, as tiles
    # of an FFT over the whole image would do, and no fewer than one for an image, channel and filter.
    positions = rows * columns if spec.direction != "weight-gradient" else min(prod(spec.kernel_size), rows * columns)
    products = float(spec.batch * spec.groups * positions * channels * filters)
    return max(loads, 2.0 * products * strassen_share(spec.batch * positions, channels, filters))


def strassen_share(*sizes: int) -> float:
    """Share of products that is left when matrices are halved down to blocks, seven products of eight each time."""
    levels = max(0, int(log2(min(sizes) / STRASSEN_BLOCK))) if min(sizes) > STRASSEN_BLOCK else 0
    return float((7.0 / 8.0) ** levels)
