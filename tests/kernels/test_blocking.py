"""Shapes larger than the blocks of the fast kernels: several blocks per loop, and more threads than cores."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec
from tests.kernels.kernel_calls import FEWEST, assert_right, in_every_direction, keys_of, taken

# batch, in channels, height, width; then out channels and what is special.
CONVOLUTIONS: tuple[tuple[tuple[int, int, int, int], dict[str, Any]], ...] = (
    # The reduction is longer than one and a half blocks of any instruction set, with bias and ReLU at its ends.
    ((2, 130, 9, 8), {"out_channels": 13, "kernel_size": 3, "padding": 1, "bias": True, "activation": "relu"}),
    ((1, 1300, 3, 5), {"out_channels": 35, "kernel_size": 1, "padding": 0, "bias": True, "activation": "relu"}),
    # As many out channels, which the input gradient reduces over; positions exceed a block of the weight gradient.
    ((1, 20, 34, 31), {"out_channels": 150, "kernel_size": 3, "padding": 1}),
    ((2, 40, 8, 9), {"out_channels": 260, "kernel_size": 3, "padding": 1, "stride": 2, "groups": 2}),
    # The taps of one channel alone are more than a block.
    ((1, 3, 40, 41), {"out_channels": 7, "kernel_size": 19, "padding": 9}),
    # Strides above the residues that are worked out once.
    ((2, 3, 50, 47), {"out_channels": 5, "kernel_size": 3, "padding": 1, "stride": 11}),
    ((2, 3, 40, 47), {"out_channels": 5, "kernel_size": "12x13", "padding": 2, "stride": 9, "dilation": 3}),
    ((2, 4, 5, 6), {"out_channels": 4, "kernel_size": 2, "padding": 6, "stride": 9, "groups": 2}),
    # Rows longer than the stage in which they are sorted, and longer than a block of positions.
    ((1, 2, 3, 1203), {"out_channels": 5, "kernel_size": 3, "padding": 1, "stride": 3}),
    ((1, 2, 3, 5003), {"out_channels": 5, "kernel_size": 3, "padding": 1}),
    # Blocks that end inside an image, and blocks of several images.
    ((9, 3, 30, 31), {"out_channels": 5, "kernel_size": 3, "padding": 1}),
    ((37, 5, 4, 3), {"out_channels": 33, "kernel_size": 3, "padding": 1}),
)
WIDE_TYPE = (CONVOLUTIONS[0], CONVOLUTIONS[6])


def convolutions() -> list[Spec]:
    """Every shape in both layouts and all directions, some of them in float64, too."""
    shapes = [(*shape, "float32") for shape in CONVOLUTIONS] + [(*shape, "float64") for shape in WIDE_TYPE]
    return [
        spec
        for sizes, fields, dtype in shapes
        for spec in in_every_direction(
            **dict(zip(("batch", "in_channels", "height", "width"), sizes)), **fields, dtype=dtype
        )
    ]


def products() -> list[Spec]:
    """Matrices with several blocks of rows, columns and reduction, also few rows and a batch."""
    specs: list[Spec] = [
        MatMul(m, n, k, transpose_a=a, transpose_b=b, bias=True)
        for (m, n, k), a, b in itertools.product(
            ((700, 1500, 777), (5, 1500, 777), (50, 17, 2600)), (False, True), (False, True)
        )
    ]
    return [*specs, MatMul(70, 90, 777, batch=7), MatMul(300, 501, 777, dtype="float64")]


@pytest.mark.parametrize("key", keys_of("conv2d", "matmul"))
def test_a_kernel_is_right_on_shapes_of_several_blocks(key: str) -> None:
    specs = taken(key, convolutions() if key.startswith("conv2d/") else products(), FEWEST[key].several_blocks)

    assert_right(key, specs, [1, 5, 16])
