"""Winograd's convolution: blocks of any size, and what it does not take."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from profkit import _core
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.spec import Spec
from tests.kernels.kernel_calls import assert_right, keys_of, taken

SMALL_TILES, LARGE_TILES = "conv2d/native/cpu/winograd_6x6", "conv2d/native/cpu/winograd_8x8"
KEYS = [key for key in keys_of("conv2d") if key in (SMALL_TILES, LARGE_TILES)]
if not KEYS:
    pytest.skip("the instruction set in use has no Winograd kernel", allow_module_level=True)

# Sizes of which each leaves rests: of tiles, vectors and panels, with several blocks of tiles, and of wide rows.
SHAPES: tuple[dict[str, Any], ...] = (
    {"batch": 3, "in_channels": 64, "height": 16, "width": 16, "out_channels": 40, "kernel_size": 5, "padding": 2},
    {"batch": 2, "in_channels": 48, "height": 13, "width": 13, "out_channels": 30, "kernel_size": 3, "groups": 2},
    {"batch": 2, "in_channels": 33, "height": 15, "width": 17, "out_channels": 17, "kernel_size": 5, "stride": 2},
    {"batch": 1, "in_channels": 3, "height": 50, "width": 200, "out_channels": 9, "kernel_size": 11, "stride": 4},
    {"batch": 1, "in_channels": 5, "height": 9, "width": 700, "out_channels": 4, "kernel_size": 5, "padding": 2},
    {"batch": 1, "in_channels": 700, "height": 7, "width": 7, "out_channels": 20, "kernel_size": 3, "padding": 1},
    {"batch": 2, "in_channels": 4, "height": 40, "width": 41, "out_channels": 24, "kernel_size": 7, "stride": 2},
)


def blocks(key: str, spec: Spec, threads: int) -> list[dict[str, int]]:
    """The default, the fewest tiles, whose unit is the instruction set's, and split sums."""
    known = {item["name"]: item for item in _core.tunables(key, spec.params(), threads)}["positions"]
    return [{}, {"positions": min([known["default"], *known["candidates"]])}, {"kc": 5}]


@pytest.mark.parametrize(("key", "fewest"), [(SMALL_TILES, 14), (LARGE_TILES, 12)])
def test_winograd_is_right_with_blocks_of_any_size(key: str, fewest: int) -> None:
    specs = [
        Conv2d(**fields, layout=layout, bias=True, activation="relu")
        for fields in SHAPES
        for layout in ("NCHW", "NHWC")
    ]

    assert_right(key, taken(key, specs, fewest), [1, 2, 16], partial(blocks, key))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"direction": WEIGHT_GRADIENT}, "weight gradient use implicit_gemm"),
        ({"dilation": 2}, "dilation must be 1"),
        ({"stride": 2, "direction": INPUT_GRADIENT}, "input gradient at stride 1 only"),
        ({"kernel_size": 1, "padding": 0}, "taps per axis"),
        ({"kernel_size": 6}, "taps per axis"),
        ({"kernel_size": 3, "stride": 2}, "3 to 5 taps per axis"),
        ({"kernel_size": "3x5"}, "taps per axis"),
        ({"stride": "1x2"}, "taps per axis"),
        ({"batch": 1, "height": 5, "width": 5, "out_channels": 2}, "64 results and more; got 50"),
        ({"height": 4}, "at least the kernel's size"),
        ({"padding": "5x0x0x0"}, "padded by less"),
    ],
)
@pytest.mark.parametrize("key", KEYS)
def test_winograd_says_what_it_does_not_take(key: str, fields: dict[str, Any], reason: str) -> None:
    assert reason in _core.supports(key, Conv2d(**fields).params())


def test_large_tiles_refuse_sums_too_short_for_their_errors() -> None:
    few, enough = (Conv2d(in_channels=channels, kernel_size=3, padding=1) for channels in (31, 32))

    assert "need a sum over 32 channels" in _core.supports(LARGE_TILES, few.params())
    assert _core.supports(LARGE_TILES, enough.params()) == ""
