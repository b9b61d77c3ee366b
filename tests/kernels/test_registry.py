"""Every kernel of the native registry, on odd shapes, against the float64 reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from profkit import _core
from profkit.errors import UnsupportedError
from profkit.ops import odd_specs
from profkit.ops.conv2d import Conv2d
from profkit.ops.dtypes import is_narrow
from tests.kernels.kernel_calls import (
    FEWEST,
    OPERATORS,
    all_keys,
    assert_right,
    describe,
    in_every_direction,
    keys_of,
    run_kernel,
    taken,
    taken_odd_specs,
    takes,
)

THREADS = (1, 2, 3)
CONVOLUTIONS = [*keys_of("conv2d"), "conv2d/native/cpu/reference"]


def conv_grid() -> list[Conv2d]:
    """Strides x geometries x dtypes x layouts x directions, on sizes that no tile divides."""
    geometries: tuple[dict[str, Any], ...] = (
        {"padding": "0x1x2x0"},
        {"padding": 2, "dilation": 2},
        {"padding": "1x0x1x2", "groups": 2},
        {"padding": "same", "groups": 2, "dilation": "1x3"},
    )
    base: dict[str, Any] = {
        "batch": 2,
        "in_channels": 4,
        "height": 11,
        "width": 9,
        "out_channels": 6,
        "kernel_size": "3x2",
    }
    return [
        spec
        for geometry, stride, dtype in itertools.product(geometries, (1, 2, 3, 5), ("float32", "float64"))
        for spec in in_every_direction(**base, **geometry, stride=stride, dtype=dtype)
    ]


def far_strides() -> list[Conv2d]:
    """Strides far larger than the image."""
    return in_every_direction(
        batch=2, in_channels=3, height=8, width=8, out_channels=5, kernel_size=3, stride=100_000, padding=2
    )


def test_every_kernel_has_a_least_number_of_shapes() -> None:
    assert set(FEWEST) == {key for op in OPERATORS for key in _core.kernels(op)}
    assert all(fewest.odd for fewest in FEWEST.values())


@pytest.mark.parametrize("key", all_keys())
def test_a_kernel_agrees_with_the_reference_on_every_odd_shape_that_it_takes(key: str) -> None:
    assert_right(key, taken_odd_specs(key), THREADS)


@pytest.mark.parametrize("key", CONVOLUTIONS)
def test_a_convolution_agrees_with_the_reference_over_strides_paddings_and_types(key: str) -> None:
    specs = taken(key, conv_grid(), FEWEST[key].grid)

    assert_right(key, specs, THREADS)


@pytest.mark.parametrize("key", all_keys())
def test_what_a_kernel_refuses_it_does_not_run(key: str) -> None:
    op = key.split("/")[0]
    specs = [*odd_specs(op), *(conv_grid() if op == "conv2d" else [])]

    not_refused = []
    for spec, threads in itertools.product((spec for spec in specs if not takes(key, spec)), THREADS):
        try:
            run_kernel(key, spec, threads)
        except UnsupportedError as error:
            if key in str(error):
                continue
        not_refused.append(f"{describe(spec)}, {threads} threads")

    assert not not_refused


@pytest.mark.parametrize("op", OPERATORS)
def test_a_reference_kernel_is_last_and_supports_every_odd_shape_in_float32_and_float64(op: str) -> None:
    key = _core.kernels(op)[-1]

    reasons = {spec: _core.supports(key, spec.params()) for spec in odd_specs(op)}

    assert key == f"{op}/native/cpu/reference"
    for spec, reason in reasons.items():
        assert reason == (
            "profkit's CPU kernels are written for float32 and float64 only" if is_narrow(spec.dtype_word) else ""
        )


@pytest.mark.parametrize("key", all_keys())
def test_a_fixed_thread_count_gives_the_same_bits_every_time(key: str) -> None:
    different = [
        f"{key} on {describe(spec)}, {threads} threads"
        for spec in taken_odd_specs(key)
        for threads in THREADS
        if run_kernel(key, spec, threads).tobytes() != run_kernel(key, spec, threads).tobytes()
    ]

    assert not different


@pytest.mark.parametrize("key", CONVOLUTIONS)
def test_a_stride_far_larger_than_the_image_costs_no_more_than_the_image(key: str) -> None:
    specs = taken(key, far_strides(), FEWEST[key].far)

    assert_right(key, specs, [2])


def test_more_threads_than_work_is_fine() -> None:
    spec = odd_specs("softmax")[0]

    for key in _core.kernels("softmax"):
        result = run_kernel(key, spec, threads=16)

        assert np.all(np.isfinite(result))
