"""Element types: rounding of inputs, tolerances that tell right from wrong, files, and bfloat16 where it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import SpecError
from profkit.ops import MatMul, Softmax
from profkit.ops.dtypes import for_file, from_file, is_narrow, numpy_dtype, tolerance
from profkit.ops.spec import max_error

pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
NARROW = ("float16", "bfloat16")


@pytest.mark.parametrize("dtype", NARROW)
def test_16_bit_inputs_are_the_float32_inputs_rounded(dtype: str) -> None:
    wide, narrow = MatMul(5, 7, 9).make_inputs(3), MatMul(5, 7, 9, dtype=dtype).make_inputs(3)

    for name, array in narrow.items():
        assert array.dtype == numpy_dtype(dtype)
        assert np.array_equal(array, wide[name].astype(numpy_dtype(dtype)))


def test_16_bit_types_halve_the_bytes() -> None:
    assert {dtype: MatMul(5, 7, 9, dtype=dtype).min_bytes() for dtype in ("float32", *NARROW)} == {
        "float32": 572,
        "float16": 286,
        "bfloat16": 286,
    }


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("k", [1, 10, 1000, 20_000])
def test_float32_sums_rounded_once_are_right_and_sums_in_16_bits_are_not(dtype: str, k: int) -> None:
    spec = MatMul(8, 8, k, dtype=dtype)
    inputs = spec.make_inputs()
    bound = tolerance(spec.numpy_dtype, spec.reduction_length())
    a, b = (inputs[name].astype(np.float32) for name in "ab")
    narrow_sum = np.zeros((8, 8), spec.numpy_dtype)
    for i in range(k):
        narrow_sum = (narrow_sum + np.outer(a[:, i], b[i])).astype(spec.numpy_dtype)

    assert max_error((a @ b).astype(spec.numpy_dtype), spec.reference(inputs)) <= bound
    if k >= 1000:
        assert max_error(narrow_sum, spec.reference(inputs)) > bound


@pytest.mark.parametrize("k", [1, 8, 1000, 20_000])
def test_tf32_products_pass_with_their_rounding_stated_and_fail_without(k: int) -> None:
    """Operands cut, not rounded, to 10 bits of fraction: the worst that tensor cores do."""
    spec = MatMul(8, 8, k)
    inputs = spec.make_inputs()
    a, b = ((inputs[name].view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for name in "ab")
    error = max_error(a @ b, spec.reference(inputs))

    assert error <= tolerance(spec.numpy_dtype, k, "tf32")
    assert error > tolerance(spec.numpy_dtype, k)


@pytest.mark.parametrize("dtype", ["float32", "float64", *NARROW])
def test_the_tolerance_grows_with_the_terms_and_with_coarser_rounding(dtype: str) -> None:
    of = numpy_dtype(dtype)

    assert 0 < tolerance(of, 1) < tolerance(of, 100) < tolerance(of, 10_000) < 0.1
    assert tolerance(of, 100, "tf32") >= tolerance(of, 100)


@pytest.mark.parametrize("dtype", ["float32", "float64", *NARROW])
def test_arrays_survive_files(dtype: str, tmp_path: Path) -> None:
    array = Softmax(3, 5, dtype=dtype).make_inputs()["x"]

    np.save(tmp_path / "x.npy", for_file(array))
    back = from_file(np.load(tmp_path / "x.npy"), numpy_dtype(dtype))

    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()


def test_a_missing_bfloat16_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    spec = MatMul(2, 3, 4, dtype="bfloat16")

    assert spec.min_bytes() == 52
    assert is_narrow(spec.dtype)
    with pytest.raises(SpecError, match=r'ml_dtypes is not installed: pip install "profkit\[bfloat16\]"'):
        spec.make_inputs()
