"""Helper threads: each operator's own part of their CPU time, and the share of time lost to waiting threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from profkit.attribution.kinds import AUXILIARY, KINDS
from profkit.attribution.networks.operators import LayerPhase, Operators, operators_of
from profkit.capture.nesting import climbed
from profkit.capture.run import Run
from profkit.capture.schema import NONE, Column, Level

_COMPUTES = np.array([kind not in AUXILIARY for kind in KINDS])


def own_pool_ns(operators: Operators) -> Column | None:
    """Nanoseconds per span without what operators inside it used, NONE where not observed; None if nowhere.

    A source either gives `pool_cpu_ns`, insides included, or leaves spans of the helper threads with their owner.
    """
    spans = operators.capture.ranges
    rows = operators.rows
    given = spans["pool_cpu_ns"]
    owned = _by_owner(operators)
    if not (given[rows] != NONE).any():
        if owned is None:
            return None
        own = np.full(len(given), NONE, np.int64)
        own[rows] = owned[rows]
        return own
    own = given.copy()
    known = rows[given[rows] != NONE]
    # The nearest operator around that knows its own sum; one that does not passes the part on.
    above = climbed(operators.above[known], operators.above, lambda row: given[row] == NONE)
    np.subtract.at(own, above[above != NONE], given[known[above != NONE]])
    # Counters are read one after another, so a sum of parts may exceed the whole by a little.
    return np.where(given == NONE, NONE, np.maximum(own, 0))


def _by_owner(operators: Operators) -> Column | None:
    """Time of the pool spans of each owner; those of one thread that overlap count once."""
    spans = operators.capture.ranges
    rows = np.flatnonzero((spans["level"] == Level.POOL) & (spans["owner"] != NONE))
    if not (spans["level"] == Level.POOL).any():
        return None
    columns = (spans[name][rows] for name in ("owner", "thread", "start_ns", "end_ns"))
    return np.array(covered_ns(len(spans), *columns), np.int64)


def covered_ns(count: int, *intervals: Column) -> list[int]:
    """Nanoseconds of each of this number of groups; intervals have group, thread, start and end.

    Those of one group and thread that overlap count once.
    """
    group, thread, start_ns, _ = intervals
    order = np.lexsort((start_ns, thread, group))
    sums, last, reached = [0] * count, None, 0
    for number, where, start, end in zip(*(column[order].tolist() for column in intervals)):
        if (number, where) != last:
            last, reached = (number, where), start
        sums[number] += max(0, end - max(start, reached))
        reached = max(reached, end)
    return sums


def threading_losses(
    run: Run, operators: Operators, place: Callable[[Operators, int], LayerPhase]
) -> dict[LayerPhase, float]:
    """By layer and phase the share of computing time, from 0 to 1, that busy threads would save.

    Operators that had W of the step's wall clock, were open for T on their own threads (T is more than W where several
    ran side by side) and had P of CPU time in helper threads could have taken (T + P) / threads; the rest of W is lost.
    The calling thread counts as busy. Of layers whose helper threads were observed: in the pass for time, or for
    primitives.
    """
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
    return {key: max(0.0, 1.0 - busy / wall / run.threads) for key, (wall, busy) in sums.items() if wall}


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
