"""Where a call's result goes: a function that fills an output enters, the call that is timed leaves.

Standard library and NumPy 1.23 only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, aligned_empty
from profkit.ops.spec import Spec

POOLED_FROM_BYTES = 1 << 20
"""Smaller arrays come from malloc, which keeps their pages."""
_CACHE_LINE = 64


class OutputPool:
    """Arrays of one shape whose memory is kept after they are freed, and reused.

    malloc gives memory above 32 MiB back to the system, so that each call pays for its pages again; tensorflow and
    onnxruntime keep theirs. For one thread at a time, as the calls that use it.
    """

    _MOST = 4
    """Results held at a time; further ones are of malloc."""

    def __init__(self, spec: Spec) -> None:
        self._shape, self._dtype = spec.output_shape(), spec.numpy_dtype
        self._owners: list[Array] = [np.empty(0, np.uint8)]
        # Of an array that only the list holds, counted as `empty` counts: interpreters differ.
        self._idle = sys.getrefcount(self._owners[0])
        self._owners.clear()

    def empty(self) -> Array:
        """An array that shares its memory with no other that is alive."""
        for index in range(len(self._owners)):
            # Every view of an array holds the owner of its memory.
            if sys.getrefcount(self._owners[index]) == self._idle:
                return self._on(self._owners[index])
        size = int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize
        owner = np.empty(size + _CACHE_LINE, np.uint8)
        if len(self._owners) < self._MOST:
            self._owners.append(owner)
        return self._on(owner)

    def _on(self, owner: Array) -> Array:
        first = -owner.ctypes.data % _CACHE_LINE
        return owner[first : first + owner.size - _CACHE_LINE].view(self._dtype).reshape(self._shape)


def unwritten(spec: Spec) -> Array:
    """An output full of NaN: what a kernel leaves out, or adds to, must not look right by chance, as on zeros."""
    output = aligned_empty(spec.output_shape(), spec.numpy_dtype)
    output.fill(np.nan)
    return output


def call_on_fresh(
    run: Callable[[Array], Any], spec: Spec, allocate: Callable[[], Array] | None = None
) -> Callable[[], Array]:
    """A call that allocates its output each time, as frameworks do; by NumPy unless `allocate` is given.

    Only the first output, whose result is checked, is made ahead of the call, because memory that the system
    has just handed out is often zero.
    """
    empty = allocate or partial(np.empty, spec.output_shape(), spec.numpy_dtype)
    first = [unwritten(spec)]

    def call() -> Array:
        output: Array = first.pop() if first else empty()
        run(output)
        return output

    return call


def pool_note(spec: Spec) -> str:
    """What a row says whose calls are `call_on_pooled`."""
    return "reuses freed output buffers, as tensorflow and onnxruntime do" if is_pooled(spec) else ""


def is_pooled(spec: Spec) -> bool:
    """Whether `call_on_pooled` keeps the memory of such outputs."""
    return spec.output_bytes() >= POOLED_FROM_BYTES


def call_on_pooled(run: Callable[[Array], Any], spec: Spec) -> Callable[[], Array]:
    """A call with a new output each time, large ones from a pool."""
    return call_on_fresh(run, spec, OutputPool(spec).empty if is_pooled(spec) else None)


def call_on_same(run: Callable[[], Any], output: Array) -> Callable[[], Array]:
    """A call that fills the same output each time."""

    def call() -> Array:
        run()
        return output

    return call
