"""Emulated convolution kernels against the float64 reference: every direction, layout, stride, padding, dilation."""

from __future__ import annotations

from pathlib import Path

import pytest
from conv_shapes import conv_specs, few_conv_specs, unit_stride_specs
from emulation import ORDERS
from family_checks import SANITIZERS, check_family


@pytest.mark.parametrize("order", ORDERS)
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    specs = conv_specs()

    runs = check_family(specs, tmp_path, order)

    assert len(specs) >= 380
    print(runs)


@pytest.mark.parametrize("sanitizers", SANITIZERS)
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family(few_conv_specs(), tmp_path, "random", sanitizers)
    print(runs)


@pytest.mark.parametrize("order", ORDERS)
def test_winograd_agrees_with_the_reference_within_the_tolerance_of_ordinary_sums(order: str, tmp_path: Path) -> None:
    runs = check_family(unit_stride_specs(), tmp_path, order)
    print(runs)
