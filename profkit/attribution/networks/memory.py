"""Bytes of a network's operators: the operators of a pass in, totals over its steps out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.networks.operators import Operators
from profkit.capture.schema import NONE, MemoryKind


@dataclass(frozen=True)
class OperatorBytes:
    """Totals over the steps of a pass; None: not observable."""

    total_bytes: int | None
    unattributed_bytes: int | None
    """Of the total: allocated in the steps while no operator was open, where the source saw that."""
    peak_bytes: int | None
    """Most live at once, as the source tells it."""


def operator_bytes(operators: Operators) -> OperatorBytes | None:
    """None when the pass saw nothing of single operators and of the whole."""
    ranges = operators.capture.ranges
    requested, is_known = ranges.requested_bytes, ranges.requested_bytes != NONE
    peak = operators.capture.facts.get("peak_bytes")
    if not is_known.any():
        return None if peak is None else OperatorBytes(None, None, int(peak))
    is_counted = np.zeros(len(ranges), np.bool_)
    is_counted[operators.rows] = True
    outside = requested[is_known & (operators.step != NONE) & ~is_counted]
    unattributed = int(outside.sum()) + _outside_ranges(operators)
    total = int(requested[is_known & is_counted].sum()) + unattributed
    return OperatorBytes(total, unattributed, None if peak is None else int(peak))


def _outside_ranges(operators: Operators) -> int:
    """Bytes that the framework's allocator gave in a step while no range at all was open."""
    events, steps = operators.capture.memory_events, operators.capture.steps
    if not len(events) or not len(steps):
        return 0
    is_stray = (events.range == NONE) & (events.bytes > 0) & (events.kind == MemoryKind.PAGEABLE)
    times = events.time_ns[is_stray]
    step = np.searchsorted(steps.start_ns, times, side="right") - 1
    inside = (step >= 0) & (times < steps.end_ns[np.maximum(step, 0)])
    return int(events.bytes[is_stray][inside].sum())
