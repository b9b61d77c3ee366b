"""What a native CPU kernel does for a spec, counted, and what each piece costs: the model behind the policy.

Input: a row's key, a spec, threads. Output: nanoseconds by term (products, gathering, ...). The costs per piece are
fitted to measured times by `bench/kernels.py --results DIR --fit`, which writes costs.json beside this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from profkit.ops.spec import Spec

COSTS_FILE = Path(__file__).with_name("costs.json")
SCHEMA = "profkit.native_costs/1"
PRODUCTS, GATHERED, RESULTS = "products", "gathering", "results"
WEIGHTS, CALL, THREADS = "weights", "the call", "waking threads"
INPUTS, OUTPUT_TRANSFORM, INPUT_TRANSFORM = "reading inputs", "output transform", "input transform"
NOT_SHARED = (CALL, THREADS)
"""Terms that more threads do not divide."""
LANES = {"generic": 4, "neon": 4, "avx2": 8, "avx512": 16}
"""float32 values of a vector. Tiles are several vectors wide and compute, at the edge, only those they have."""
TILE_ROWS = 6
FEW_ROWS = 4
"""Most rows of A that are multiplied without register tiles (cpu/skinny_gemm.inl)."""
CUDA_WINOGRAD_SIDE = 6
"""The CUDA kernel has one size of tiles and does not name it (cuda/winograd_transform.cuh)."""
Terms = dict[str, float]


@cache
def known_costs() -> Mapping[str, Mapping[str, float]]:
    """Nanoseconds per piece by `cost_name`, as fitted; none when the file is not there or is of another version."""
    try:
        costs = _contents()["costs"].items()
        return {name: item["ns"] for name, item in costs}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


@cache
def costs_origin() -> str:
    """Machine, date and commit of the measurements behind the costs; empty where the file does not say."""
    try:
        return "{machine} ({date}, commit {commit})".format_map(_contents()["fitted"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""


def _contents() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(COSTS_FILE.read_text(encoding="utf-8"))
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']!r}, not {SCHEMA!r}")
    return data


def cost_name(key: str, spec: Spec) -> str:
    """Which costs belong to a kernel on this spec: inner loops differ by direction, layout and mode."""
    words = [getattr(spec, name) for name in ("direction", "layout", "mode") if hasattr(spec, name)]
    if spec.op == "matmul":  # with few rows memory is the limit, not arithmetic
        words.append("few rows" if getattr(spec, "m", 0) <= FEW_ROWS else "many rows")
    return " ".join((key, *words))


def terms(key: str, spec: Spec, lanes: int, packed: bool = False) -> Terms:
    """Pieces of work, by term, of one call; `spec` as the kernel sees it, in its own layout."""
    count = _COUNTERS.get(spec.op, _elements)(key, spec, lanes)
    if packed:
        count[WEIGHTS] = 0.0
    return {**count, CALL: 1.0}


def shared_terms(count: Mapping[str, float], threads: int) -> Terms:
    """What the slowest thread does of it."""
    shared = {name: value if name in NOT_SHARED else value / threads for name, value in count.items()}
    return {**shared, THREADS: float(threads > 1)}


def nanoseconds(cost: Mapping[str, float], count: Mapping[str, float], threads: int) -> Terms:
    """Estimated time by term."""
    return {name: cost.get(name, 0.0) * value for name, value in shared_terms(count, threads).items()}


@dataclass(frozen=True)
class Winograd:
    """Sizes of a Winograd kernel on one spec. A stride s is s x s phases of the image, as good as further channels."""

    side: int
    """Of the tiles that are transformed."""
    tiles: int
    """Of one image."""
    phases: int

    @property
    def points(self) -> int:
        """Products per tile, channel and filter."""
        return self.side**2


def winograd_of(key: str, spec: Any) -> Winograd | None:
    """By the kernel's name: the side of the tiles that it transforms, winograd_6x6; None for other kernels."""
    found = re.search(r"/winograd(?:_(\d+)x\1)?(?:/|$)", key)
    if found is None:
        return None
    side = int(found[1] or CUDA_WINOGRAD_SIDE)
    taps = [-(-size // stride) for size, stride in zip(spec.kernel_size, spec.stride)]
    rows, columns = (max(1, side - count + 1) for count in taps)
    height, width = spec.window.out_size if spec.direction != "input-gradient" else (spec.height, spec.width)
    return Winograd(side, -(-height // rows) * -(-width // columns), prod(spec.stride))


def winograd_flops(sizes: Winograd, spec: Any) -> float:
    """Operations of the products of transformed tiles, which no kernel of these tiles can avoid; no transforms."""
    channels = spec.in_channels // spec.groups * spec.out_channels
    return float(2 * spec.batch * sizes.tiles * sizes.points * sizes.phases * channels)


def fewer_products(key: str, spec: Any) -> float:
    """How many times fewer multiply-adds than the textbook's a Winograd kernel does on this spec, borders included."""
    sizes = winograd_of(key, spec)
    if sizes is None:
        return 1.0
    positions = prod(spec.window.out_size) if spec.direction != "input-gradient" else spec.height * spec.width
    return float(positions * prod(spec.kernel_size)) / (sizes.tiles * sizes.points * sizes.phases)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _conv2d(key: str, spec: Any, lanes: int) -> Terms:
    height, width = spec.window.out_size
    channels, filters = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.direction == "input-gradient":
        channels, filters = filters, channels
    # Out channels are the tile's rows on planes, its columns on pixels. Pairs of vectors fit the measured times of
    # most forward kernels a little better than single ones.
    pair = 2 * lanes
    held = _round_up(filters, TILE_ROWS if spec.layout == "NCHW" else pair)
    taps = prod(spec.kernel_size)
    positions = spec.batch * height * width
    weights = spec.groups * filters * channels * taps
    inputs = float(sum(map(prod, spec.input_shapes().values())))
    sizes = winograd_of(key, spec)
    if sizes is not None:
        values = spec.groups * spec.batch * sizes.tiles * sizes.points
        return {
            PRODUCTS: float(values * channels * sizes.phases * _round_up(filters, pair)),
            INPUT_TRANSFORM: float(values * channels * sizes.phases),
            OUTPUT_TRANSFORM: float(values * filters),
            WEIGHTS: float(weights / taps * sizes.points * sizes.phases),
        }
    gathered = 0 if "direct" in key else spec.groups * positions * channels * taps
    return {
        PRODUCTS: float(spec.groups * positions * channels * taps * held),
        GATHERED: float(gathered),
        INPUTS: inputs - weights,
        RESULTS: float(prod(spec.output_shape())),
        WEIGHTS: float(weights),
    }


def _matmul(key: str, spec: Any, lanes: int) -> Terms:
    """A is read in place, B packed once or, by few tiles of rows, read from far away."""
    rows, columns = _round_up(spec.m, TILE_ROWS), _round_up(spec.n, lanes)
    return {
        PRODUCTS: float(spec.batch * rows * columns * spec.k),
        INPUTS: float(spec.batch * spec.m * spec.k),
        WEIGHTS: float(spec.batch * spec.k * spec.n),
        RESULTS: float(spec.batch * spec.m * spec.n),
    }


def _pool2d(key: str, spec: Any, lanes: int) -> Terms:
    output = prod(spec.output_shape())
    taps = sum(spec.kernel_size)  # rows, then columns
    inputs = float(sum(map(prod, spec.input_shapes().values())))
    return {PRODUCTS: float(output * taps), INPUTS: inputs, RESULTS: float(output)}


def _elements(key: str, spec: Spec, lanes: int) -> Terms:
    return {RESULTS: float(prod(spec.output_shape()))}


_COUNTERS = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "pool2d": _pool2d,
}
