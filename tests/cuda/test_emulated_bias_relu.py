"""Emulated bias_relu kernels against the float64 reference."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from emulation import ORDERS
from family_checks import SANITIZERS, check_family

from profkit.ops.bias_relu import BiasRelu

# Planes and channels of 1, of odd counts (packs of one), of multiples of 4 and 8 (packs of 128 bits), of more than a
# block.
IMAGES = (
    *((batch, channels, 1, 1) for batch in (1, 3) for channels in (1, 2, 5, 8, 24, 33, 260)),
    *((2, 3, height, width) for height in (1, 2, 7) for width in (1, 4, 5, 8)),
    *((1, 4, height, 8) for height in (1, 3, 5)),
    *((batch, 16, 3, 3) for batch in (1, 5)),
    (1, 1, 37, 61),
    (2, 2, 32, 33),
    (1, 2, 40, 64),
    (1, 300, 1, 3),
    (1, 1032, 1, 2),
)
SPECS = [
    BiasRelu(*image, layout=layout, dtype=dtype)
    for image, layout, dtype in product(IMAGES, ("NCHW", "NHWC"), ("float32", "float16", "bfloat16"))
]


@pytest.mark.parametrize("order", ORDERS)
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)

    assert runs == {"elementwise": len(set(SPECS))}
    assert len(set(SPECS)) >= 200


@pytest.mark.parametrize("sanitizers", SANITIZERS)
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family(SPECS[::7], tmp_path, "random", sanitizers)

    assert runs == {"elementwise": len(SPECS[::7])}
