"""Sums over groups of ranges, kernels and copies, on the clock of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from profkit.attribution.account import DeviceShares
from profkit.attribution.device.lanes import DevicePart
from profkit.attribution.device.memory import GroupMemory, device_memory
from profkit.attribution.device.notes import memory_notes, notes_of
from profkit.attribution.device.remainders import remainders_of
from profkit.attribution.grouping import Groups
from profkit.attribution.tree import is_in_tree
from profkit.attribution.usage import Remainder, largest_first
from profkit.capture.nesting import climbed, time_order
from profkit.capture.schema import NONE, ActivityKind, Column, Level


class DeviceSums:
    """Of one grouping; columns have one entry per group."""

    def __init__(self, shares: DeviceShares, groups: Groups, by: str) -> None:
        assert groups.of_activity is not None
        self.shares, self.groups, self.by = shares, groups, by
        self._of_activity, self._count = groups.of_activity, len(groups)

    @cached_property
    def owner(self) -> Column:
        """The group of every share; NONE: the remainder."""
        return self.groups.owners(self.shares)

    def own(self, _: str) -> list[int]:
        """The wall clock that each group owns."""
        return self._summed(self.owner, self.shares.ns)

    def part(self, name: str) -> list[int]:
        """Of this: what went into one part."""
        is_part = self.shares.part == DevicePart[name.removesuffix("_ns").upper()]
        return self._summed(np.where(is_part, self.owner, NONE), self.shares.ns)

    def launches(self, _: str) -> list[int]:
        """Kernels, copies and sets."""
        return self._summed(self._of_activity, np.ones(len(self._of_activity), np.int64))

    def duration(self, name: str) -> Sequence[int | None]:
        return self.durations[name]

    @cached_property
    def durations(self) -> Mapping[str, Sequence[int | None]]:
        """Sum of what they took, and the shortest, middle, mean and longest; None for groups without any."""
        took = self._took
        found: dict[str, list[int | None]] = {
            name: [None] * self._count for name in ("min_ns", "median_ns", "mean_ns", "max_ns")
        }
        order = np.lexsort((took, self._of_activity))
        groups, begins = np.unique(self._of_activity[order], return_index=True)
        for group, values in zip(groups.tolist(), np.split(took[order], begins[1:])):
            if group != NONE:
                found["min_ns"][group], found["max_ns"][group] = int(values[0]), int(values[-1])
                found["median_ns"][group] = int(values[(len(values) - 1) // 2])
                found["mean_ns"][group] = int(values.sum()) // len(values)
        return {"device_ns": self._summed(self._of_activity, took), **found}

    def copied(self, _: str) -> list[int | None]:
        """Of copies and sets; None for groups without any."""
        activities = self.shares.capture.activities
        moved = (activities.kind != ActivityKind.KERNEL) & (activities.bytes != NONE)
        where = np.where(moved, self._of_activity, NONE)
        has_any = self._summed(where, np.ones(len(where), np.int64))
        return [total if known else None for total, known in zip(self._summed(where, activities.bytes), has_any)]

    def calls(self, name: str) -> list[int]:
        """Of ranges; in tables of activities launches."""
        of_range = self.groups.of_range
        if of_range is None:
            return self.launches(name)
        counted = of_range != NONE
        if not self.groups.is_nested:
            counted &= self._is_outermost
        if self.groups.is_call is not None:
            counted &= self.groups.is_call
        return self._summed(np.where(counted, of_range, NONE), np.ones(len(of_range), np.int64))

    def inclusive(self, _: str) -> Sequence[int | None]:
        """The wall clock of a group with that of the ranges inside; in tables of activities their durations."""
        if self.groups.of_range is None:
            return self.durations["device_ns"]
        mine = (self.owner != NONE) & (self.shares.range != NONE)
        return self._inclusive(self.shares.range[mine], self.shares.ns[mine])

    def device_inclusive(self, _: str) -> list[int] | None:
        """Durations of what the ranges of a group and those inside launched."""
        if self.groups.of_range is None:
            return None
        place = self.shares.capture.activities.range
        return self._inclusive(place[place != NONE], self._took[place != NONE])

    def host(self, _: str) -> list[int] | None:
        of_range = self.groups.of_range
        return None if of_range is None else self._summed(of_range, self.shares.hosts.own_ns)

    def host_inclusive(self, _: str) -> list[int] | None:
        if self.groups.of_range is None:
            return None
        own = self.shares.hosts.own_ns
        return self._inclusive(np.arange(len(own)), own)

    def bytes(self, name: str) -> list[int] | None:
        return self.memory.columns[name] if self.memory else None

    @cached_property
    def memory(self) -> GroupMemory | None:
        """None where none was recorded, or the rows are not ranges."""
        return device_memory(self.shares.capture, self.groups)

    @property
    def _took(self) -> Column:
        activities = self.shares.capture.activities
        took: Column = activities.end_ns - activities.start_ns
        return took

    @property
    def _parent(self) -> Column:
        return self.shares.capture.ranges.parent if self.groups.parent is None else self.groups.parent

    @cached_property
    def _is_outermost(self) -> Column:
        """Ranges that are not nested in another of the same group."""
        group = self.groups.of_range
        assert group is not None
        outermost: Column = climbed(self._parent, self._parent, lambda row: group[row] != group) == NONE
        return outermost

    def _inclusive(self, rows: Column, values: Column) -> list[int]:
        """Sums over ranges with everything inside; nested ranges of the same group count once."""
        assert self.groups.of_range is not None
        ranges = self.shares.capture.ranges
        own = np.zeros(len(ranges), np.int64)
        np.add.at(own, rows, values)
        sums = own.tolist()
        # In order of time a child follows its parent, even on another thread.
        backward = time_order(ranges.start_ns, ranges.end_ns)[::-1]
        for row, above in zip(backward.tolist(), self._parent[backward].tolist()):
            if above != NONE:
                sums[above] += sums[row]
        return self._summed(np.where(self._is_outermost, self.groups.of_range, NONE), np.array(sums, np.int64))

    def _summed(self, groups: Column, values: Column) -> list[int]:
        totals: list[int] = self.groups.sums(groups, values).tolist()
        return totals

    def order(self, columns: Mapping[str, Sequence[Any]]) -> list[int]:
        """The largest share of the wall clock first; groups that own nothing and were not called are left out."""
        order = largest_first(columns, "exclusive_ns", "device_ns", "calls")
        return [row for row in order if columns["calls"][row] or columns["exclusive_ns"][row]]

    def whole(self) -> dict[str, Any]:
        """The fields of a Usage other than its rows."""
        shares, capture, memory = self.shares, self.shares.capture, self.memory
        parts = {f"{name}_ns": time_ns for name, time_ns in shares.by_part().items()}
        totals: dict[str, Any] = {"device_ns": int(self._took.sum()), "peak_bytes": None, **parts}
        remainders = remainders_of(shares, self.groups, self.owner, self.by)
        if memory and memory.unattributed_bytes:
            # In no part of the clock.
            stray = Remainder(f"allocated in no {self.by}", {"own_alloc_bytes": memory.unattributed_bytes})
            remainders = (*remainders, stray)
        if memory:
            totals |= {"alloc_calls": memory.total_calls, "peak_bytes": memory.peak_bytes}
            totals |= dict.fromkeys(("alloc_bytes", "own_alloc_bytes"), memory.total_bytes)
        return {
            "wall_ns": shares.wall_ns,
            "elapsed_ns": capture.duration_ns,
            "threads": len(capture.threads),
            "dropped": capture.losses.device,
            "remainders": remainders,
            "totals": totals,
            "devices": shares.lanes.lanes if shares.lanes.is_of_devices else 0,
            "parts": parts,
            "notes": (*notes_of(shares, self.groups, self.by), *memory_notes(capture, memory)),
            "subject": _subject(shares),
        }


def _subject(shares: DeviceShares) -> dict[str, Any]:
    capture = shares.capture
    known = {device.id: device.known() for device in capture.devices}
    return {
        "source": capture.recorder,
        "path": capture.path,
        "devices": [known.get(device, {"id": device}) for device in np.unique(capture.activities.device).tolist()],
        "steps": int(np.count_nonzero(is_in_tree(capture) & (capture.ranges.level == Level.STEP))),
        "lanes": shares.lanes.lanes,
        "facts": dict(capture.facts),
    }
