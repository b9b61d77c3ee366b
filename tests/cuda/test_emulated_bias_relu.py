"""Emulated bias_relu kernels against the float64 reference."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from profkit.ops.bias_relu import BiasRelu
from profkit.ops.spec import Array
from tests.cuda.emulation import build, run
from tests.cuda.family_checks import cases_of, check_family, in_every_order, under_sanitizers

DTYPES = ("float32", "float16", "bfloat16")
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
    BiasRelu(*image, layout=layout, dtype=dtype) for image, layout, dtype in product(IMAGES, ("NCHW", "NHWC"), DTYPES)
]


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)

    assert runs == {"elementwise": len(set(SPECS))}
    assert len(set(SPECS)) >= 200


class WithNans(BiasRelu):
    """Every third element is a NaN, one is minus infinity."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        inputs = super().make_inputs(seed)
        inputs["x"].flat[::3] = np.nan
        inputs["x"].flat[1] = -np.inf
        return inputs


def test_a_nan_stays(tmp_path: Path) -> None:
    program = build("bias_relu")
    specs = [WithNans(2, 8, 3, 4, layout=layout, dtype=dtype) for layout, dtype in product(("NCHW", "NHWC"), DTYPES)]

    outcomes = run(program, cases_of(program, specs), tmp_path)

    assert len(outcomes) == len(specs)
    for outcome in outcomes:
        assert outcome.output is not None, outcome.error
        expected: Any = outcome.case.spec.reference(outcome.case.spec.make_inputs())
        np.testing.assert_array_equal(np.isnan(outcome.output.astype(np.float64)), np.isnan(expected))
        assert np.isnan(expected).sum() == expected.size / 3


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family(SPECS[::7], tmp_path, "random", sanitizers)

    assert runs == {"elementwise": len(SPECS[::7])}
