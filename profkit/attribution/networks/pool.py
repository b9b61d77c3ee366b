"""CPU time of helper threads: pool spans and counters of a capture in, each operator's own part of it out."""

from __future__ import annotations

import numpy as np

from profkit.attribution.networks.operators import Operators
from profkit.capture.schema import NONE, Column, Level


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
    # The nearest operator around that knows its own sum; one that does not passes the part on.
    for row in rows[given[rows] != NONE].tolist():
        above = int(operators.above[row])
        while above != NONE and given[above] == NONE:
            above = int(operators.above[above])
        if above != NONE:
            own[above] -= given[row]
    # Counters are read one after another, so a sum of parts may exceed the whole by a little.
    return np.where(given == NONE, NONE, np.maximum(own, 0))


def _by_owner(operators: Operators) -> Column | None:
    """Time of the pool spans of each owner; those of one thread that overlap count once."""
    spans = operators.capture.ranges
    rows = np.flatnonzero((spans["level"] == Level.POOL) & (spans["owner"] != NONE))
    if not (spans["level"] == Level.POOL).any():
        return None
    sums = np.zeros(len(spans["level"]), np.int64)
    order = rows[np.lexsort((spans["start_ns"][rows], spans["thread"][rows], spans["owner"][rows]))]
    last, reached = None, 0
    columns = (spans[name][order].tolist() for name in ("owner", "thread", "start_ns", "end_ns"))
    for owner, thread, start, end in zip(*columns):
        if (owner, thread) != last:
            last, reached = (owner, thread), start
        sums[owner] += max(0, end - max(start, reached))
        reached = max(reached, end)
    return sums
