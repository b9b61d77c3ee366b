"""What holds for every capture, whoever recorded it: each of its clocks adds up, to the nanosecond and the byte."""

from __future__ import annotations

import numpy as np

from profkit.attribution.account import DEVICES, STEPS, THREADS, Shares, account, clocks_of
from profkit.attribution.aggregation import usage
from profkit.attribution.grouping import groupings_on
from profkit.attribution.networks.operators import operators_in
from profkit.attribution.usage import Usage
from profkit.capture.schema import HOST_MEMORY, NONE, Capture


def assert_adds_up(capture: Capture) -> None:
    """Shares make up their clock, and rows with remainders every table of it, in time and bytes."""
    for clock in clocks_of(capture):
        shares = account(capture, clock)
        assert (shares.ns >= 0).all()
        assert int(shares.ns.sum()) == shares.wall_ns == sum(shares.by_part().values())
        assert shares.wall_ns == _wall_ns(shares)
        for by in groupings_on(clock):
            _assert_table_adds_up(usage(shares, by), shares)


def _wall_ns(shares: Shares) -> int:
    """The clock, read again from the capture's columns."""
    capture = shares.capture
    if shares.clock == STEPS:
        per_step = np.zeros(len(capture.steps), np.int64)
        np.add.at(per_step, shares.step, shares.ns)
        assert (per_step == capture.steps.end_ns - capture.steps.start_ns).all()
        return int(per_step.sum())
    if shares.clock == DEVICES and len(capture.activities):
        return len(np.unique(capture.activities.device)) * capture.duration_ns
    ranges, found = capture.ranges, 0
    if shares.clock == THREADS and not (ranges.kind == 0).any():
        first = capture.threads.index == 0
        return int((capture.threads.end_ns - capture.threads.start_ns)[first].sum())
    for thread in np.unique(ranges.thread[ranges.kind == 0]).tolist():
        mine = (ranges.thread == thread) & (ranges.kind == 0)
        moments = [int(ranges.start_ns[mine].min()), int(ranges.end_ns[mine].max())]
        if shares.clock == THREADS:
            moments += [int(capture.threads.start_ns[thread]), int(capture.threads.end_ns[thread])]
        found += max(moments) - min(moments)
    return found


def _assert_table_adds_up(table: Usage, shares: Shares) -> None:
    assert sum(table.rows.column("exclusive_ns")) + table.remainder_ns == table.wall_ns == shares.wall_ns, table.by
    assert all(value >= 0 for value in table.rows.column("exclusive_ns"))
    if table.total_alloc_bytes is None:
        return
    metric = "requested_bytes" if shares.clock == STEPS else "own_alloc_bytes"
    own = sum(value or 0 for value in table.rows.column(metric))
    assert own + table.unattributed_alloc_bytes == table.total_alloc_bytes == _allocated(shares), table.by


def _allocated(shares: Shares) -> int:
    """All bytes that were asked for on this clock, read again from the capture's columns."""
    capture, events = shares.capture, shares.capture.memory_events
    if shares.clock == STEPS:
        return _requested(capture)
    if shares.clock == DEVICES:
        return int(events.bytes[(events.bytes > 0) & ~np.isin(events.kind, HOST_MEMORY)].sum())
    return int(capture.allocations.bytes.sum())


def _requested(capture: Capture) -> int:
    """What ranges of steps requested, and what the framework's allocator gave in a step while none was open."""
    ranges, events = capture.ranges, capture.memory_events
    mine = (operators_in(capture).step != NONE) & (ranges.requested_bytes != NONE)
    total = int(ranges.requested_bytes[mine].sum())
    for start, end in zip(capture.steps.start_ns.tolist(), capture.steps.end_ns.tolist()):
        stray = (events.range == NONE) & (events.bytes > 0) & np.isin(events.kind, HOST_MEMORY)
        total += int(events.bytes[stray & (events.time_ns >= start) & (events.time_ns < end)].sum())
    return total
