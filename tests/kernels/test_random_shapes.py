"""Convolutions and products on random specs: paddings beyond the kernel, taps that no position reaches, odd sizes,
edges of tiles, panels and blocks, every transpose, weights packed ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profkit import _core
from profkit.errors import UsageError
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.native.operators import ADAPTER
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec, max_error, tolerance
from tests.kernels.kernel_calls import keys_of, reference_of, run_kernel

SMALL = st.integers(1, 4)
SIDES = st.one_of(st.integers(1, 70), st.integers(71, 600))


@st.composite
def convolutions(draw: st.DrawFn, layout: str, directions: tuple[str, ...]) -> Conv2d:
    """A convolution that has an output; groups divide both counts of channels."""
    groups = draw(st.sampled_from([1, 1, 1, 2, 3]))
    try:
        spec = Conv2d(
            draw(SMALL),
            draw(st.integers(1, 9)) * groups,
            draw(st.integers(1, 14)),
            draw(st.integers(1, 14)),
            draw(st.one_of(st.integers(1, 21), st.integers(22, 140))) * groups,
            kernel_size=(draw(st.integers(1, 6)), draw(st.integers(1, 6))),
            stride=(draw(SMALL), draw(SMALL)),
            padding=(
                draw(st.integers(0, 5)),
                draw(st.integers(0, 5)),
                draw(st.integers(0, 5)),
                draw(st.integers(0, 5)),
            ),
            dilation=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
            groups=groups,
            layout=layout,
            direction=draw(st.sampled_from(directions)),
        )
    except UsageError:
        assume(False)
    return spec


@st.composite
def winograd_convolutions(draw: st.DrawFn) -> Conv2d:
    """Convolutions that at least one size of tiles takes, unless they are too small."""
    stride = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    taps, groups = draw(st.integers(3, 5)), draw(st.sampled_from([1, 1, 2, 3]))
    kernel = [draw(st.integers((taps - 1) * stride + 1, taps * stride)) for _ in range(2)]
    padding = [draw(st.integers(0, kernel[side // 2])) for side in range(4)]
    height = draw(st.integers(max(1, kernel[0] - padding[0] - padding[1]), 30))
    width = draw(st.integers(max(1, kernel[1] - padding[2] - padding[3]), 40))
    direction = draw(st.sampled_from([FORWARD, FORWARD, INPUT_GRADIENT] if stride == 1 else [FORWARD]))
    is_forward = direction == FORWARD
    return Conv2d(
        draw(st.integers(1, 4)),
        groups * draw(st.integers(1, 40)),
        height,
        width,
        out_channels=groups * draw(st.integers(1, 40)),
        kernel_size="x".join(map(str, kernel)),
        stride=stride,
        padding="x".join(map(str, padding)),
        groups=groups,
        bias=is_forward and draw(st.booleans()),
        activation="relu" if is_forward and draw(st.booleans()) else "none",
        layout=draw(st.sampled_from(["NCHW", "NHWC"])),
        dtype=draw(st.sampled_from(["float32", "float32", "float64"])),
        direction=direction,
    )


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


def strategies_of(key: str) -> list[st.SearchStrategy[Spec]]:
    """Specs that the kernel takes often; of some convolutions it takes one layout only."""
    if key.startswith("matmul/"):
        return [products()]
    if "winograd" in key:
        return [winograd_convolutions()]
    layouts = [layout for layout in ("NCHW", "NHWC") if not _core.supports(key, Conv2d(layout=layout).params())]
    return [convolutions(layout, (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)) for layout in layouts]


@pytest.mark.parametrize(
    ("key", "specs"), [(key, specs) for key in keys_of("conv2d", "matmul") for specs in strategies_of(key)]
)
@settings(max_examples=70, deadline=None)
@given(data=st.data(), threads=st.sampled_from([1, 2, 7]), share=st.floats(0.01, 1.0))
def test_a_kernel_is_right_on_any_shape_and_packs_ahead_to_the_same_bits(
    key: str, specs: st.SearchStrategy[Spec], data: st.DataObject, threads: int, share: float
) -> None:
    spec = data.draw(specs)
    assume(not _core.supports(key, spec.params()))
    result = run_kernel(key, spec, threads)
    assert max_error(result, reference_of(spec)) <= tolerance(spec.numpy_dtype, spec.reduction_length())
    sizes = {"kc": max(1, int(spec.k * share))} if isinstance(spec, MatMul) else {}
    sizes = sizes if _core.tunables(key, spec.params(), threads) else {}
    if key in _core.packing_kernels(spec.op) and _core.packed_bytes(key, spec.params(), threads, sizes):
        packed = run_kernel(key, spec, threads, sizes, packs_ahead=True)
        np.testing.assert_array_equal(packed, run_kernel(key, spec, threads, sizes))


@settings(max_examples=60, deadline=None)
@given(spec=convolutions("NCHW", (FORWARD,)), threads=st.sampled_from([1, 3]))
def test_every_form_of_every_kernel_is_right_on_any_convolution(spec: Conv2d, threads: int) -> None:
    for row in ADAPTER.implementations("conv2d"):
        if not row.forms or ADAPTER.supports(row, spec):
            continue
        prepared = ADAPTER.prepare(row, spec, spec.make_inputs(), Conditions(threads=threads))

        error = max_error(prepared.to_numpy(prepared.call()), reference_of(spec))

        assert error <= tolerance(spec.numpy_dtype, spec.reduction_length()), row.key


@pytest.mark.parametrize("key", _core.packing_kernels("matmul"))
def test_a_single_row_or_column_packs_nothing_ahead(key: str) -> None:
    assert _core.packed_bytes(key, MatMul(1, 64, 64).params(), 1) == 0
    assert _core.packed_bytes(key, MatMul(64, 1, 64).params(), 1) == 0
    assert _core.packed_bytes(key, MatMul(64, 33, 64).params(), 1) >= 33 * 64 * 4
