"""Whose bytes: allocations in order of time, and the spans they fell into, become the memory columns of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from profkit.capture.schema import NONE, Column
from profkit.frameworks.torch.raw_events import TorchEvents

ALLOCATORS = frozenset(
    f"aten::{name}"
    for name in ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "empty_quantized")
)
"""Torch's way to call malloc: inside another operator, what they take is that operator's."""


def memory_columns(events: TorchEvents, is_operator: Sequence[bool]) -> dict[str, Column]:
    """requested, temporary, peak and live bytes of every span; NONE on threads whose memory torch does not report."""
    count = len(events.spans["start_ns"])
    is_seen = np.array([thread.is_recorder for thread in events.threads], bool)[events.spans["thread"]]
    tally = _Tally(events, is_operator)
    for event in zip(*(events.allocations[name].tolist() for name in ("time_ns", "address", "bytes", "span"))):
        tally.add(*event)
    # The total when a span ended; of events at the same nanosecond those count that came before the end.
    totals = np.concatenate(([0], np.cumsum(events.allocations["bytes"])))
    last = np.searchsorted(events.allocations["time_ns"], events.spans["end_ns"], side="right")
    columns = {
        "requested_bytes": np.array(tally.requested, np.int64),
        "temporary_bytes": np.array(tally.temporary, np.int64),
        "peak_bytes": np.array(tally.peak, np.int64),
        "live_bytes": totals[last].astype(np.int64),
    }
    return {name: np.where(is_seen, column, NONE) for name, column in columns.items()} if count else columns


def without_older_blocks(events: TorchEvents) -> TorchEvents:
    """The same without the end of blocks that were taken before recording began: what they are part of is not known.

    Torch reports such an end only if an earlier recording saw the beginning; with it, totals would depend on that.
    """
    taken: set[int] = set()
    is_kept = []
    for address, size in zip(events.allocations["address"].tolist(), events.allocations["bytes"].tolist()):
        is_kept.append(size > 0 or address in taken)
        (taken.add if size > 0 else taken.discard)(address)
    kept = np.array(is_kept, bool)
    return replace(events, allocations={name: column[kept] for name, column in events.allocations.items()})


def peak_of(events: TorchEvents) -> int:
    """Most bytes live at once of all that was allocated since recording began."""
    return int(np.cumsum(events.allocations["bytes"]).max(initial=0))


class _Tally:
    """Goes through allocations in order of time; one entry per span in each list."""

    def __init__(self, events: TorchEvents, is_operator: Sequence[bool]) -> None:
        spans, names = events.spans, events.names
        self._parent = spans["parent"].tolist()
        self._end_ns = spans["end_ns"].tolist()
        self._creditor = self._creditors(
            [names[number] in ALLOCATORS for number in spans["name"].tolist()], is_operator
        )
        count = len(self._parent)
        self.requested = [0] * count
        self.temporary = [0] * count
        self.peak = [0] * count
        self._held = [0] * count  # by the span and its insides, now
        self._taken_by: dict[int, tuple[int, int]] = {}  # address: span, bytes

    def _creditors(self, is_allocator: Sequence[bool], is_operator: Sequence[bool]) -> list[int]:
        """For each span the one that its allocations are counted for: itself, or the operator that called it."""
        result: list[int] = []
        for row, parent in enumerate(self._parent):
            is_called = is_allocator[row] and parent >= 0 and is_operator[parent]
            result.append(result[parent] if is_called else row)
        return result

    def add(self, time_ns: int, address: int, size: int, span: int) -> None:
        """One allocation, or with a negative size its end."""
        if size > 0:
            self._taken_by[address] = (span, size)
            if span >= 0:
                self.requested[self._creditor[span]] += size
            self._hold(span, size, time_ns)
            return
        span, size = self._taken_by.pop(address, (NONE, 0))
        if span >= 0 and time_ns <= self._end_ns[self._creditor[span]]:
            self.temporary[self._creditor[span]] += size
        self._hold(span, -size, time_ns)

    def _hold(self, span: int, size: int, time_ns: int) -> None:
        """Every open span around the allocation holds so much more, or less."""
        while span >= 0:
            if time_ns <= self._end_ns[span]:
                self._held[span] += size
                self.peak[span] = max(self.peak[span], self._held[span])
            span = self._parent[span]
