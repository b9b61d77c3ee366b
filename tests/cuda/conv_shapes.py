"""Convolutions for emulated kernels: small, odd, and always the same. Every list holds distinct specs."""

from __future__ import annotations

import random
from typing import Any

from profkit.errors import SpecError
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d

DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
LAYOUTS = ("NCHW", "NHWC")
_VARIANTS = [(direction, layout) for direction in DIRECTIONS for layout in LAYOUTS]
_BASE = {"batch": 2, "in_channels": 3, "out_channels": 5, "height": 9, "width": 8, "kernel_size": 3, "padding": 0}

# What breaks index arithmetic, one thing at a time.
_CORNERS: tuple[dict[str, Any], ...] = (
    {"batch": 1, "in_channels": 1, "out_channels": 1, "height": 1, "width": 1, "kernel_size": 1},
    {"batch": 3, "height": 1, "width": 1, "padding": 1},
    {"kernel_size": 1, "in_channels": 8, "out_channels": 8},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": 1, "stride": 5, "height": 12, "width": 13},
    {"padding": "same"},
    {"kernel_size": 5, "padding": 2, "stride": 1},
    {"kernel_size": 5, "padding": 2, "stride": 2},
    {"kernel_size": 5, "padding": 2, "stride": 3},
    {"kernel_size": 5, "padding": 2, "stride": 5, "height": 16, "width": 16},
    {"kernel_size": 2, "stride": 5, "height": 13, "width": 12},
    {"kernel_size": 2, "stride": "1x3", "padding": 4},
    {"kernel_size": 3, "padding": 3, "height": 4, "width": 5},
    {"kernel_size": "3x4", "padding": "1x2x0x3"},
    {"kernel_size": "2x5", "padding": "0x3x4x1", "stride": "3x2"},
    {"height": 12, "width": 11, "dilation": "2x3", "padding": 2},
    {"height": 12, "width": 13, "dilation": 2, "stride": 2, "padding": 2},
    {"height": 13, "width": 14, "dilation": "3x2", "stride": "2x3", "padding": "4x1x0x2"},
    {"height": 11, "width": 12, "dilation": 2, "stride": 4, "padding": 1},
    {"in_channels": 6, "out_channels": 9, "groups": 3, "padding": 1},
    {"in_channels": 8, "out_channels": 8, "groups": 2, "padding": 1, "stride": 2},
    {"in_channels": 4, "out_channels": 4, "groups": 4, "padding": 1},
    {"in_channels": 3, "out_channels": 6, "groups": 3, "stride": 2, "kernel_size": 5, "padding": 2},
    {"height": 17, "kernel_size": "7x1", "stride": "2x1"},
    {"width": 17, "kernel_size": "1x7", "padding": "0x0x3x3"},
    {"in_channels": 2, "height": 13, "width": 14, "kernel_size": 11, "stride": 4, "padding": 2},
    {"in_channels": 17, "out_channels": 33, "padding": 1},
    {"in_channels": 33, "out_channels": 17, "height": 5, "width": 5, "padding": 1},
    {"in_channels": 4, "out_channels": 12, "padding": 1, "height": 7, "width": 7},
    {"batch": 1, "out_channels": 130, "height": 4, "width": 4, "kernel_size": 2},
    {"batch": 5, "height": 6, "width": 7, "stride": "2x1", "padding": "1x0x0x1"},
    {"batch": 1, "height": 13, "width": 11, "in_channels": 2, "kernel_size": 4, "stride": 3, "padding": 5},
)
_EPILOGUES = ((True, "none"), (False, "relu"), (True, "relu"))


def conv_specs() -> list[Conv2d]:
    """The corners in every direction and layout, bias and ReLU, and 200 random shapes: more than 380 specs."""
    corners = [_spec(corner, *variant) for corner in _CORNERS for variant in _VARIANTS]
    finished = [
        _spec({**_CORNERS[place * 5], "bias": bias, "activation": activation}, FORWARD, LAYOUTS[place % 2])
        for place, (bias, activation) in enumerate(_EPILOGUES * 2)
    ]
    return _distinct([*corners, *finished, *_random_specs(200, seed=1)])


