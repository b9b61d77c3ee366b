"""The least time of an operator, by the direct method and by Winograd's."""

from __future__ import annotations

import pytest

from profkit.measurement.bounds import (
    COMPUTE,
    DIRECT,
    MEMORY,
    binding,
    least_flops_of_any,
    least_seconds,
    least_seconds_of_any,
    method_of,
    strassen_share,
)
from profkit.ops import Conv2d, MatMul, Pool2d

PEAKS = {"flops_per_s": 1e9, "bytes_per_s": 1e9}
# 8 x 8 outputs, 3 x 3 taps; 22 x 22 pairs of an output and a tap lie inside the image.
SMALL = Conv2d(batch=2, in_channels=4, height=8, width=8, out_channels=6, kernel_size=3, padding=1)


def test_the_direct_bound_leaves_out_products_with_the_padding() -> None:
    assert SMALL.flops() == 2 * 2 * 4 * 6 * 64 * 9
    assert least_seconds(SMALL, PEAKS, False, 1e9) == {COMPUTE: 2 * 2 * 4 * 6 * 22 * 22 / 1e9}


def test_bytes_bound_only_what_comes_from_memory() -> None:
    assert set(least_seconds(SMALL, PEAKS, True, 1e9)) == {COMPUTE, MEMORY}
    assert set(least_seconds(SMALL, PEAKS, False, 100)) == {COMPUTE, MEMORY}
    assert binding(least_seconds(SMALL, {**PEAKS, "bytes_per_s": 1.0}, True, 0)) == MEMORY


@pytest.mark.parametrize(
    ("key", "method", "products"),
    [
        ("native/cpu/winograd_6x6", "Winograd 6x6", 4 * 36),  # tiles of 4 x 4 outputs
        ("native/cpu/winograd_6x6/nhwc/packed", "Winograd 6x6", 4 * 36),
        ("native/cuda/winograd", "Winograd 6x6", 4 * 36),
        ("native/cpu/winograd_8x8", "Winograd 8x8", 4 * 64),  # of 6 x 6, so that the last ones are mostly empty
        ("native/cpu/direct", DIRECT, 22 * 22),
        ("candidate/cpu/winograd_6x6", "", 22 * 22),  # a file's name says nothing of its method
        ("torch/cpu", "", 22 * 22),
    ],
)
def test_a_winograd_kernel_has_the_products_of_its_tiles(key: str, method: str, products: int) -> None:
    assert method_of(f"conv2d/{key}", SMALL) == (method, 2 * 2 * 4 * 6 * products)


def test_a_stride_shares_the_taps_out_among_as_many_images() -> None:
    spec = SMALL.replaced(stride=2, kernel_size=5, padding=2, groups=2)  # 4 x 4 outputs, 3 x 3 of the 5 x 5 taps each

    assert method_of("conv2d/native/cpu/winograd_6x6", spec) == ("Winograd 6x6", 2 * 2 * 2 * (2 * 3) * 36 * 4)


def test_other_operators_have_one_method() -> None:
    spec = MatMul(m=2, n=3, k=4)

    assert method_of("matmul/native/cpu/blocked", spec) == ("", spec.flops())


def test_no_algorithm_is_above_the_bound_of_any() -> None:
    for spec in (SMALL, Conv2d(stride=2), Conv2d(direction="weight-gradient"), Conv2d(kernel_size=1, padding=0)):
        any_flops = least_flops_of_any(spec)

        assert 0 < any_flops <= spec.least_flops()
        for side in (4, 6, 8):
            assert any_flops <= method_of(f"conv2d/native/cpu/winograd_{side}x{side}", spec)[1]


def test_strassen_halves_down_to_small_blocks() -> None:
    assert strassen_share(32, 4096, 4096) == 1.0
    assert strassen_share(64, 4096, 4096) == 7 / 8
    assert least_flops_of_any(MatMul(256, 256, 256)) == 2 * 256**3 * (7 / 8) ** 3


def test_what_computes_little_must_load_its_inputs() -> None:
    spec = Pool2d(batch=1, channels=2, height=8, width=8)

    assert least_seconds_of_any(spec, PEAKS, False, 1e9) == 2 * 8 * 8 / 1e9
    assert least_seconds_of_any(spec, {}, False, 1e9) == 0.0
