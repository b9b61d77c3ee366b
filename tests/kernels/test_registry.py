"""Every kernel of the native registry, on odd shapes, against the float64 reference."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from kernel_calls import OPERATORS, all_keys, describe, reference_of, run_kernel

from profkit import _core
from profkit.backends.native_params import native_params
from profkit.errors import UnsupportedError
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.dtypes import is_narrow
from profkit.ops.odd_shapes import odd_specs
from profkit.ops.spec import Spec, max_error, tolerance


def conv_grid() -> list[Spec]:
    """Strides x geometries x layouts x dtypes x directions, on sizes that no tile divides."""
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
        Conv2d(**{**base, **geometry, "stride": stride, "layout": layout, "dtype": dtype, "direction": direction})
        for geometry, stride, layout, dtype, direction in itertools.product(
            geometries,
            (1, 2, 3, 5),
            ("NCHW", "NHWC"),
            ("float32", "float64"),
            (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT),
        )
    ]


def cases() -> list[tuple[str, Spec]]:
    """Every kernel with every shape of its operator."""
    specs = {op: odd_specs(op) for op in OPERATORS}
    specs["conv2d"] += conv_grid()
    return [(key, spec) for key in all_keys() for spec in specs[key.split("/")[0]]]


def ids(pairs: list[tuple[str, Spec]]) -> list[str]:
    """Key and fields of each pair."""
    return [f"{key}-{describe(spec)}" for key, spec in pairs]


CASES = cases()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("key", "spec"), CASES, ids=ids(CASES))
def test_kernel_agrees_with_the_reference_or_says_why_it_does_not_run(key: str, spec: Spec, threads: int) -> None:
    if _core.supports(key, native_params(spec)):
        with pytest.raises(UnsupportedError, match=key):
            run_kernel(key, spec, threads)
        return

    result = run_kernel(key, spec, threads)

    assert max_error(result, reference_of(spec)) <= tolerance(spec.numpy_dtype, spec.reduction_length())


@pytest.mark.parametrize("op", OPERATORS)
def test_a_reference_kernel_is_last_and_supports_every_odd_shape_in_float32_and_float64(op: str) -> None:
    key = _core.kernels(op)[-1]

    reasons = {spec: _core.supports(key, native_params(spec)) for spec in odd_specs(op)}

    assert key == f"{op}/native/cpu/reference"
    for spec, reason in reasons.items():
        assert reason == (
            "profkit's CPU kernels are written for float32 and float64 only" if is_narrow(spec.dtype_word) else ""
        )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("key", all_keys())
def test_a_fixed_thread_count_gives_the_same_bits_every_time(key: str, threads: int) -> None:
    specs = [spec for spec in odd_specs(key.split("/")[0]) if not _core.supports(key, native_params(spec))]

    first = [run_kernel(key, spec, threads).tobytes() for spec in specs]
    second = [run_kernel(key, spec, threads).tobytes() for spec in specs]

    assert first == second


@pytest.mark.parametrize("direction", [FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("key", _core.kernels("conv2d"))
def test_a_stride_far_larger_than_the_image_costs_no_more_than_the_image(key: str, layout: str, direction: str) -> None:
    spec = Conv2d(
        2, 3, 8, 8, out_channels=5, kernel_size=3, stride=100_000, padding=2, layout=layout, direction=direction
    )
    if _core.supports(key, native_params(spec)):
        pytest.skip(f"{key} does not offer this")

    result = run_kernel(key, spec, 2)

    assert max_error(result, reference_of(spec)) <= tolerance(spec.numpy_dtype, spec.reduction_length())


def test_more_threads_than_work_is_fine() -> None:
    spec = odd_specs("softmax")[0]

    for key in _core.kernels("softmax"):
        result = run_kernel(key, spec, threads=16)

        assert np.all(np.isfinite(result))
