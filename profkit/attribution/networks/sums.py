"""Sums over groups of a network's operators, on the clock of steps: over all recorded steps together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from profkit.attribution.account import StepShares
from profkit.attribution.grouping import Groups
from profkit.attribution.networks.memory import OperatorBytes, operator_bytes
from profkit.attribution.networks.operators import REMAINDERS
from profkit.attribution.networks.pool import own_pool_ns
from profkit.attribution.usage import Remainder, largest_first
from profkit.capture.schema import NONE, Column

NAMED_AT_MOST = 5


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
        """CPU time of helper threads."""
        return self._known(own_pool_ns(self._operators))

    def work(self, name: str) -> list[int | None] | None:
        """Flops, or bytes that must move."""
        work = self.shares.work
        return self._known(None if work is None else work.flops if name == "flops" else work.bytes)

    def calls(self, _: str) -> Column:
        """Those not nested inside another call of the same group."""
        is_inner = np.zeros(len(self._rows), np.bool_)
        above = self._operators.above[self._rows]
        while (above != NONE).any():
            is_inner |= (above != NONE) & (self._of_range[above] == self._of_row)
            above = np.where(above != NONE, self._operators.above[above], NONE)
        return np.bincount(self._of_row[~is_inner], minlength=self._count)

    def inclusive(self, _: str) -> list[int]:
        """Union of the intervals of each group on each thread, summed over threads."""
        thread = self.shares.capture.ranges.thread[self._rows]
        start, end = self._operators.start_ns[self._rows], self._operators.end_ns[self._rows]
        order = np.lexsort((start, thread, self._of_row))
        result = [0] * self._count
        last, reached = None, 0
        columns = (self._of_row[order], thread[order], start[order], end[order])
        for group, number, begin, finish in zip(*(column.tolist() for column in columns)):
            if (group, number) != last:
                last, reached = (group, number), begin
            result[group] += max(0, finish - max(begin, reached))
            reached = max(reached, finish)
        return result

    @cached_property
    def memory(self) -> OperatorBytes | None:
        """None where bytes were not recorded."""
        return operator_bytes(self._operators)

    def _known(self, values: Column | None) -> list[int | None] | None:
        """The sum of a value per range, None where nothing is known."""
        if values is None or not (values[self._rows] != NONE).any():
            return None
        counts = np.bincount(self._of_row[values[self._rows] != NONE], minlength=self._count)
        return [int(total) if count else None for total, count in zip(self._sums(values), counts)]

    def _sums(self, values: Column) -> Column:
        """Of a column of ranges, without what is not known."""
        result = np.zeros(self._count, np.int64)
        np.add.at(result, self._of_row, np.maximum(values[self._rows], 0))
        return result

    def order(self, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """The largest own time first."""
        return largest_first(columns, "exclusive_ns")

    def whole(self) -> dict[str, Any]:
        """What a Usage says besides its rows."""
        operators, memory, parts = self._operators, self.memory, self.shares.by_part()
        observed = operators.observed_remainders
        times = {name: parts[name] if name in observed else None for name in REMAINDERS}
        values: dict[str, dict[str, Any]] = {
            name: {"inclusive_ns": time_ns, "exclusive_ns": time_ns} for name, time_ns in times.items()
        }
        totals: dict[str, Any] = {"peak_bytes": memory.peak_bytes if memory else None}
        if memory and memory.total_bytes is not None:
            totals["requested_bytes"] = memory.total_bytes
            if memory.unattributed_bytes:
                # In which of them it was allocated is not known: it stands in the first.
                values[REMAINDERS[0]]["requested_bytes"] = memory.unattributed_bytes
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


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(names[:NAMED_AT_MOST]) + more
