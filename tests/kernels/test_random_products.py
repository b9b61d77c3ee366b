"""Fast matrix products on random specs: edges of tiles, panels and blocks, every transpose, B packed ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit import _core
from profkit.ops.matmul import MatMul
from profkit.ops.spec import max_error, tolerance
from profkit.selftests.guarded import HostMemory
from tests.kernels.kernel_calls import inputs_of, keys_of, reference_of, run_kernel

KERNELS = keys_of("matmul")
SIDES = st.one_of(st.integers(1, 70), st.integers(71, 600))


@st.composite
def products(draw: st.DrawFn) -> MatMul:
    """A product whose reduction may be a single step, some blocks, or rows that lie 4 KiB apart."""
    return MatMul(
        draw(SIDES),
        draw(SIDES),
        draw(st.one_of(st.integers(1, 60), st.integers(61, 900), st.just(1024))),
        batch=draw(st.sampled_from([1, 1, 1, 3])),
        transpose_a=draw(st.booleans()),
        transpose_b=draw(st.booleans()),
        bias=draw(st.booleans()),
        activation=draw(st.sampled_from(["none", "relu"])),
        dtype=draw(st.sampled_from(["float32", "float32", "float64"])),
    )


@pytest.mark.parametrize("key", KERNELS)
@settings(max_examples=80, deadline=None)
@given(spec=products(), threads=st.sampled_from([1, 2, 7]))
def test_a_kernel_is_right_on_any_product(key: str, spec: MatMul, threads: int) -> None:
    result = run_kernel(key, spec, threads)

    assert max_error(result, reference_of(spec)) <= tolerance(spec.numpy_dtype, spec.reduction_length())


@pytest.mark.parametrize("key", _core.packing_kernels("matmul"))
@settings(max_examples=60, deadline=None)
@given(spec=products(), threads=st.sampled_from([1, 2, 7]), share=st.floats(0.01, 1.0))
def test_b_packed_ahead_gives_the_same_bits(key: str, spec: MatMul, threads: int, share: float) -> None:
    params, inputs = spec.params(), list(inputs_of(spec).values())
    sizes = {"kc": max(1, int(spec.k * share))} if _core.tunables(key, params, threads) else {}
    if _core.packed_bytes(key, params, threads, sizes) == 0:
        return
    memory = HostMemory(int(np.prod(spec.output_shape())) * spec.numpy_dtype.itemsize)
    output = memory.inner.view(spec.numpy_dtype).reshape(spec.output_shape())

    _core.bind(key, params, inputs, output, None, threads, sizes, True)()

    assert memory.is_intact()
    assert np.array_equal(output, run_kernel(key, spec, threads, sizes))


@pytest.mark.parametrize("key", _core.packing_kernels("matmul"))
def test_a_single_row_or_column_packs_nothing_ahead(key: str) -> None:
    assert _core.packed_bytes(key, MatMul(1, 64, 64).params(), 1) == 0
    assert _core.packed_bytes(key, MatMul(64, 1, 64).params(), 1) == 0
    assert _core.packed_bytes(key, MatMul(64, 33, 64).params(), 1) >= 33 * 64 * 4
