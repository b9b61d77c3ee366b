"""Windows: output size and paddings against the formula, and the errors that print it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.errors import SpecError
from profkit.ops import Conv2d, LocalResponseNorm, MatMul, Pool2d, Softmax, Spec
from profkit.ops.window import FORMULA, Window

SIZES = st.tuples(st.integers(1, 24), st.integers(1, 24))
KERNELS = st.tuples(st.integers(1, 6), st.integers(1, 6))
STEPS = st.tuples(st.integers(1, 5), st.integers(1, 5))
PADS = st.tuples(*[st.integers(0, 4)] * 4)


def positions(extent: int, before: int, after: int, reach: int, stride: int) -> list[int]:
    """Where a window of the given reach can start, found by trying."""
    return [start for start in range(-before, extent + after, stride) if start + reach <= extent + after]


@given(SIZES, KERNELS, STEPS, PADS, STEPS)
def test_the_output_has_one_element_per_place_where_the_window_fits(
    size: Any, kernel: Any, stride: Any, pads: Any, dilation: Any
) -> None:
    window = Window(size, kernel, stride, pads, dilation)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    places = [positions(size[i], pads[2 * i], pads[2 * i + 1], reach[i], stride[i]) for i in range(2)]

    if not all(places):
        with pytest.raises(SpecError):
            window.check()
        return
    window.check()

    assert window.out_size == (len(places[0]), len(places[1]))


@given(SIZES, KERNELS, STEPS, STEPS)
def test_same_gives_one_output_per_stride_and_pads_evenly_with_the_odd_one_after(
    size: Any, kernel: Any, stride: Any, dilation: Any
) -> None:
    window = Window(size, kernel, stride, "same", dilation)

    top, bottom, left, right = window.pads

    assert window.out_size == (-(-size[0] // stride[0]), -(-size[1] // stride[1]))
    assert bottom - top in (0, 1)
    assert right - left in (0, 1)


@given(SIZES, KERNELS, STEPS, PADS)
def test_patches_show_what_indexing_by_hand_shows(size: Any, kernel: Any, stride: Any, pads: Any) -> None:
    window = Window(size, kernel, stride, pads)
    if min(window.padded_size[0] - kernel[0], window.padded_size[1] - kernel[1]) < 0:
        return
    image = np.arange(size[0] * size[1], dtype=np.float64).reshape(1, 1, *size)

    patches = window.patches(image, value=-1.0)

    i, j = window.out_size[0] - 1, window.out_size[1] - 1
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            h, w = i * stride[0] + r - pads[0], j * stride[1] + s - pads[2]
            inside = 0 <= h < size[0] and 0 <= w < size[1]
            assert patches[0, 0, i, j, r, s] == (image[0, 0, h, w] if inside else -1.0)


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        (Conv2d, {"stride": 0}, ["stride must be at least 1", "0x0", FORMULA]),
        (Conv2d, {"stride": "2x0"}, ["2x0", FORMULA]),
        (Conv2d, {"kernel_size": 25}, ["16 + 2 + 2 = 20", "1*(25-1)+1 = 25", FORMULA, "// 1 + 1 = -4"]),
        (Conv2d, {"kernel_size": 5, "dilation": 6}, ["6*(5-1)+1 = 25", FORMULA]),
        (Conv2d, {"groups": 3}, ["groups 3 does not divide in_channels 64", "remainder 1", FORMULA]),
        (Conv2d, {"groups": 2, "out_channels": 7}, ["groups 2 does not divide out_channels 7", FORMULA]),
        (Conv2d, {"padding": -1}, ["padding cannot be negative", "-1x-1x-1x-1", FORMULA]),
        (Conv2d, {"padding": "1x2x3"}, ["padding", "'1x2x3'", FORMULA]),
        (Conv2d, {"batch": 0}, ["batch must be at least 1, got 0"]),
        (Conv2d, {"batch": "many"}, ["batch", "'many'"]),
        (Conv2d, {"height": 1.5}, ["height", "1.5"]),
        (Conv2d, {"direction": "backward"}, ["direction", "forward, input-gradient, weight-gradient", "'backward'"]),
        (Conv2d, {"bias": "perhaps"}, ["bias", "yes or no"]),
        (Conv2d, {"dtype": "int8"}, ["dtype", "float32, float64, float16, bfloat16"]),
        (Pool2d, {"stride": 0}, ["stride", "// stride + 1"]),
        (Pool2d, {"height": 2, "padding": 0}, ["height 2 + 0 + 0 = 2", "= 3"]),
        (Pool2d, {"padding": 3}, ["padding only", "height 32", "padding 3 before", "kernel 3"]),
        (Pool2d, {"kernel_size": 1, "stride": 1, "padding": "0x1x0x0"}, ["padding only", "starts at 32", "below 32"]),
        (LocalResponseNorm, {"size": 0}, ["size must be at least 1, got 0"]),
        (LocalResponseNorm, {"k": 0}, ["k 0 above 0"]),
        (LocalResponseNorm, {"alpha": "nan"}, ["alpha", "finite"]),
        (MatMul, {"k": 0}, ["k must be at least 1, got 0", "c[m,n]"]),
        (Softmax, {"rows": -3}, ["rows must be at least 1, got -3"]),
    ],
)
def test_an_impossible_field_or_geometry_is_an_error_with_the_numbers_and_the_formula(
    kind: type[Spec], fields: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(SpecError) as caught:
        kind(**fields)

    for word in words:
        assert word in str(caught.value)


def test_a_window_that_is_mostly_padding_but_sees_the_image_is_allowed() -> None:
    spec = Pool2d(1, 1, 5, 5, (3, 3), (1, 1), (2, 2, 2, 2))

    result = spec.reference({"x": np.arange(25.0).reshape(1, 1, 5, 5)})

    assert result.shape == (1, 1, 7, 7)
    assert np.isfinite(result).all()
    assert result[0, 0, 0, 0] == 0.0


@pytest.mark.parametrize(
    "window",
    [
        Window((7, 9), (3, 5), (2, 1), (1, 1, 2, 2)),
        Window((5, 5), (5, 5), (3, 3), "same"),
        Window((6, 8), (3, 3), (1, 2), (4, 4, 0, 3), (2, 1)),
        Window((4, 4), (2, 2), (2, 2), "valid"),
    ],
    ids=str,
)
def test_taps_inside_are_those_that_meet_ones_under_zero_padding(window: Window) -> None:
    ones = np.ones((1, 1, *window.size))

    assert window.taps_inside() == int(window.patches(ones).sum())