def few_conv_specs() -> list[Conv2d]:
    """Every corner in one direction and layout: for sanitizers, which are ten times slower."""
    return [
        _spec(corner, DIRECTIONS[place % len(DIRECTIONS)], LAYOUTS[place // len(DIRECTIONS) % len(LAYOUTS)])
        for place, corner in enumerate(_CORNERS)
    ]


def unit_stride_specs() -> list[Conv2d]:
    """3x3 and 5x5 filters with stride 1: what Winograd's algorithm is for."""
    square = {"stride": 1, "dilation": 1, "groups": 1}
    return _distinct([*_random_specs(120, 2, kernel_size=3, **square), *_random_specs(100, 3, kernel_size=5, **square)])


def depthwise_specs() -> list[Conv2d]:
    """One filter or more for every input channel; half of them of the sizes that have kernels of their own."""
    specs = []
    for multiplier, seed in ((1, 4), (2, 5), (3, 6)):
        for channels in (1, 2, 3, 4, 5, 8, 12, 33):
            sizes = {"in_channels": channels, "out_channels": channels * multiplier, "groups": channels}
            specs += _random_specs(6, seed * 100 + channels, **sizes)
            plain = {"kernel_size": (3, 5)[channels % 2], "stride": 1 + channels // 2 % 2, "dilation": 1}
            specs += _random_specs(6, seed * 1000 + channels, **sizes, **plain)
    return _distinct(specs)


def long_specs() -> list[Conv2d]:
    """Weight gradients over thousands of positions, which kernels split between blocks."""
    plain: dict[str, Any] = {"batch": 5, "in_channels": 2, "out_channels": 3, "height": 23, "width": 25, "padding": 1}
    alone = {**plain, "out_channels": 4, "groups": 2}
    shapes = [plain, {**plain, "kernel_size": "2x3"}, alone, {**alone, "kernel_size": "1x4"}]
    return [_spec(shape, WEIGHT_GRADIENT, layout) for shape in shapes for layout in LAYOUTS]


def _spec(shape: dict[str, Any], direction: str, layout: str) -> Conv2d:
    return Conv2d(**{**_BASE, **shape, "direction": direction, "layout": layout})


def _random_specs(count: int, seed: int, **fixed: Any) -> list[Conv2d]:
    """Shapes that are valid, directions and layouts in turn."""
    dice = random.Random(seed)
    specs: list[Conv2d] = []
    while len(specs) < count:
        direction, layout = _VARIANTS[len(specs) % len(_VARIANTS)]
        try:
            spec = _spec({**_random_shape(dice), **fixed}, direction, layout)
        except SpecError:
            continue  # the filter is larger than the padded image
        specs.append(spec)
    return specs


def _random_shape(dice: random.Random) -> dict[str, Any]:
    groups = dice.choice((1, 1, 1, 2, 3))
    return {
        "batch": dice.randint(1, 4),
        "in_channels": groups * dice.choice((1, 2, 3, 4, 5, 8, 11)),
        "out_channels": groups * dice.choice((1, 2, 4, 7, 8, 12, 19)),
        "height": dice.randint(1, 15),
        "width": dice.randint(1, 15),
        "kernel_size": (dice.randint(1, 5), dice.randint(1, 5)),
        "stride": (dice.choice((1, 1, 2, 3, 5)), dice.choice((1, 1, 2, 3, 5))),
        "padding": tuple(dice.randint(0, 3) for _ in range(4)),
        "dilation": (dice.choice((1, 1, 1, 2, 3)), dice.choice((1, 1, 1, 2, 3))),
        "groups": groups,
    }


def _distinct(specs: list[Conv2d]) -> list[Conv2d]:
    return list(dict.fromkeys(specs))
