"""Element types: their words, sizes and roundings, and how arrays of them are stored in files. NumPy 1.23 and up.

NumPy has no bfloat16: `ml_dtypes`, which comes with JAX and TensorFlow, adds it and is imported on first use only.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes

Array = NDArray[Any]

ITEM_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
DTYPE = axes.choice(*ITEM_BYTES)
TF32 = "tf32"
"""Not an element type: tensor cores may round float32 operands to 10 bits of fraction before they multiply."""
_EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7, TF32: 2.0**-10}
_INSTALL = 'pip install "profkit[bfloat16]"'


def numpy_dtype(word: str) -> np.dtype[Any]:
    """NumPy's type of this word; SpecError with the line to type when bfloat16 is not there."""
    if word != "bfloat16":
        return np.dtype(word)
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise SpecError(f"NumPy has no bfloat16 and ml_dtypes is not installed: {_INSTALL}") from error
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def is_narrow(word: str) -> bool:
    """Whether elements have 16 bits: products are then summed in float32 and rounded at the end."""
    return ITEM_BYTES[word] == 2


def computing_dtype(word: str) -> str:
    """The type in which sums are held: float32 for the 16-bit types, otherwise the type itself."""
    return "float32" if is_narrow(word) else word


def random_normal(generator: np.random.Generator, shape: tuple[int, ...], word: str) -> Array:
    """Normal values; those of the 16-bit types are made in float32 and rounded, so that all types see like numbers."""
    values: Array = generator.standard_normal(shape, dtype=np.dtype(computing_dtype(word)).type)
    return values.astype(numpy_dtype(word)) if is_narrow(word) else values


def tolerance(dtype: np.dtype[Any], reduction_length: int, rounding: str = "") -> float:
    """Largest accepted error, relative to the largest reference value: 8 x eps x sqrt(terms), plus coarser roundings.

    Rounding errors of a sum grow like the square root of its length; 8 leaves room for another summation
    order and a few-ulp exp or pow, and is far below the error of one forgotten term (about 1 / sqrt(terms)).
    Coarser rounding adds its own eps regardless of the length, since such errors are independent and their
    sum grows no faster than the result: a 16-bit result two, operands of each product (`rounding` tf32) four, because
    the largest of few sums may be small beside its terms.
    """
    eps = _EPS[computing_dtype(dtype.name)]
    of_result = 2.0 * _EPS[dtype.name] if is_narrow(dtype.name) else 0.0
    of_operands = 4.0 * _EPS[TF32] if rounding == TF32 else 0.0
    return 8.0 * eps * math.sqrt(max(1, reduction_length)) + max(of_result, of_operands)


def for_file(array: Array) -> Array:
    """The array as .npy files can hold it: bfloat16 as the 16-bit numbers of its bytes, others as they are."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def from_file(array: Array, dtype: np.dtype[Any]) -> Array:
    """What `for_file` made, as the type that it was."""
    return array.view(dtype) if dtype.name == "bfloat16" and array.dtype == np.uint16 else array
