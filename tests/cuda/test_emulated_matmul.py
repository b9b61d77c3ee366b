"""Emulated matmul kernels, every rung of the ladder, against the float64 reference."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from profkit.ops.dtypes import TF32, tolerance
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Array
from tests.cuda.emulation import Case, Outcome, build, run
from tests.cuda.family_checks import cases_of, in_every_order, runs_by_kernel, under_sanitizers

KEY = "matmul/native/cuda"
TRANSPOSES = tuple(product((False, True), repeat=2))
# Tiny, odd, around tiles of 16, 32 and 64, whole 128-bit words and not.
SIZES = (
    (1, 1, 1),
    (1, 7, 3),
    (5, 1, 9),
    (2, 3, 1),
    (3, 17, 8),
    (4, 4, 4),
    (8, 12, 20),
    (16, 16, 16),
    (17, 15, 7),
    (31, 33, 9),
    (32, 32, 32),
    (33, 31, 17),
    (1, 64, 24),
    (64, 1, 23),
    (63, 65, 10),
    (64, 64, 8),
    (65, 63, 16),
    (40, 68, 12),
    (12, 20, 40),
    (9, 11, 65),
    (6, 5, 100),
)
# Of whole packs of eight and not; sums of one, two and more tiles of 32 terms than there are stages.
NARROW_SIZES = (
    (1, 1, 1),
    (3, 5, 7),
    (8, 8, 8),
    (16, 24, 40),
    (17, 9, 33),
    (24, 16, 136),
    (64, 72, 32),
    (65, 66, 20),
    (72, 64, 104),
)
LARGE_SIZES = ((130, 129, 19), (132, 140, 28))
BATCHES = ((3, 5, 7, 2), (12, 8, 16, 3), (1, 9, 2, 5))


def _product(at: int, m: int, n: int, k: int, batch: int = 1, dtype: str = "float32") -> MatMul:
    """Every transposition, bias and activation in turn."""
    a, b = TRANSPOSES[at % 4]
    activation = "relu" if at // 8 % 2 else "none"
    return MatMul(m, n, k, batch, a, b, bias=at // 4 % 2 == 1, activation=activation, dtype=dtype)


# The second term turns bias and activation along with the sizes.
SINGLE = [_product(t + 4 * (i % 4), *size) for i, size in enumerate(SIZES) for t in range(4)]
LARGE = [_product(t + 4 * (i + 1), *size) for i, size in enumerate(LARGE_SIZES) for t in range(4)]
BATCHED = [_product(t, m, n, k, batch) for m, n, k, batch in BATCHES for t in range(8)]
NARROW = [
    _product(t + 4 * (i % 4), *size, dtype=dtype)
    for dtype in ("float16", "bfloat16")
    for i, size in enumerate(NARROW_SIZES)
    for t in range(4)
]
NARROW += [_product(t, 136, 144, 72, dtype="float16") for t in range(4)]
NARROW += [_product(t, 8, 16, 24, 3, dtype=dtype) for t in range(4) for dtype in ("float16", "bfloat16")]
SPECS = [*SINGLE, *LARGE, *BATCHED, *NARROW]
FLOAT32_COUNT = len(SINGLE) + len(LARGE) + len(BATCHED)


def _trouble(outcome: Outcome) -> str:
    """Empty when the result is right."""
    spec = outcome.case.spec
    terms, dtype = spec.reduction_length(), spec.numpy_dtype
    if not outcome.case.key.endswith("_tf32"):
        return outcome.trouble()
    return outcome.trouble(tolerance(dtype, terms, TF32) / tolerance(dtype, terms))


def _runs(specs: list[MatMul], folder: Path, order: str, sanitizers: str = "") -> dict[str, int]:
    """On how many problems each kernel ran, all of them rightly."""
    program = build("matmul", sanitizers)
    outcomes = [each for each in run(program, cases_of(program, specs), folder, order) if not each.is_unsupported]
    wrong = [text for each in outcomes if (text := _trouble(each))]
    assert not wrong, f"{len(wrong)} of {len(outcomes)} are wrong\n" + "\n".join(wrong[:20])
    return runs_by_kernel(outcomes)


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = _runs(SPECS, tmp_path, order)

    assert len(set(SPECS)) == len(SPECS) >= 200
    float32 = ("tiled_shared", "register_tiled", "vectorized", "double_buffered", "split_k", "tensor_core_tf32")
    assert runs == {
        **dict.fromkeys(("naive", "coalesced"), len(SPECS)),
        **dict.fromkeys(float32, FLOAT32_COUNT),
        "tensor_core": len(NARROW),
        "batched": len(BATCHED),
    }


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    specs = [*SINGLE[::5], *LARGE[1::3], *BATCHED[::6], *NARROW[::7]]

    runs = _runs(specs, tmp_path, "random", sanitizers)

    assert runs["double_buffered"] >= 20
    assert runs["tensor_core"] >= 10
    assert runs["batched"] >= 4


class OfTf32Values(MatMul):
    """Operands that TF32 holds exactly: nothing is left to round before the sum."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        inputs = super().make_inputs(seed)
        return {
            name: (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for name, array in inputs.items()
        }


class WithNansAndInfinities(MatMul):
    """One of each, at the ends of rows and sums: what a tile holds beyond them must not meet it."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        inputs = super().make_inputs(seed)
        inputs["a"].flat[-1] = np.nan
        inputs["b"].flat[-1] = np.inf
        return inputs


def test_nans_and_infinities_reach_their_own_results_and_stay_in_a_relu(tmp_path: Path) -> None:
    program = build("matmul")
    specs = [
        WithNansAndInfinities(m, n, k, transpose_a=a, transpose_b=b, activation="relu", dtype=dtype)
        for m, n, k in ((3, 5, 7), (12, 20, 40), (17, 72, 9))
        for a, b in TRANSPOSES
        for dtype in ("float32", "float16")
    ]

    outcomes = [each for each in run(program, cases_of(program, specs), tmp_path) if not each.is_unsupported]

    assert runs_by_kernel(outcomes)["tensor_core"] == runs_by_kernel(outcomes)["tensor_core_tf32"] == len(specs) / 2
    for outcome in outcomes:
        assert outcome.output is not None, outcome.error
        with np.errstate(invalid="ignore"):
            expected: Any = outcome.case.spec.reference(outcome.case.spec.make_inputs())
        assert np.isnan(expected).any()
        assert np.isinf(expected).any()
        np.testing.assert_allclose(
            outcome.output.astype(np.float64), expected, rtol=2e-2, atol=2e-2, err_msg=str(outcome.case)
        )


def test_tf32_loses_nothing_but_the_fraction_of_its_operands(tmp_path: Path) -> None:
    program = build("matmul")
    specs = [OfTf32Values(m, n, k, transpose_a=a, transpose_b=b) for m, n, k in SIZES[7:12] for a, b in TRANSPOSES]
    cases = [Case(f"{KEY}/tensor_core_tf32", spec, configuration) for spec in specs for configuration in (0, 1)]

    outcomes = run(program, cases, tmp_path)

    assert [text for outcome in outcomes if (text := outcome.trouble())] == []


def test_what_the_policy_chooses_is_right_too(tmp_path: Path) -> None:
    keys = ("double_buffered", "split_k", "tensor_core_tf32", "tiled_shared", "register_tiled")
    program = build("matmul")
    cases = [Case(f"{KEY}/{key}", MatMul(5, 6, k)) for key in keys for k in (3, 1100)]
    cases += [Case(f"{KEY}/tiled_shared", MatMul(380, 300, 2))]

    assert [text for each in run(program, cases, tmp_path) if (text := _trouble(each))] == []


def test_what_a_kernel_cannot_do_is_declined_with_the_reason(tmp_path: Path) -> None:
    program = build("matmul")
    turing: dict[str, Any] = {"capability": 75}
    cases = [
        Case(f"{KEY}/tensor_core", MatMul(8, 8, 8, dtype="float16"), **turing),
        Case(f"{KEY}/tensor_core_tf32", MatMul(8, 8, 8), **turing),
        Case(f"{KEY}/tensor_core", MatMul(8, 8, 8)),
        Case(f"{KEY}/double_buffered", MatMul(8, 8, 8, dtype="float16")),
        Case(f"{KEY}/naive", MatMul(8, 8, 8, dtype="float64")),
        Case(f"{KEY}/batched", MatMul(8, 8, 8)),
    ]

    errors = [outcome.error for outcome in run(program, cases, tmp_path)]

    needed = "unsupported: it needs the tensor cores of compute capability 8.0, the device has 7.5"
    assert errors == [
        needed,
        needed,
        "unsupported: it is written for float16 and bfloat16",
        "unsupported: it is written for float32 only",
        "unsupported: it is written for float32, float16 and bfloat16",
        "unsupported: it is for batches; one product has no table of pointers",
    ]
