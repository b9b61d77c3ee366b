"""Kernels with vectors where vectors end: random shapes around their width, NaN and infinities, every
instruction set that this processor runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from profkit import _core, ops
from profkit.errors import SpecError
from profkit.ops.activation import FUNCTIONS
from profkit.ops.optimiser_step import OPTIMISERS
from profkit.ops.spec import Spec, max_error, tolerance
from tests.kernels.kernel_calls import run_kernel
from tests.support.processes import succeed

LAYOUTS = st.sampled_from(["NCHW", "NHWC"])
DTYPES = st.sampled_from(["float32", "float64"])
DIRECTIONS = ("forward", "input-gradient")
SIZES = st.integers(1, 40)
SMALL = st.integers(1, 4)
SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)
MANY = settings(max_examples=150, deadline=None)


@st.composite
def pool_specs(draw: st.DrawFn) -> ops.Pool2d:
    kernel, stride = st.integers(1, 5), st.integers(1, 4)
    while True:
        sides = [draw(SIZES), draw(SIZES)]
        pads = "x".join(str(draw(st.integers(0, 2))) for _ in range(4))
        try:
            return ops.Pool2d(
                draw(SMALL),
                draw(SIZES),
                sides[0],
                sides[1],
                kernel_size=(draw(kernel), draw(kernel)),
                stride=(draw(stride), draw(stride)),
                padding=draw(st.sampled_from([pads, "same", "valid"])),
                mode=draw(st.sampled_from(["max", "average"])),
                layout=draw(LAYOUTS),
                dtype=draw(DTYPES),
            )
        except SpecError:  # larger than the image, or a window of padding only
            continue


def bias_specs() -> st.SearchStrategy[ops.BiasRelu]:
    ways = st.sampled_from(DIRECTIONS)
    return st.builds(ops.BiasRelu, SMALL, SIZES, SIZES, SIZES, layout=LAYOUTS, dtype=DTYPES, direction=ways)


def lrn_specs() -> st.SearchStrategy[ops.LocalResponseNorm]:
    return st.builds(
        ops.LocalResponseNorm,
        SMALL,
        SIZES,
        st.integers(1, 12),
        st.integers(1, 12),
        size=st.integers(1, 12),
        alpha=st.sampled_from([1e-4, 1.0]),
        beta=st.sampled_from([0.5, 0.75, 1.0]),
        k=st.sampled_from([1.0, 2.0]),
        layout=LAYOUTS,
        dtype=DTYPES,
        direction=st.sampled_from(DIRECTIONS),
    )


def softmax_specs() -> st.SearchStrategy[ops.Softmax]:
    # The gradient of a single class is 0, to which no error can be relative.
    return st.builds(ops.Softmax, SIZES, st.integers(2, 200), dtype=DTYPES, direction=st.sampled_from(DIRECTIONS))


def layer_specs() -> st.SearchStrategy[Spec]:
    """Operators of layers other than products and windows. Few values of a channel or row may be nearly equal, which
    cancels in any order of summation: normalisations have more of them."""
    counts, lengths = st.integers(1, 300), st.integers(17, 60)
    ways = st.sampled_from((*DIRECTIONS, "parameter-gradient"))
    images = (st.integers(3, 5), st.integers(1, 40), st.integers(3, 7), st.integers(3, 7))
    sizes = (st.integers(1, 5), st.integers(1, 4), st.integers(1, 20), st.integers(1, 40))
    return st.one_of(
        st.builds(ops.Activation, counts, st.sampled_from(FUNCTIONS), DTYPES, st.sampled_from(DIRECTIONS)),
        st.builds(ops.Add, counts, DTYPES),
        st.builds(ops.OptimiserStep, counts, st.sampled_from(OPTIMISERS), weight_decay=st.just(0.25), dtype=DTYPES),
        st.builds(ops.BatchNorm, *images, layout=LAYOUTS, dtype=DTYPES, direction=ways),
        st.builds(ops.LayerNorm, st.integers(1, 9), lengths, dtype=DTYPES, direction=ways),
        st.builds(
            ops.Embedding, counts, st.integers(1, 20), lengths, DTYPES, st.sampled_from(["forward", "weight-gradient"])
        ),
        st.builds(ops.Lstm, *sizes, returns_sequence=st.booleans(), dtype=DTYPES),
        st.builds(ops.Attention, *sizes, st.booleans(), DTYPES),
    )


ANY_SPEC = st.one_of(pool_specs(), bias_specs(), lrn_specs(), softmax_specs(), layer_specs())


def fast_keys(spec: Spec) -> list[str]:
    """Every kernel for the spec but the reference."""
    keys = [key for key in _core.kernels(spec.op) if not key.endswith("/reference")]
    return [key for key in keys if not _core.supports(key, spec.params())]


def run_on(key: str, spec: Spec, arrays: dict[str, NDArray[Any]], threads: int = 1) -> NDArray[Any]:
    """The kernel's result for these inputs."""
    output = np.full(spec.output_shape(), np.nan, spec.numpy_dtype)
    workspace = np.zeros(_core.workspace_bytes(key, spec.params(), threads) + 64, np.uint8)
    start = -workspace.ctypes.data % 64
    _core.bind(key, spec.params(), list(arrays.values()), output, workspace[start:], threads)()
    return output


