"""Does a framework give the same numbers twice? The results of two processes in, how far they differ out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profkit.capture.run import Repeat
from profkit.ops.spec import Array


def repeats_of(one: Mapping[str, Array], other: Mapping[str, Array]) -> list[Repeat]:
    """Of every array of two runs from the same seed."""
    return [_repeat(name, array, other[name]) for name, array in one.items()]


def _repeat(name: str, one: Array, other: Array) -> Repeat:
    is_different = one.view(f"u{one.itemsize}") != other.view(f"u{one.itemsize}")
    with np.errstate(all="ignore"):
        largest = float(np.abs(one.astype(np.float64) - other).max(initial=0.0))
    size = float(np.abs(one).max(initial=0.0))
    return {
        "name": name,
        "count": one.size,
        "different": int(is_different.sum()),
        "largest": largest if np.isfinite(largest) else None,
        "size": size if np.isfinite(size) else None,
    }
