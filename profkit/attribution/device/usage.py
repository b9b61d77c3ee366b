"""Tables of a GPU trace: a Capture in, usage by operator, layer, kernel, copy, ... out.

Rows own segments of the GPUs' wall clock (device_lanes), so that rows and remainders add up to it to the nanosecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.attribution.device.groups import GROUPINGS, DeviceGroups, groups_by
from profkit.attribution.device.hosts import Hosts
from profkit.attribution.device.lanes import BUSY, PART_FIELDS, DevicePart, Lanes, lanes_of
from profkit.attribution.device.memory import DeviceMemory, device_memory
from profkit.attribution.device.notes import memory_notes, notes_of
from profkit.attribution.device.remainders import remainders_of
from profkit.attribution.tree import is_in_tree
from profkit.attribution.usage import Usage, UsageRows
from profkit.capture.nesting import time_order
from profkit.capture.schema import NONE, ActivityKind, Capture, Column, Level
from profkit.errors import UsageError


def device_usage(capture: Capture, by: str = "operator") -> Usage:
    """Time, launches and bytes by one of GROUPINGS, the largest share of the GPUs' wall clock first."""
    if by not in GROUPINGS:
        raise UsageError(f"a table of a GPU trace can be by {', '.join(GROUPINGS)}, not by {by!r}")
    hosts = Hosts(capture)
    lanes = lanes_of(capture, hosts)
    groups = groups_by(capture, by)
    owner = _owners(lanes, groups)
    memory = device_memory(capture, groups)
    columns = _columns(capture, lanes, groups, hosts, owner) | _memory_columns(memory, groups)
    remainders = remainders_of(capture, lanes, groups, owner, by)
    totals = {name: int(lanes.duration_ns[lanes.part == part].sum()) for part, name in PART_FIELDS.items()}
    return Usage(
        by=by,
        wall_ns=lanes.wall_ns,
        remainder_ns=int(lanes.duration_ns[owner == NONE].sum()),
        elapsed_ns=capture.duration_ns,
        threads=len(capture.threads),
        dropped=capture.losses.device,
        total_alloc_bytes=memory.total_bytes if memory else None,
        unattributed_alloc_bytes=memory.unattributed_bytes if memory else None,
        total_alloc_calls=memory.total_calls if memory else None,
        total_peak_bytes=memory.peak_bytes if memory else None,
        rows=_largest_first(columns),
        remainders=remainders,
        subject=_subject(capture, lanes),
        notes=(*notes_of(capture, lanes, groups, by), *memory_notes(capture, memory)),
        devices=lanes.lanes if lanes.is_of_devices else 0,
        device_ns=int((capture.activities.end_ns - capture.activities.start_ns).sum()),
        parts=totals,
    )


def _owners(lanes: Lanes, groups: DeviceGroups) -> Column:
    """The row of every segment; NONE: the remainder."""
    owner = np.full(len(lanes.part), NONE, np.int64)
    busy = np.isin(lanes.part, BUSY)
    owner[busy] = groups.of_activity[lanes.activity[busy]]
    if groups.of_range is not None:
        idle = ~busy & (lanes.range != NONE)
        owner[idle] = groups.of_range[lanes.range[idle]]
    return owner


def _columns(capture: Capture, lanes: Lanes, groups: DeviceGroups, hosts: Hosts, owner: Column) -> dict[str, list[Any]]:
    activities, count = capture.activities, len(groups.names)
    durations = activities.end_ns - activities.start_ns
    columns: dict[str, list[Any]] = {"name": list(groups.names)}
    for name, values in (("short", groups.shorts), ("kind", groups.kinds), ("type", groups.types)):
        if values:
            columns[name] = list(values)
    columns["exclusive_ns"] = _summed(owner, lanes.duration_ns, count)
    for part, name in PART_FIELDS.items():
        if part in (DevicePart.OUTSIDE, DevicePart.UNKNOWN):
            continue
        columns[name] = _summed(np.where(lanes.part == part, owner, NONE), lanes.duration_ns, count)
    columns["launches"] = _summed(groups.of_activity, np.ones(len(durations), np.int64), count)
    columns["device_ns"] = _summed(groups.of_activity, durations, count)
    columns |= _durations(groups.of_activity, durations, count)
    columns["copy_bytes"] = _bytes(activities, groups, count)
    if groups.of_range is None:
        return columns | {"calls": columns["launches"], "inclusive_ns": columns["device_ns"]}
    return columns | _of_ranges(capture, lanes, groups, hosts, owner)


