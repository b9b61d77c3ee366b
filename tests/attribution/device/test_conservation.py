"""Whatever a GPU trace holds: no nanosecond, launch or byte is lost or counted twice, by any grouping."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from profkit.attribution.account import DEVICES
from profkit.attribution.device.hosts import Hosts
from profkit.attribution.device.lanes import lanes_of
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import usage_of
from profkit.capture.schema import ActivityKind, Capture
from tests.attribution.device.random_traces import device_traces
from tests.attribution.device.slow_usage import SlowTrace

ROW_PARTS = ("kernel_ns", "auxiliary_ns", "copy_ns", "queue_ns", "dispatch_ns", "call_ns", "sync_ns")


by_grouping = pytest.mark.parametrize(
    "by",
    [pytest.param(by, marks=() if by in ("operator", "kernel") else pytest.mark.full) for by in groupings_on(DEVICES)],
)


@by_grouping
@given(trace=device_traces(least_work=1))
@settings(max_examples=40, deadline=None)
def test_rows_and_remainders_add_up_to_the_wall_clock_part_by_part(by: str, trace: Capture) -> None:
    usage = usage_of(trace, by, clock=DEVICES)

    assert usage.devices == len(set(trace.activities["device"].tolist()))
    assert usage.wall_ns == usage.devices * (trace.end_ns - trace.start_ns)
    assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
    assert sum(part.time_ns or 0 for part in usage.remainders) == usage.remainder_ns
    assert usage.parts is not None
    assert sum(usage.parts.values()) == usage.wall_ns
    for row in usage.rows:
        assert sum(getattr(row, name) for name in ROW_PARTS) == row.exclusive_ns
    for name, total in usage.parts.items():
        of_rows = sum(usage.rows.column(name)) if name in ROW_PARTS else 0
        assert of_rows + (usage.left(name) or 0) == total


@by_grouping
@given(trace=device_traces(least_work=1))
@settings(max_examples=40, deadline=None)
def test_launches_durations_and_bytes_add_up(by: str, trace: Capture) -> None:
    work = trace.activities
    durations = (work["end_ns"] - work["start_ns"]).tolist()
    moved = [max(0, size) for size, kind in zip(work["bytes"].tolist(), work["kind"]) if kind != ActivityKind.KERNEL]

    usage = usage_of(trace, by, clock=DEVICES)

    for name, total in (("launches", len(durations)), ("device_ns", sum(durations)), ("copy_bytes", sum(moved))):
        of_rows = sum(value or 0 for value in usage.rows.column(name))
        assert of_rows + (usage.left(name) or 0) == total
    assert usage.totals["device_ns"] == sum(durations)


@given(trace=device_traces(least_work=1))
@settings(max_examples=150, deadline=None)
def test_every_nanosecond_goes_where_the_slow_reference_puts_it(trace: Capture) -> None:
    expected = SlowTrace(trace).operator_parts()

    usage = usage_of(trace, "operator", clock=DEVICES)

    assert usage.parts is not None
    found: Counter[tuple[str, str]] = Counter()
    for row in usage.rows:
        found.update({(row.name, name): getattr(row, name) for name in ROW_PARTS})
    for part in usage.remainders:
        found.update({("", name): time for name, time in part.values.items() if name in usage.parts})
    assert +found == +expected


@given(trace=device_traces(least_work=1))
@settings(max_examples=60, deadline=None)
def test_the_segments_of_each_gpu_follow_each_other_without_a_hole(trace: Capture) -> None:
    lanes = lanes_of(trace, Hosts(trace))

    for device in set(trace.activities["device"].tolist()):
        mine = lanes.lane == device
        starts, ends = lanes.start_ns[mine].tolist(), lanes.end_ns[mine].tolist()
        if trace.start_ns == trace.end_ns:
            continue
        assert (starts[0], ends[-1]) == (trace.start_ns, trace.end_ns)
        assert starts[1:] == ends[:-1]
        assert all(start <= end for start, end in zip(starts, ends))


@pytest.mark.parametrize("by", ["operator", "layer", "phase"])
@given(trace=device_traces())
@settings(max_examples=60, deadline=None)
def test_allocated_bytes_are_conserved_and_peaks_are_possible(by: str, trace: Capture) -> None:
    allocated = [size for size in trace.memory_events["bytes"].tolist() if size > 0]

    usage = usage_of(trace, by, clock=DEVICES)

    if not len(trace.memory_events["bytes"]):
        assert usage.total_alloc_bytes is None
        return
    assert usage.total_alloc_bytes == sum(allocated)
    assert usage.totals["alloc_calls"] == len(allocated)
    assert sum(usage.rows.column("own_alloc_bytes")) + (usage.unattributed_alloc_bytes or 0) == sum(allocated)
    for row in usage.rows:
        assert 0 <= (row.live_bytes or 0) <= (row.peak_bytes or 0) <= (row.own_alloc_bytes or 0)
        assert (row.peak_bytes or 0) <= (usage.total_peak_bytes or 0)
