"""What waiting threads cost: a capture in; per layer and phase the share of computing time that busy ones would save.

An operator that ran W on its thread, with P of CPU time in helper threads, could have run (W + P) / threads: lost is
1 - (1 + P / W) / threads of W. The calling thread counts as busy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profkit.attribution.kinds import AUXILIARY, KINDS
from profkit.attribution.operator_pool import own_pool_ns
from profkit.attribution.operators import Operators, operators_of
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.recording import NONE, Column

LayerPhase = tuple[str, str]
_COMPUTES = np.array([kind not in AUXILIARY for kind in KINDS])


def threading_losses(
    capture: NetworkCapture, operators: Operators, place: Callable[[Operators, int], LayerPhase]
) -> dict[LayerPhase, float]:
    """Shares from 0 to 1, of layers whose helper threads were observed: in the pass for time, or for primitives."""
    if capture.threads == 1:
        return {place(operators, row): 0.0 for row in _computing(operators)}  # there is no other thread that could wait
    watched, pool = operators, own_pool_ns(operators)
    if pool is None and capture.recording("primitives") is not None:
        watched = operators_of(capture, "primitives")
        pool = own_pool_ns(watched)
    if pool is None:
        return {}
    sums: dict[LayerPhase, list[int]] = {}
    for row in _computing(watched):
        if pool[row] != NONE:
            wall_and_busy = sums.setdefault(place(watched, row), [0, 0])
            wall_and_busy[0] += int(watched.wall_ns[row])
            wall_and_busy[1] += int(pool[row])
    return {key: _lost(wall, busy, capture.threads) for key, (wall, busy) in sums.items() if wall}


def _lost(wall_ns: int, busy_ns: int, threads: int) -> float:
    return max(0.0, 1.0 - (1.0 + busy_ns / wall_ns) / threads)


def _computing(operators: Operators) -> list[int]:
    rows: Column = operators.rows[_COMPUTES[operators.kind[operators.rows]]]
    found: list[int] = rows.tolist()
    return found
