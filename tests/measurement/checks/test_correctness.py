"""Where a result is wrong, how precisely it was computed, and that honest kernels are right on hard inputs too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import profkit
from profkit.frameworks import BACKENDS, load_adapter
from profkit.measurement.checks.correctness import COARSER, FLAT, FULL_PRECISION, STEEP, compare, fill_row, hard_inputs
from profkit.measurement.result import Row
from profkit.ops import SPECS, MatMul, Softmax, Spec
from profkit.ops.dtypes import tolerance
from profkit.ops.spec import Array
from tests.measurement.checks.hard_inputs_runner import errors_on_hard_inputs
from tests.support.processes import answer_of_python

RUNNER = "tests.measurement.checks.hard_inputs_runner"


def limit_of(spec: Spec) -> float:
    return tolerance(spec.numpy_dtype, spec.reduction_length())


def rounded(array: Array, bits: int) -> Array:
    """float32 with so many bits of fraction."""
    words = array.view(np.uint32)
    half, mask = np.uint32(1 << (22 - bits)), ~np.uint32((1 << (23 - bits)) - 1)
    result: Array = ((words + half) & mask).view(np.float32)
    return result


def test_a_right_result_has_an_error_and_no_place() -> None:
    found = compare(np.array([1.0, 2.0], np.float32), np.array([1.0, 2.0 + 1e-7]), 1e-6)

    assert found.is_right and found.index == ()
    assert found.error == pytest.approx(5e-8)


def test_the_first_wrong_element_is_named_with_what_it_should_be() -> None:
    reference = np.arange(24.0).reshape(2, 3, 4)
    result = reference.astype(np.float32)
    result[1, 0, 2] += 1.0
    result[1, 2, 3] = np.inf
    result[1, 2, 0] = np.nan

    found = compare(result, reference, 1e-6)

    assert (found.index, found.got, found.expected) == ((1, 0, 2), 15.0, 14.0)
    assert (found.differing, found.elements, found.nans) == (3, 24, 1)
    assert found.text(1e-6) == (
        "at (1, 0, 2) it is 15, expected 14; 3 of 24 differ, 1 of them NaN; error inf exceeds the tolerance 1e-06"
    )


def test_an_empty_result_is_right() -> None:
    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3)), 1e-6).is_right


def test_a_row_takes_what_was_found() -> None:
    row = Row("matmul/numpy/cpu", "", max_error=0.5)

    fill_row(row, compare(np.array([1.0, np.nan], np.float32), np.array([1.0, 2.0]), 1e-6), 1e-6, "after the samples: ")

    assert (row.status, row.tolerance) == ("wrong", 1e-6)
    assert row.reason.startswith("after the samples: at (1) it is nan, expected 2; 1 of 2 differ")
    assert (row.wrong_index, row.wrong_expected, row.nan_elements) == ([1], 2.0, 1)


@pytest.mark.parametrize("k", [1, 64, 4096])
@pytest.mark.parametrize(
    ("bits", "word"), [(23, FULL_PRECISION), (10, "tf32 or float16"), (7, "bfloat16"), (3, COARSER)]
)
def test_the_precision_of_products_is_told_by_the_error(bits: int, word: str, k: int) -> None:
    spec = MatMul(m=32, n=32, k=k)
    a, b = spec.make_inputs().values()
    result = (a @ b) if bits == 23 else (rounded(a, bits) @ rounded(b, bits))

    assert compare(result, spec.reference({"a": a, "b": b}), 1.0).precision == word


def test_other_types_than_float32_have_no_precision() -> None:
    assert compare(np.array([1.0]), np.array([1.001]), 1e-9).precision == ""


def test_one_wrong_element_does_not_look_like_a_coarser_format() -> None:
    reference = np.random.default_rng(0).standard_normal(1 << 20)
    result = reference.astype(np.float32)
    result[7] += 0.02

    assert compare(result, reference, 1e-6).precision == FULL_PRECISION


@pytest.mark.parametrize("spec", [each for kind in SPECS.values() for each in kind.odd_shapes()], ids=str)
def test_hard_inputs_fit_their_operator(spec: Spec) -> None:
    sets = list(hard_inputs(spec, 0))

    assert [each.name for each in sets] == ([STEEP, FLAT] if spec.has_steep_inputs() else [FLAT])
    for each in sets:
        assert {name: array.shape for name, array in each.inputs.items()} == spec.input_shapes()
        usual = spec.make_inputs()
        assert all(array.dtype == usual[name].dtype for name, array in each.inputs.items())
        assert np.isfinite(each.reference).all()
        assert (each.scale > 0.0).all() and each.scale.shape[0] == spec.output_shape()[0]
        # What is computed in float64 and stored is right.
        assert compare(each.reference.astype(spec.numpy_dtype), each.reference, limit_of(spec), each.scale).is_right


@pytest.mark.parametrize("op", ["conv2d", "matmul"])
def test_our_kernels_are_right_on_hard_inputs(op: str) -> None:
    found = errors_on_hard_inputs("native", [*SPECS[op].odd_shapes()[::5], *SPECS[op].round_shapes()], {})

    assert found["wrong"] == []
    assert found["looked"] >= 30


ROWS = [
    (backend, op, environment)
    for backend in BACKENDS
    for op in SPECS
    for environment in sorted(
        {
            json.dumps(dict(row.environment), sort_keys=True)
            for row in load_adapter(backend).implementations(op)
            if row.device == "cpu"
        }
    )
]


@pytest.mark.full
@pytest.mark.parametrize(("framework", "op", "environment"), ROWS)
def test_every_row_is_right_on_hard_inputs(framework: str, op: str, environment: str) -> None:
    available = load_adapter(framework).is_available()
    if not available.available:
        pytest.skip(available.reason)

    found = answer_of_python(["-m", RUNNER, framework, op, environment], json.loads(environment))

    assert found["wrong"] == []
    assert found["looked"] or not any(
        not load_adapter(framework).supports(row, spec)
        for row in load_adapter(framework).implementations(op)
        for spec in SPECS[op].odd_shapes()
    )


# Right on random inputs: two float16 parts of each float32, and a softmax without its maximum.
TWO_HALVES = """
import numpy as np


def parts(x):
    high = x.astype(np.float16)
    return high.astype(np.float32), (x - high.astype(np.float32)).astype(np.float16).astype(np.float32)


def matmul(spec, a, b):
    (ah, al), (bh, bl) = parts(a), parts(b)
    return ah @ bh + (ah @ bl + al @ bh) + al @ bl
"""
NO_MAXIMUM = """
import numpy as np


def softmax(spec, x):
    powers = np.exp(x)
    return powers / powers.sum(axis=1, keepdims=True)
"""


@pytest.mark.parametrize(
    ("text", "spec"), [(TWO_HALVES, MatMul(m=16, n=16, k=16)), (NO_MAXIMUM, Softmax(8, 32))], ids=["range", "overflow"]
)
def test_a_candidate_that_is_right_on_random_inputs_only_is_wrong(text: str, spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)

    result = profkit.measure(spec, only="candidate", candidates=[str(tmp_path / "mine.py")], threads=1, budget_s=0.1)

    (row,) = result.cells[0].rows
    assert row.status == "wrong"
    assert row.reason.startswith(f"right on random inputs, wrong with {STEEP}: at (")
