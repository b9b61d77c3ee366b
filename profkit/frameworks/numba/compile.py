"""How profkit's Numba kernels are compiled: the two decorators, and the types of what kernels take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numpy.typing import NDArray

Array = NDArray[Any]
Numbers = tuple[Any, ...]
NumbaKernel = TypeVar("NumbaKernel", bound=Callable[..., None])

# Other orders of summation are allowed; infinities and NaN keep their meaning (pooling starts from -inf).
_FASTMATH = {"contract", "reassoc", "nsz"}
parallel: Callable[[NumbaKernel], NumbaKernel] = numba.njit(
    parallel=True, fastmath=_FASTMATH, nogil=True, boundscheck=False
)
inner: Callable[[NumbaKernel], NumbaKernel] = numba.njit(
    fastmath=_FASTMATH, nogil=True, boundscheck=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
)