def with_special_values(spec: Spec, seed: int, share: float) -> dict[str, NDArray[Any]]:
    """The spec's inputs, some of whose values are NaN, infinite or zeros of either sign."""
    generator = np.random.default_rng(seed)
    arrays = {name: array.copy() for name, array in spec.make_inputs().items()}
    for array in arrays.values():
        chosen = generator.random(array.shape) < share
        array[chosen] = generator.choice(SPECIAL, chosen.sum())
    return arrays


@MANY
@given(spec=ANY_SPEC, threads=st.integers(1, 3))
def test_random_shapes_agree_with_the_reference(spec: Spec, threads: int) -> None:
    for key in fast_keys(spec):
        result = run_kernel(key, spec, threads)

        expected = spec.reference(spec.make_inputs())
        assert max_error(result, expected) <= tolerance(spec.numpy_dtype, spec.reduction_length()), key


@MANY
@given(
    spec=st.one_of(pool_specs().filter(lambda spec: spec.mode == "max"), bias_specs()),
    seed=st.integers(0, 99),
    share=st.sampled_from([0.002, 0.1, 1.0]),
)
def test_maxima_and_relu_keep_nan_and_infinities_as_the_reference_does(spec: Spec, seed: int, share: float) -> None:
    arrays = with_special_values(spec, seed, share)

    expected = run_on(f"{spec.op}/native/cpu/reference", spec, arrays)

    for key in fast_keys(spec):
        np.testing.assert_array_equal(run_on(key, spec, arrays), expected, err_msg=key)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_relu_keeps_a_negative_zero_and_nothing_else_below_zero(layout: str) -> None:
    spec = ops.BiasRelu(1, 16, 4, 4, layout=layout)
    x = np.tile(np.array([-0.0, 0.0, -1.0, 1.0], np.float32), 64).reshape(spec.output_shape())

    for key in _core.kernels("bias_relu"):
        result = run_on(key, spec, {"x": x, "b": np.full(16, -0.0, np.float32)})

        assert result.tobytes() == np.where(x < 0, np.float32(0), x).tobytes(), key


@MANY
@given(
    rows=st.integers(1, 5),
    columns=st.integers(2, 70),
    at=st.integers(0, 69),
    value=st.sampled_from(SPECIAL[:4]),
    dtype=DTYPES,
)
def test_softmax_of_a_row_with_no_number_spoils_that_row_only(
    rows: int, columns: int, at: int, value: float, dtype: str
) -> None:
    spec = ops.Softmax(rows, columns, dtype=dtype)
    x = spec.make_inputs()["x"].copy()
    x[0, at % columns] = value

    for key in fast_keys(spec):
        result = run_on(key, spec, {"x": x})

        assert np.all(np.isfinite(result[1:])), key
        if value == -np.inf:
            assert result[0, at % columns] == 0
            np.testing.assert_allclose(result[0].sum(), 1, rtol=1e-5)
        else:
            assert np.all(np.isnan(result[0])), key


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_of_numbers_far_apart_neither_overflows_nor_loses_the_small_ones(dtype: str) -> None:
    spec = ops.Softmax(1, 48, dtype=dtype)
    x = np.linspace(-90, 0, 48).astype(dtype)[None] * np.array(1.0, dtype)
    exact = np.exp(x.astype(np.float64))
    exact /= exact.sum()

    for key in fast_keys(spec):
        for shift in (0.0, 500.0, -500.0):
            result = run_on(key, spec, {"x": x + np.array(shift, dtype)})

            normal = exact > 2 * np.finfo(dtype).tiny
            relative = 40 * np.finfo(dtype).eps if shift == 0 else 600 * np.finfo(dtype).eps
            np.testing.assert_allclose(result[normal], exact[normal], rtol=relative)


@pytest.mark.parametrize("level", _core.cpu_features()["simd_processor"])
def test_all_of_this_holds_at_every_simd_level(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if level not in _core.cpu_features()["simd_compiled"]:
        pytest.skip(f"this build has no code for {level}; one with PROFKIT_ALL=ON has")
    if level == _core.cpu_features()["simd_active"]:
        pytest.skip("the tests above ran at this level")
    monkeypatch.setenv("PROFKIT_SIMD", level)  # the level is chosen once per process

    succeed(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", str(Path(__file__)), "-k", "not level"]
    )
