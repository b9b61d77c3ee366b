"""Where a call's result goes: a function that fills an output enters, the call that is timed leaves.

Standard library and NumPy 1.23 only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from profkit.backends.adapter import Array, Conditions, aligned_empty
from profkit.ops.spec import Spec


def unwritten(spec: Spec) -> Array:
    """An output full of NaN: what a kernel leaves out, or adds to, must not look right by chance, as on zeros."""
    output = aligned_empty(spec.output_shape(), spec.numpy_dtype)
    output.fill(np.nan)
    return output


def call_on_fresh(run: Callable[[Array], Any], spec: Spec) -> Callable[[], Array]:
    """A call that allocates its output each time, as frameworks do.

    Only the first output, whose result is checked, is made ahead of the call, because memory that the system
    has just handed out is often zero.
    """
    empty, shape, dtype = np.empty, spec.output_shape(), spec.numpy_dtype
    first = [unwritten(spec)]

    def call() -> Array:
        output: Array = first.pop() if first else empty(shape, dtype)
        run(output)
        return output

    return call


def call_on_same(run: Callable[[], Any], output: Array) -> Callable[[], Array]:
    """A call that fills the same output each time."""

    def call() -> Array:
        run()
        return output

    return call


def call_filling(run: Callable[[Array], Any], spec: Spec, conditions: Conditions) -> tuple[Callable[[], Array], str]:
    """The call for what `conditions` ask, and the word that its row shows; for what can run on any output."""
    if conditions.output == "reused":
        output = unwritten(spec)
        return call_on_same(partial(run, output), output), "reused"
    return call_on_fresh(run, spec), "fresh"