def _of_ranges(
    capture: Capture, lanes: Lanes, groups: DeviceGroups, hosts: Hosts, owner: Column
) -> dict[str, list[Any]]:
    """What only ranges have: calls, time of the host, and sums with what lies inside."""
    of_range, count = groups.of_range, len(groups.names)
    if of_range is None or not len(of_range):
        return {name: [0] * count for name in ("calls", "inclusive_ns", "host_ns", "host_inclusive_ns")}
    activities = capture.activities
    tree = _RangeTree(capture, groups.parent, of_range)
    lane_ns = np.zeros(len(of_range), np.int64)
    mine = (owner != NONE) & (lanes.range != NONE)
    np.add.at(lane_ns, lanes.range[mine], lanes.duration_ns[mine])
    work_ns = np.zeros(len(of_range), np.int64)
    placed = activities.range != NONE
    np.add.at(work_ns, activities.range[placed], (activities.end_ns - activities.start_ns)[placed])
    counted = of_range != NONE
    if not groups.is_nested:
        counted &= tree.is_outermost
    if groups.is_call is not None:
        counted &= groups.is_call
    return {
        "calls": _summed(np.where(counted, of_range, NONE), np.ones(len(of_range), np.int64), count),
        "inclusive_ns": tree.inclusive(lane_ns, count),
        "device_inclusive_ns": tree.inclusive(work_ns, count),
        "host_ns": _summed(of_range, hosts.own_ns, count),
        "host_inclusive_ns": tree.inclusive(hosts.own_ns, count),
    }


class _RangeTree:
    """Ranges in ranges, for sums of a row with everything inside; what lies in a range of the same row counts once."""

    def __init__(self, capture: Capture, parent: Column | None, group: Column) -> None:
        ranges = capture.ranges
        parent = ranges.parent if parent is None else parent
        self._parent = parent
        self._group = group
        # In order of time a child stands after its parent, also one that is on another thread.
        self._order = time_order(ranges.start_ns, ranges.end_ns)
        above = parent.copy()
        is_inside = np.zeros(len(parent), bool)
        while (above != NONE).any():
            known = above != NONE
            is_inside[known] |= group[above[known]] == group[known]
            above[known] = parent[above[known]]
        self.is_outermost = ~is_inside

    def inclusive(self, own_ns: Column, count: int) -> list[int]:
        sums = own_ns.tolist()
        backward = self._order[::-1]
        for row, above in zip(backward.tolist(), self._parent[backward].tolist()):
            if above != NONE:
                sums[above] += sums[row]
        return _summed(np.where(self.is_outermost, self._group, NONE), np.array(sums, np.int64), count)


def _summed(groups: Column, values: Column, count: int) -> list[int]:
    sums = np.zeros(count, np.int64)
    known = groups != NONE
    np.add.at(sums, groups[known], values[known])
    totals: list[int] = sums.tolist()
    return totals


def _durations(groups: Column, durations: Column, count: int) -> dict[str, list[int | None]]:
    """Shortest, middle, mean and longest of one launch; None for rows without any."""
    columns: dict[str, list[int | None]] = {
        name: [None] * count for name in ("min_ns", "median_ns", "mean_ns", "max_ns")
    }
    order = np.lexsort((durations, groups))
    rows, begins = np.unique(groups[order], return_index=True)
    for row, values in zip(rows.tolist(), np.split(durations[order], begins[1:])):
        if row != NONE:
            columns["min_ns"][row], columns["max_ns"][row] = int(values[0]), int(values[-1])
            columns["median_ns"][row] = int(values[(len(values) - 1) // 2])
            columns["mean_ns"][row] = int(values.sum()) // len(values)
    return columns


def _bytes(activities: Any, groups: DeviceGroups, count: int) -> list[int | None]:
    moved = (activities.kind != ActivityKind.KERNEL) & (activities.bytes != NONE)
    where = np.where(moved, groups.of_activity, NONE)
    sums = _summed(where, activities.bytes, count)
    has_any = _summed(where, np.ones(len(where), np.int64), count)
    return [total if known else None for total, known in zip(sums, has_any)]


def _memory_columns(memory: DeviceMemory | None, groups: DeviceGroups) -> dict[str, list[Any]]:
    if memory is None or groups.of_range is None:
        return {}
    return {
        "alloc_calls": memory.calls,
        "own_alloc_bytes": memory.bytes,
        "live_bytes": memory.live_bytes,
        "peak_bytes": memory.peaks,
    }


def _largest_first(columns: dict[str, list[Any]]) -> UsageRows:
    """Rows that own something or were called; rows without anything are left out."""
    ranks = zip(columns["exclusive_ns"], columns["device_ns"], columns["calls"], columns["name"])
    order = [row for row, rank in sorted(enumerate(ranks), key=lambda each: (*(-n for n in each[1][:3]), each[1][3]))]
    return UsageRows(columns).in_order([row for row in order if columns["calls"][row] or columns["exclusive_ns"][row]])


def _subject(capture: Capture, lanes: Lanes) -> dict[str, Any]:
    known = {device.id: device.known() for device in capture.devices}
    return {
        "source": capture.recorder,
        "path": capture.path,
        "devices": [known.get(device, {"id": device}) for device in np.unique(capture.activities.device).tolist()],
        "steps": int(np.count_nonzero(is_in_tree(capture) & (capture.ranges.level == Level.STEP))),
        "lanes": lanes.lanes,
        "facts": dict(capture.facts),
    }
