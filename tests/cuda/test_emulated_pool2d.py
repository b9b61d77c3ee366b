"""Emulated pooling kernels and their gradients against the float64 reference."""

from __future__ import annotations

from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from profkit.ops.pool2d import Pool2d
from profkit.ops.spec import Array
from tests.cuda.emulation import build, run
from tests.cuda.family_checks import cases_of, check_family, in_every_order, under_sanitizers

WINDOWS: tuple[dict[str, Any], ...] = (
    {"height": 1, "width": 1, "kernel_size": 1, "stride": 1, "padding": 0},
    {"height": 5, "width": 7, "kernel_size": 3, "stride": 2, "padding": "same"},
    {"height": 9, "width": 6, "kernel_size": 2, "stride": 2, "padding": 0},
    {"height": 7, "width": 7, "kernel_size": 3, "stride": 1, "padding": 1},
    {"height": 11, "width": 10, "kernel_size": 2, "stride": 3, "padding": 0},
    {"height": 13, "width": 12, "kernel_size": 1, "stride": 5, "padding": 0},
    {"height": 6, "width": 6, "kernel_size": "2x3", "stride": "1x2", "padding": "1x0x0x1"},
    {"height": 7, "width": 7, "kernel_size": 7, "stride": 1, "padding": 0},
    {"height": 9, "width": 5, "kernel_size": 5, "stride": 5, "padding": 2},
    {"height": 5, "width": 6, "kernel_size": 3, "stride": 1, "padding": 2},
    {"height": 3, "width": 17, "kernel_size": "1x4", "stride": 1, "padding": "0x0x1x2"},
    {"height": 10, "width": 3, "kernel_size": "5x2", "stride": "3x1", "padding": "4x1x1x0"},
    {"height": 17, "width": 19, "kernel_size": 3, "stride": 2, "padding": 0},
)
# Channels that no pack divides, and of one and three packs.
SPECS = [
    Pool2d(batch=batch, channels=channels, **window, mode=mode, layout=layout, dtype=dtype, direction=direction)
    for window, (batch, channels, layout, dtype), mode, direction in product(
        WINDOWS,
        (
            (2, 3, "NCHW", "float32"),
            (1, 5, "NHWC", "float32"),
            (2, 12, "NHWC", "float32"),
            (1, 8, "NHWC", "float16"),
            (2, 3, "NCHW", "bfloat16"),
            (1, 24, "NHWC", "bfloat16"),
        ),
        ("max", "average"),
        ("forward", "input-gradient"),
    )
]
PACKED = [spec for spec in SPECS if spec.layout == "NHWC" and spec.channels in (8, 12, 24)]


class WithNans(Pool2d):
    """Few distinct values, so that maxima are often equal, and a NaN here and there."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        generator = np.random.default_rng(seed)
        x = generator.integers(0, 3, self.x_shape()).astype(np.float32)
        x[generator.random(self.x_shape()) < 0.1] = np.nan
        inputs: dict[str, Array] = {"x": x}
        if self.direction != "forward":
            inputs["dy"] = generator.standard_normal(self.y_shape(), dtype=np.float32)
        return inputs


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)

    assert len(set(SPECS)) == len(SPECS) >= 200
    assert runs == {"direct": len(SPECS), "vectorized": len(PACKED)}
    assert Counter((spec.mode, spec.direction) for spec in PACKED).most_common()[-1][1] >= 39


def test_a_nan_is_a_maximum_and_the_first_of_equal_ones_gets_the_gradient(tmp_path: Path) -> None:
    specs = [
        WithNans(
            batch=2,
            channels=4,
            height=9,
            width=8,
            kernel_size=kernel,
            stride=stride,
            layout=layout,
            direction=direction,
        )
        for kernel, stride, layout, direction in product(
            (2, 3), (1, 2), ("NCHW", "NHWC"), ("forward", "input-gradient")
        )
    ]
    program = build("pool2d")

    outcomes = [outcome for outcome in run(program, cases_of(program, specs), tmp_path) if not outcome.is_unsupported]

    assert len(outcomes) == 24
    for outcome in outcomes:
        assert outcome.output is not None, outcome.error
        expected: Any = outcome.case.spec.reference(outcome.case.spec.make_inputs())
        np.testing.assert_allclose(outcome.output, expected, rtol=1e-5, atol=1e-6, err_msg=str(outcome.case))


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family([*SPECS[::9], *PACKED[::9]], tmp_path, "random", sanitizers)

    assert runs["direct"] >= 35
    assert runs["vectorized"] >= 17
