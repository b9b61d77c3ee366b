"""The owner of every nanosecond of every GPU: a Capture in, segments out that fill each GPU's wall clock.

A GPU computes, copies, or is idle; while it is idle, the state of the thread that launches its next work is the reason.
docs/device-traces.md has the rules in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from heapq import heappop, heappush

import numpy as np

from profkit.attribution.device.hosts import CALL, CODE, WAIT, Hosts
from profkit.attribution.kernels.names import KernelName, parse_kernel
from profkit.capture.schema import NONE, ActivityKind, Capture, Column
from profkit.capture.trace_tables import mapped


class DevicePart(IntEnum):
    """The parts of a GPU's time; up to COPY it is busy."""

    KERNEL = 0
    AUXILIARY = 1  # a library's kernel beside the one that computes: layout, padding, tables, partial sums
    COPY = 2  # copies and sets
    QUEUE = 3  # idle, although the launch of the next work has returned: latency, or it waits for another stream
    DISPATCH = 4  # idle; the launching thread runs code of a range
    CALL = 5  # idle; it is inside a CUDA call, that of the launch among them
    SYNC = 6  # idle; it is inside a call that waits for the device
    OUTSIDE = 7  # idle; it is in no range
    UNKNOWN = 8  # idle; who launches the next work was not recorded


BUSY = (DevicePart.KERNEL, DevicePart.AUXILIARY, DevicePart.COPY)
PART_FIELDS = {part: f"{part.name.lower()}_ns" for part in DevicePart}
"""Their names in a table; rows have those up to SYNC, the others belong to no row."""
_OF_STATE = {CODE: DevicePart.DISPATCH, CALL: DevicePart.CALL, WAIT: DevicePart.SYNC}
Piece = tuple[int, int, int, int, int]  # start, end, part, activity, range


@dataclass(frozen=True)
class Lanes:
    """Segments as columns; those of one lane follow each other from the trace's first to its last moment."""

    start_ns: Column
    end_ns: Column
    part: Column
    activity: Column  # of busy segments: the row that owns it; of QUEUE: the one that is awaited
    range: Column  # where it was launched, or where the host is; NONE: in none
    lane: Column  # the GPU; in a trace without GPU work: the thread
    wall_ns: int  # of all lanes together
    lanes: int
    is_of_devices: bool

    @property
    def duration_ns(self) -> Column:
        durations: Column = self.end_ns - self.start_ns
        return durations


def lanes_of(capture: Capture, hosts: Hosts) -> Lanes:
    """The wall clock of every GPU that did something; without any, the time of every thread with ranges."""
    activities = capture.activities
    pieces: list[Piece] = []
    counts, wall_ns = [], 0
    devices = np.unique(activities.device).tolist()
    parts = activity_parts(capture)
    ranks = _ranks(capture, parts)
    for device in devices:
        before = len(pieces)
        pieces += _device_pieces(capture, hosts, np.flatnonzero(activities.device == device), parts, ranks)
        counts.append(len(pieces) - before)
        wall_ns += capture.end_ns - capture.start_ns
    spans = [] if devices else hosts.spans()
    for thread, start_ns, end_ns in spans:
        before = len(pieces)
        pieces += _host_pieces(hosts, thread, start_ns, end_ns)
        counts.append(len(pieces) - before)
        wall_ns += end_ns - start_ns
    start, end, part, activity, place = np.array(pieces, np.int64).reshape(len(pieces), 5).T
    names = devices or [thread for thread, _, _ in spans]
    lane = np.repeat(np.array(names, np.int64), counts)
    return Lanes(start, end, part, activity, place, lane, wall_ns, len(names), bool(devices))


def activity_parts(capture: Capture) -> Column:
    """KERNEL, AUXILIARY or COPY for every activity; by the kernel's name."""
    is_auxiliary = _answers_by_name(capture, lambda kernel: kernel.is_auxiliary)
    is_kernel = capture.activities.kind == ActivityKind.KERNEL
    return np.where(is_kernel, np.where(is_auxiliary, DevicePart.AUXILIARY, DevicePart.KERNEL), DevicePart.COPY)


def _ranks(capture: Capture, parts: Column) -> Column:
    """The lowest rank owns an overlap. Collectives spin while they wait for others, so kernels that compute have
    a lower rank; collectives own only the communication that is not hidden."""
    is_communication = _answers_by_name(capture, lambda kernel: kernel.family == "communication")
    return np.where(is_communication & (parts == DevicePart.KERNEL), 2 * DevicePart.AUXILIARY + 1, 2 * parts)


def _answers_by_name(capture: Capture, question: Callable[[KernelName], bool]) -> Column:
    return mapped(capture.activities.name, lambda name: question(parse_kernel(capture.text(name)))).astype(bool)


def _device_pieces(capture: Capture, hosts: Hosts, rows: Column, parts: Column, ranks: Column) -> Iterator[Piece]:
    """Of several activities at once that of the lowest rank owns the time, and the first to start before later ones."""
    activities = capture.activities
    ranges, kinds = activities.range.tolist(), parts.tolist()
    starts, ends = activities.start_ns[rows].tolist(), activities.end_ns[rows].tolist()
    orders, numbers = ranks[rows].tolist(), rows.tolist()
    running: list[tuple[int, int, int]] = []  # rank, place among rows, end
    now, place, last = capture.start_ns, 0, NONE
    while True:
        while running and running[0][2] <= now:
            heappop(running)
        while place < len(starts) and starts[place] <= now:
            if ends[place] > now:
                heappush(running, (orders[place], place, ends[place]))
            last = numbers[place]
            place += 1
        if running:
            _, first, end = running[0]
            stop, owner = min(end, starts[place]) if place < len(starts) else end, numbers[first]
            yield now, stop, kinds[owner], owner, ranges[owner]
            now = stop
        elif place < len(starts):
            yield from _gap(capture, hosts, now, starts[place], numbers[place])
            now = starts[place]
        else:
            yield from _tail(capture, hosts, now, capture.end_ns, last)
            return


def _gap(capture: Capture, hosts: Hosts, start_ns: int, end_ns: int, following: int) -> Iterator[Piece]:
    """Idle time before an activity: until the launch returned the host was not ready, from then on the device."""
    call = int(capture.activities.call[following])
    if call == NONE:
        yield start_ns, end_ns, DevicePart.UNKNOWN, NONE, NONE
        return
    launched_ns = min(max(int(capture.calls.end_ns[call]), start_ns), end_ns)
    yield from _host_pieces(hosts, int(capture.calls.thread[call]), start_ns, launched_ns)
    if launched_ns < end_ns:
        yield launched_ns, end_ns, DevicePart.QUEUE, following, int(capture.activities.range[following])


def _tail(capture: Capture, hosts: Hosts, start_ns: int, end_ns: int, last: int) -> Iterator[Piece]:
    """Idle time after the last activity: by the state of the thread that launched it."""
    call = int(capture.activities.call[last]) if last != NONE else NONE
    if call != NONE:
        yield from _host_pieces(hosts, int(capture.calls.thread[call]), start_ns, end_ns)
    elif start_ns < end_ns:
        yield start_ns, end_ns, DevicePart.UNKNOWN, NONE, NONE


def _host_pieces(hosts: Hosts, thread: int, start_ns: int, end_ns: int) -> Iterator[Piece]:
    for begin, end, row, state in hosts.line(thread).pieces(start_ns, end_ns):
        yield begin, end, DevicePart.OUTSIDE if row == NONE else _OF_STATE[state], NONE, row
