"""Fast convolutions on random specs: paddings beyond the kernel, taps that no position reaches, odd sizes, forms."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profkit import _core
from profkit.errors import UsageError
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.native.operators import ADAPTER
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.spec import max_error, tolerance
from tests.kernels.kernel_calls import keys_of, reference_of, run_kernel

# Winograd kernels take few of these specs: they have random specs of their own.
KERNELS = [key for key in keys_of("conv2d") if "winograd" not in key]
SMALL = st.integers(1, 4)


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


def takes(key: str, layout: str) -> bool:
    """Some kernels read one layout only."""
    return not _core.supports(key, Conv2d(layout=layout).params())


PAIRS = [(key, layout) for key in KERNELS for layout in ("NCHW", "NHWC") if takes(key, layout)]


@pytest.mark.parametrize(("key", "layout"), PAIRS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), threads=st.sampled_from([1, 2, 7]))
def test_a_kernel_is_right_on_any_convolution(key: str, layout: str, data: st.DataObject, threads: int) -> None:
    spec = data.draw(convolutions(layout, (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)))
    assume(not _core.supports(key, spec.params()))

    result = run_kernel(key, spec, threads)

    assert max_error(result, reference_of(spec)) <= tolerance(spec.numpy_dtype, spec.reduction_length())


@settings(max_examples=60, deadline=None)
@given(spec=convolutions("NCHW", (FORWARD,)), threads=st.sampled_from([1, 3]))
def test_every_form_of_every_kernel_is_right_on_any_convolution(spec: Conv2d, threads: int) -> None:
    for row in ADAPTER.implementations("conv2d"):
        if not row.forms or ADAPTER.supports(row, spec):
            continue
        prepared = ADAPTER.prepare(row, spec, spec.make_inputs(), Conditions(threads=threads))

        error = max_error(prepared.to_numpy(prepared.call()), reference_of(spec))

        assert error <= tolerance(spec.numpy_dtype, spec.reduction_length()), row.key
