"""Sums over groups of a network's operators, on the clock of steps: over all recorded steps together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.attribution.account import StepShares
from profkit.attribution.grouping import Groups
from profkit.attribution.networks.operators import REMAINDERS, Operators
from profkit.attribution.networks.pool import covered_ns, own_pool_ns
from profkit.attribution.usage import Remainder, largest_first
from profkit.capture.nesting import climbed, interval_at
from profkit.capture.schema import NONE, Column, MemoryKind
from profkit.errors import listed


class OperatorSums:
    """Of one grouping; columns have one entry per group."""

    def __init__(self, shares: StepShares, groups: Groups, by: str) -> None:
        assert groups.of_range is not None
        self.shares, self.groups, self.by = shares, groups, by
        self._operators, self._rows = shares.operators, shares.operators.rows
        self._of_range, self._count = groups.of_range, len(groups)
        self._of_row = groups.of_range[self._rows]

    def own(self, _: str) -> Column:
        """Shares of the steps' wall clock."""
        return self._sums(self._operators.wall_ns)

    def recorded(self, name: str) -> list[int | None] | None:
        """The sum of a column of ranges."""
        return self._known(self.shares.capture.ranges[name])

    def largest(self, name: str) -> list[int | None]:
        """The largest of a column of ranges, None where nothing is known."""
        result = np.full(self._count, NONE, np.int64)
        np.maximum.at(result, self._of_row, self.shares.capture.ranges[name][self._rows])
        return [None if value == NONE else int(value) for value in result]

    def pool(self, _: str) -> list[int | None] | None:
        return self._known(own_pool_ns(self._operators))

    def work(self, name: str) -> list[int | None] | None:
        """Flops, or bytes that must move."""
        work = self.shares.work
        return self._known(None if work is None else work.flops if name == "flops" else work.bytes)

    def calls(self, _: str) -> Column:
        """Those not nested inside another call of the same group."""
        above = self._operators.above
        same = climbed(above[self._rows], above, lambda row: self._of_range[row] != self._of_row)
        return np.bincount(self._of_row[same == NONE], minlength=self._count)

    def inclusive(self, _: str) -> list[int]:
        """Union of the intervals of each group on each thread, summed over threads."""
        columns = (self.shares.capture.ranges.thread, self._operators.start_ns, self._operators.end_ns)
        return covered_ns(self._count, self._of_row, *(column[self._rows] for column in columns))

    def _known(self, values: Column | None) -> list[int | None] | None:
        """The sum of a value per range, None where nothing is known."""
        if values is None or not (values[self._rows] != NONE).any():
            return None
        counts = np.bincount(self._of_row[values[self._rows] != NONE], minlength=self._count)
        return [int(total) if count else None for total, count in zip(self._sums(values), counts)]

    def _sums(self, values: Column) -> Column:
        """Of a column of ranges, without unknown values."""
        return self.groups.sums(self._of_row, np.maximum(values[self._rows], 0))

    def order(self, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """The largest own time first."""
        return largest_first(columns, "exclusive_ns")

    def whole(self) -> dict[str, Any]:
        """The fields of a Usage other than its rows."""
        operators, parts = self._operators, self.shares.by_part()
        observed = operators.observed_remainders
        times = {name: parts[name] if name in observed else None for name in REMAINDERS}
        values: dict[str, dict[str, Any]] = {
            name: {"inclusive_ns": time_ns, "exclusive_ns": time_ns} for name, time_ns in times.items()
        }
        peak, requested = operators.capture.facts.get("peak_bytes"), _requested_bytes(operators)
        totals: dict[str, Any] = {"peak_bytes": None if peak is None else int(peak)}
        if requested:
            totals["requested_bytes"], unattributed = requested
            if unattributed:
                # It is unknown in which of them it was allocated: it counts for the first.
                values[REMAINDERS[0]]["requested_bytes"] = unattributed
        return {
            "wall_ns": self.shares.wall_ns,
            "elapsed_ns": self.shares.wall_ns,
            "threads": len(np.unique(self.shares.capture.ranges.thread[self._rows])),
            "dropped": self.shares.capture.losses.records,
            "remainders": tuple(Remainder(name, each) for name, each in values.items()),
            "totals": totals,
            "steps": operators.steps,
            "notes": tuple(self._notes()),
        }

    def _notes(self) -> list[str]:
        operators, notes = self._operators, []
        if operators.unknown_types:
            named = [f"{name} {count:,}" for name, count in operators.unknown_types.items()]
            notes.append(f"kind other, types not in any table: {listed(named)}")
        if operators.cut_rows:
            many = f"{operators.cut_rows:,} operators extended beyond their step"
            one = "1 operator extended beyond its step"
            notes.append(f"{one if operators.cut_rows == 1 else many} by {operators.cut_ns:,} ns in total: cut")
        if operators.outside_rows:
            plural = "" if operators.outside_rows == 1 else "s"
            notes.append(f"{operators.outside_rows:,} operator{plural} ran outside the steps: in no row")
        if self.shares.work and self.shares.work.missing:
            places = [" ".join(filter(None, place)) for place in self.shares.work.missing]
            notes.append(f"flops of these are in no row, no operator was recorded: {listed(places)}")
        return notes + [str(note) for note in operators.capture.facts.get("notes", ())]


def _requested_bytes(operators: Operators) -> tuple[int, int] | None:
    """Of all steps of a pass; and of these the bytes allocated while no operator was open, where the source records it.

    None when the source has no sizes of single operators.
    """
    ranges = operators.capture.ranges
    requested, is_known = ranges.requested_bytes, ranges.requested_bytes != NONE
    if not is_known.any():
        return None
    is_counted = np.zeros(len(ranges), np.bool_)
    is_counted[operators.rows] = True
    outside = requested[is_known & (operators.step != NONE) & ~is_counted]
    unattributed = int(outside.sum()) + _outside_ranges(operators)
    return int(requested[is_known & is_counted].sum()) + unattributed, unattributed


def _outside_ranges(operators: Operators) -> int:
    """Bytes that the framework's allocator gave in a step while no range at all was open."""
    events, steps = operators.capture.memory_events, operators.capture.steps
    if not len(events) or not len(steps):
        return 0
    is_stray = (events.range == NONE) & (events.bytes > 0) & (events.kind == MemoryKind.PAGEABLE)
    times = events.time_ns[is_stray]
    inside = interval_at(steps.start_ns, steps.end_ns, times) != NONE
    return int(events.bytes[is_stray][inside].sum())
