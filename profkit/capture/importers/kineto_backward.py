"""Which thread ran the forward operator of a backward one: arrows and numbers of torch.profiler in, threads out.

Sequence numbers are counted by each thread alone. A backward operator has torch's own number of the forward thread
("Fwd thread id"), which stands nowhere else; an arrow (fwdbwd) tells which thread of the trace that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.capture.schema import NONE, Column


class ForwardThreads:
    """Arrows as they come; then the thread of each range's forward operator."""

    def __init__(self) -> None:
        self._begins: dict[tuple[Any, Any], int] = {}  # thread, by process and id of the arrow
        self._ends: dict[tuple[Any, Any], tuple[int, int]] = {}  # thread and time

    def add(self, process: Any, arrow: Any, thread: int, time_ns: int, is_begin: bool) -> None:
        """One end of an arrow."""
        if is_begin:
            self._begins[process, arrow] = thread
        else:
            self._ends[process, arrow] = (thread, time_ns)

    def of(self, ranges: dict[str, Column], told: Column, process_of_thread: Column) -> Column:
        """For each range the row of its forward thread. `told` is torch's number of it; NONE where there is none."""
        rows = np.flatnonzero(told != NONE).tolist()
        number_at = {(int(ranges["thread"][row]), int(ranges["start_ns"][row])): int(told[row]) for row in rows}
        thread_of: dict[tuple[int, int], int] = {}  # by process and torch's number
        for arrow, end in self._ends.items():
            if end in number_at and arrow in self._begins:
                thread_of[int(process_of_thread[end[0]]), number_at[end]] = self._begins[arrow]
        found = np.full(len(told), NONE, np.int64)
        for row in rows:
            found[row] = thread_of.get((int(process_of_thread[ranges["thread"][row]]), int(told[row])), NONE)
        return found
