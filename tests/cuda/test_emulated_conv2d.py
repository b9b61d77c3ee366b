"""Emulated convolution kernels against the float64 reference: every direction, layout, stride, padding, dilation."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.ops.conv2d import WEIGHT_GRADIENT, Conv2d
from tests.cuda.conv_shapes import conv_specs, depthwise_specs, few_conv_specs, long_specs, unit_stride_specs
from tests.cuda.emulation import Case, build, run
from tests.cuda.family_checks import SANITIZERS, cases_of, check, in_every_order, under_sanitizers

WINOGRAD, DEPTHWISE = "conv2d/native/cuda/winograd", "conv2d/native/cuda/depthwise"


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    program, specs = build("conv2d"), conv_specs()

    runs = check(program, cases_of(program, specs), tmp_path, order)

    assert len(specs) >= 380
    # These take every shape; winograd and depthwise have shapes of their own below.
    assert runs["implicit_gemm"] == runs["direct"] == len(specs)
    assert {"im2col", "im2col_batched"} <= runs.keys()


@in_every_order
def test_winograd_stays_within_the_tolerance_of_ordinary_float32_sums(order: str, tmp_path: Path) -> None:
    program, specs = build("conv2d"), unit_stride_specs()

    runs = check(program, cases_of(program, specs, [WINOGRAD]), tmp_path, order)

    assert runs == {"winograd": sum(spec.direction != WEIGHT_GRADIENT for spec in specs)}
    assert runs["winograd"] >= 140


@in_every_order
def test_depthwise_takes_every_filter_stride_and_multiplier(order: str, tmp_path: Path) -> None:
    program, specs = build("conv2d"), depthwise_specs()

    runs = check(program, cases_of(program, specs, [DEPTHWISE]), tmp_path, order)

    assert runs == {"depthwise": len(specs)}
    assert len(specs) >= 200


def test_long_sums_are_split_between_blocks_and_added_up(tmp_path: Path) -> None:
    program, specs = build("conv2d"), long_specs()
    keys = ["conv2d/native/cuda/implicit_gemm", DEPTHWISE]

    runs = check(program, cases_of(program, specs, keys), tmp_path, "random")

    assert runs == {"implicit_gemm": len(specs), "depthwise": 4}


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    # Every second corner for each sanitizer, together all.
    program, corners = build("conv2d", sanitizers), few_conv_specs()[SANITIZERS.index(sanitizers) % 2 :: 2]
    cases = [
        *cases_of(program, corners),
        *cases_of(program, unit_stride_specs()[::30], [WINOGRAD]),
        *cases_of(program, depthwise_specs()[::25], [DEPTHWISE]),
    ]
    # The smallest tiles of every shape, others now and then: blocks of 256 threads are slow under sanitizers.
    chosen = [case for place, case in enumerate(cases) if case.configuration != 0 or place % 16 == 0]

    runs = check(program, chosen, tmp_path, "random")

    assert runs["implicit_gemm"] == runs["direct"] == len(corners) >= 15
    assert runs["winograd"] >= 5
    assert runs["depthwise"] >= 10


@pytest.mark.parametrize(
    ("key", "spec", "words"),
    [
        ("implicit_gemm", Conv2d(height=40, width=40, kernel_size=16), "at most 15 rows and columns"),
        ("winograd", Conv2d(kernel_size=3, stride=2), "stride 1 only"),
        ("winograd", Conv2d(kernel_size=3, dilation=2), "dilation 1 only"),
        ("winograd", Conv2d(kernel_size=7), "3x3 and 5x5"),
        ("winograd", Conv2d(kernel_size=3, direction=WEIGHT_GRADIENT), "weight gradient needs another transform"),
        ("depthwise", Conv2d(in_channels=4, out_channels=4, groups=2), "groups = in channels"),
    ],
)
def test_a_limit_is_a_reason_that_names_it(key: str, spec: Conv2d, words: str, tmp_path: Path) -> None:
    program = build("conv2d")

    (outcome,) = run(program, [Case(f"conv2d/native/cuda/{key}", spec)], tmp_path)

    assert outcome.is_unsupported
    assert words in outcome.error
