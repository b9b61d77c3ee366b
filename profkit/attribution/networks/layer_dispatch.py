"""The framework's own time inside each layer: instants of a step with a layer's code open and no operator running."""

from __future__ import annotations

import numpy as np

from profkit.attribution.networks.operators import LayerPhase, Operators
from profkit.attribution.tree import innermost_pieces
from profkit.capture.schema import FORWARD, NONE, Column, Level
from profkit.capture.trace_tables import LARGEST

_OWNERS = (Level.LAYER, Level.RUNTIME)


def layer_dispatch(operators: Operators) -> dict[LayerPhase, int] | None:
    """Nanoseconds over all steps by layer and phase; None when the source does not see layers' own code.

    An instant belongs to the code that was entered last, on whatever thread, and only if no thread runs an operator:
    all of them are part of the steps' remainders.
    """
    spans = operators.capture.ranges
    is_owner = np.isin(spans["level"], _OWNERS) & (operators.layer != NONE)
    if not is_owner.any():
        return None
    found: dict[LayerPhase, int] = {}
    rows = np.flatnonzero(is_owner & (operators.step != NONE))
    # Of equal begins the inner one is entered last.
    rows = rows[np.lexsort((-rows, -operators.end_ns[rows], operators.start_ns[rows]))]
    begins, ends, owners = innermost_pieces(rows, operators.start_ns[rows], operators.end_ns[rows])
    idle_ns = _idle_clock(operators, ends) - _idle_clock(operators, begins)
    for row, ns in zip(owners.tolist(), idle_ns.tolist()):
        key = (operators.text("layer", row), operators.text("phase", row) or FORWARD)
        found[key] = found.get(key, 0) + ns
    return found


def _idle_clock(operators: Operators, moments: Column) -> Column:
    """The readings at these moments of a clock that runs only while no thread runs an operator."""
    start, end = operators.start_ns[operators.rows], operators.end_ns[operators.rows]
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    is_first = np.ones(len(start), np.bool_)
    is_first[1:] = start[1:] > reach[:-1]
    # Stretches of work; one of no length comes before all times.
    begins = np.append(-LARGEST - 1, start[is_first])
    ends = np.concatenate((begins[:1], reach[:-1][is_first[1:]], reach[-1:]))
    busy_ns = np.concatenate(([0], np.cumsum(ends - begins)))
    place = np.searchsorted(begins, moments, side="right")
    shown: Column = moments - busy_ns[place] + np.maximum(0, ends[place - 1] - moments)
    return shown
