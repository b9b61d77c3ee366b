"""The shapes of a selftest: an operator in, the list that parent and worker number alike out."""

from __future__ import annotations

from functools import cache

from profkit.ops import SPECS, odd_specs, presets_for
from profkit.ops.spec import Spec

MOST_FLOPS, MOST_BYTES = 3e8, 32 << 20
"""Of presets: with more, the kernels that are written to be read, and float64, take seconds."""
TUNED_FLOPS = 3e7
"""Every block size is tried on shapes of at most so many."""


@cache
def shapes_of(op: str, is_full: bool) -> tuple[Spec, ...]:
    """Odd, round and larger ones; `is_full` adds the layers of real networks."""
    found = [*odd_specs(op), *SPECS[op].round_shapes(), *SPECS[op].larger_shapes()]
    if is_full:
        presets = presets_for(op).values()
        found += [spec for spec in presets if spec.flops() <= MOST_FLOPS and spec.min_bytes() <= MOST_BYTES]
    return tuple(dict.fromkeys(found))
