"""What waiting threads cost: a run in; per layer and phase the share of computing time that busy ones would save.

Operators that had W of the step's wall clock, were open for T on their own threads (T is more than W where several ran
side by side) and had P of CPU time in helper threads could have taken (T + P) / threads: what is lost is the rest of W.
The calling thread counts as busy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profkit.attribution.kinds import AUXILIARY, KINDS
from profkit.attribution.networks.operators import LayerPhase, Operators, operators_of
from profkit.attribution.networks.pool import own_pool_ns
from profkit.capture.run import Run
from profkit.capture.schema import NONE, Column

_COMPUTES = np.array([kind not in AUXILIARY for kind in KINDS])


def threading_losses(
    run: Run, operators: Operators, place: Callable[[Operators, int], LayerPhase]
) -> dict[LayerPhase, float]:
    """Shares from 0 to 1, of layers whose helper threads were observed: in the pass for time, or for primitives."""
    if run.threads == 1:
        return {place(operators, row): 0.0 for row in _computing(operators)}  # there is no other thread that could wait
    watched, pool = operators, own_pool_ns(operators)
    if pool is None and run.capture("primitives") is not None:
        watched = operators_of(run, "primitives")
        pool = own_pool_ns(watched)
    if pool is None:
        return {}
    open_ns = _own_thread_ns(watched)
    sums: dict[LayerPhase, list[int]] = {}
    for row in _computing(watched):
        if pool[row] != NONE:
            wall_and_busy = sums.setdefault(place(watched, row), [0, 0])
            wall_and_busy[0] += int(watched.wall_ns[row])
            wall_and_busy[1] += int(open_ns[row]) + int(pool[row])
    return {key: _lost(wall, busy, run.threads) for key, (wall, busy) in sums.items() if wall}


def _lost(wall_ns: int, busy_ns: int, threads: int) -> float:
    return max(0.0, 1.0 - busy_ns / wall_ns / threads)


def _own_thread_ns(operators: Operators) -> Column:
    """How long each operator was open on its thread, without operators inside it on the same one."""
    rows, thread = operators.rows, operators.capture.ranges["thread"]
    spent = operators.end_ns - operators.start_ns
    own: Column = spent.copy()
    above = operators.above[rows]
    is_inside = (above != NONE) & (thread[above] == thread[rows])
    np.subtract.at(own, above[is_inside], spent[rows[is_inside]])
    return np.maximum(own, 0)


def _computing(operators: Operators) -> list[int]:
    rows: Column = operators.rows[_COMPUTES[operators.kind[operators.rows]]]
    found: list[int] = rows.tolist()
    return found
