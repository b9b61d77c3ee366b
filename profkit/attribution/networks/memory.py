"""Bytes of a network's operators: the pass that records memory in, columns per span and totals out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.attribution.networks.operators import Operators, operators_of
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.schema import NONE, Column


@dataclass(frozen=True)
class OperatorBytes:
    """Columns per span of the memory pass, NONE where not observable; totals over its steps."""

    operators: Operators
    requested: Column
    temporary: Column
    peak: Column
    total_bytes: int | None
    unattributed_bytes: int | None
    """Of the total: allocated in the steps while no operator was open, where the source saw that."""
    peak_bytes: int | None
    """Most live at once, as the source tells it."""


def operator_bytes(capture: NetworkCapture, time: Operators) -> OperatorBytes | None:
    """None when no pass recorded memory, or it saw nothing of single operators and of the whole."""
    recording = capture.recording("memory")
    if recording is None:
        return None
    operators = time if recording is time.recording else operators_of(capture, "memory")
    spans = recording.spans
    requested, is_known = spans["requested_bytes"], spans["requested_bytes"] != NONE
    peak = recording.facts.get("peak_bytes")
    if not is_known.any() and peak is None:
        return None
    in_step = operators.step != NONE
    is_counted = np.zeros(len(requested), np.bool_)
    is_counted[operators.rows] = True
    outside = requested[is_known & in_step & ~is_counted]
    total = unattributed = None
    if is_known.any():
        unattributed = int(outside.sum()) + _outside_spans(operators)
        total = int(requested[is_known & is_counted].sum()) + unattributed
    return OperatorBytes(
        operators=operators,
        requested=requested,
        temporary=spans["temporary_bytes"],
        peak=spans["peak_bytes"],
        total_bytes=total,
        unattributed_bytes=unattributed,
        peak_bytes=None if peak is None else int(peak),
    )


def _outside_spans(operators: Operators) -> int:
    """Bytes taken in a step while no span at all was open."""
    allocations, steps = operators.recording.allocations, operators.recording.steps
    if not allocations or not operators.steps:
        return 0
    is_stray = (allocations["span"] == NONE) & (allocations["bytes"] > 0)
    times = allocations["time_ns"][is_stray]
    step = np.searchsorted(steps["start_ns"], times, side="right") - 1
    inside = (step >= 0) & (times < steps["end_ns"][np.maximum(step, 0)])
    return int(allocations["bytes"][is_stray][inside].sum())
