"""What array expressions share: types, numbers, and what formulas need of an array module; `xp` is NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from profkit.frameworks.formulas import Module

DeviceArray = Any
ArrayCall = Callable[..., DeviceArray]


def number(xp: Any, value: float, dtype: Any = np.float32) -> DeviceArray:
    """A scalar as an array: a Python number would become one, allocated anew, in every call."""
    return xp.full((), value, dtype)


def array_module(xp: Any) -> Module:
    """What formulas need of NumPy or CuPy."""
    return Module(xp, partial(error_function, xp), partial(_sums_by_index, xp))


def error_function(xp: Any, x: DeviceArray) -> DeviceArray:
    """erf to 1.5e-7, enough for float32: Abramowitz and Stegun, 7.1.26. NumPy has none."""
    size = xp.abs(x)
    t = 1 / (size * 0.3275911 + 1)
    tail = t * 1.061405429
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += factor
        tail *= t
    tail *= xp.exp(-size * size)
    return xp.where(x > 0, 1 - tail, tail - 1)


def _sums_by_index(xp: Any, values: DeviceArray, indices: DeviceArray, count: int) -> DeviceArray:
    sums = xp.zeros((count, *values.shape[1:]), values.dtype)
    xp.add.at(sums, indices, values)
    return sums
