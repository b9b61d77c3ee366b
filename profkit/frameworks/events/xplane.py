"""XPlane files of TensorFlow's and JAX's profilers: serialized XSpace in, plain events on our clock out.

The wire format is read here, with the standard library only: JAX brings no protobuf classes, TensorFlow's move between
releases. Text that is not UTF-8 is replaced letter by letter, so that one such name costs no other event.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from profkit.errors import CaptureError
from profkit.frameworks.scratch import temporary_folder

Stats = dict[str, Any]
ENVIRONMENT_PLANE = "Task Environment"
START_STAT, OPTIONS_STAT = "profile_start_time", "profile_options"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SETTLE_S = 0.02
"""The executor closes its last events after it has given the result; a profile that ends at once loses them."""
TimeInterval = tuple[int, int]
ThreadLine = tuple[str, int]
"""A thread of a profile: its name, and the number that distinguishes threads with the same name."""


class ClockReading(NamedTuple):
    """How far the wall clock is ahead of the monotonic one, and how well that is known."""

    ahead_ns: int
    error_ns: int


@dataclass(frozen=True)
class RealtimeClock:
    """Turns CLOCK_REALTIME, which these profilers read, into time.perf_counter_ns; read before and after a recording.

    Someone who sets the wall clock in between makes the two readings differ, and the error as large as that.
    """

    before: ClockReading
    after: ClockReading

    @property
    def ahead_ns(self) -> int:
        return (self.before.ahead_ns + self.after.ahead_ns) // 2

    @property
    def error_ns(self) -> int:
        """Half of the difference between the readings, and what each is uncertain by."""
        difference = abs(self.after.ahead_ns - self.before.ahead_ns)
        return max(self.before.error_ns, self.after.error_ns) + (difference + 1) // 2


def read_clocks() -> ClockReading:
    """The tightest of several readings of the wall clock between two of the monotonic one."""
    readings = []
    for _ in range(15):
        before = time.perf_counter_ns()
        wall = time.time_ns()
        after = time.perf_counter_ns()
        readings.append((after - before, wall - (before + after) // 2))
    width, ahead = min(readings)
    return ClockReading(ahead, (width + 1) // 2)


class XplaneEvent(NamedTuple):
    """One event of one line; an instant has equal times."""

    plane: str
    line: str
    """The thread's or the stream's name."""
    line_id: int
    """Tells lines of one name apart; a number of the profiler's own, not the system's thread id."""
    name: str
    start_ns: int
    """On the clock of time.perf_counter_ns."""
    end_ns: int
    stats: Stats
    """The event's own stats over those that all events of its name share."""

    @property
    def thread(self) -> ThreadLine:
        return self.line, self.line_id


@dataclass
class Space:
    """What a file holds. Planes are the host's threads, devices, and facts about the profile."""

    events: list[XplaneEvent] = field(default_factory=list)
    """Line by line, as in the file: not sorted by time."""
    plane_stats: dict[str, Stats] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    """Errors and warnings that the profiler wrote into the file, such as dropped events."""


class Profiled(NamedTuple):
    """Steps that ran under a profiler."""

    steps: list[TimeInterval]
    space: Space
    clock: RealtimeClock


def profiled_steps(
    framework: str,
    start: Callable[[str], Any],
    stop: Callable[[], Any],
    step: Callable[[], Any],
    steps: int,
    kept_step: Callable[[], Any] | None = None,
) -> Profiled:
    """Run the steps, after one that is not kept: the first fills the profiler's own buffers. `start` takes a folder."""
    brackets: list[TimeInterval] = []
    run = kept_step or step
    with temporary_folder(framework.lower()) as folder:
        before = read_clocks()
        start(folder)
        try:
            step()
            for _ in range(steps):
                begin = time.perf_counter_ns()
                run()
                brackets.append((begin, time.perf_counter_ns()))
            time.sleep(_SETTLE_S)
        finally:
            stop()
        clock = RealtimeClock(before, read_clocks())
        files = sorted(Path(folder).rglob("*.xplane.pb"))
        if not files:
            raise CaptureError(f"{framework}'s profiler wrote no .xplane.pb file")
        return Profiled(brackets, read_xspace(files[-1].read_bytes(), clock), clock)


def read_xspace(data: bytes, clock: RealtimeClock) -> Space:
    """All events of a serialized XSpace (what a `.xplane.pb` file holds)."""
    space = Space()
    planes: list[_Plane] = []
    try:
        for number, value in _fields(data):
            if number == 1:
                planes.append(_Plane(value))
            elif number in {2, 3}:
                space.warnings.append(_text(value))
        for plane in planes:
            space.plane_stats[plane.name] = plane.stats_of(plane.stats)
        begin_ns = _profile_start(space) - clock.ahead_ns
        for plane in planes:
            for line in plane.lines:
                space.events.extend(plane.events_of(line, begin_ns))
    except (IndexError, struct.error, TypeError) as error:
        raise CaptureError(f"the profile ({len(data)} bytes) is damaged or not an XSpace: {error}") from error
    return space


def _profile_start(space: Space) -> int:
    """Lines begin relative to this; without it their times mean nothing."""
    start = space.plane_stats.get(ENVIRONMENT_PLANE, {}).get(START_STAT)
    if start is None:
        planes = ", ".join(space.plane_stats) or "no planes"
        raise CaptureError(f"the profile does not say when it began: no {START_STAT} in {planes}")
    return int(start)


def recorded_levels(space: Space) -> dict[str, int]:
    """The tracer levels that were in effect: the requested ones may have been ignored."""
    options = space.plane_stats.get(ENVIRONMENT_PLANE, {}).get(OPTIONS_STAT, b"")
    values = dict(_fields(options))
    return {name: int(values.get(number, 0)) for number, name in ((2, "host"), (3, "device"), (4, "python"))}


class _Plane:
    """A plane with its tables of names; lines stay undecoded until the profile's start is known."""

    def __init__(self, data: bytes) -> None:
        found = _message(data)
        self.name = _text(found.get(2, [b""])[-1])
        self.lines, self.stats = found.get(3, []), found.get(6, [])
        names = (dict(_fields(_map_value(each))) for each in found.get(5, []))
        self._stat_names = {each.get(1, 0): _text(each.get(2, b"")) for each in names}
        # After the names of stats, to which stats refer.
        self.events = dict(self._event_name(_map_value(each)) for each in found.get(4, []))

    def _event_name(self, data: bytes) -> tuple[int, tuple[str, Stats]]:
        found = _message(data)
        return found.get(1, [0])[-1], (_text(found.get(2, [b""])[-1]), self.stats_of(found.get(5, [])))

    def stats_of(self, stats: list[bytes]) -> Stats:
        """Stats by their names; references are replaced by the text they refer to."""
        result: Stats = {}
        for data in stats:
            key: int = 0
            content: Any = None
            for number, value in _fields(data):
                if number == 1:
                    key = value
                elif number == 2:
                    content = struct.unpack("<d", value)[0]
                elif number == 4:
                    content = _signed(value)
                elif number == 5:
                    content = _text(value)
                elif number == 7:
                    content = self._stat_names.get(value, "")
                else:
                    content = value
            result[self._stat_names.get(key, str(key))] = content
        return result

    def events_of(self, data: bytes, begin_ns: int) -> Iterator[XplaneEvent]:
        events = _message(data).get(4, [])
        values = dict(_fields(data))
        line = _text(values.get(11, b"") or values.get(2, b""))
        line_id = _signed(values.get(1, 0))
        begin_ns += _signed(values.get(3, 0))
        for event in events:
            values, own = {}, []
            for number, value in _fields(event):
                if number == 4:
                    own.append(value)
                else:
                    values[number] = value
            if 5 in values:
                continue  # a count of occurrences has no place in time
            key, offset_ps = values.get(1, 0), _signed(values.get(2, 0))
            name, shared = self.events.get(key, (str(key), {}))
            stats = self.stats_of(own) if own else {}
            start_ns = begin_ns + offset_ps // 1000
            end_ns = begin_ns + (offset_ps + values.get(3, 0)) // 1000
            yield XplaneEvent(
                self.name, line, line_id, name, start_ns, end_ns, {**shared, **stats} if shared else stats
            )


def _message(data: bytes) -> dict[int, list[Any]]:
    """The values of every field."""
    found: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _map_value(data: bytes) -> bytes:
    """The value of a map's entry; its key is repeated inside."""
    return next((value for number, value in _fields(data) if number == 2), b"")


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and raw values of a message: integers, or bytes (of 8 or 4 for fixed numbers)."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _long_varint(data, at, tag)
        kind = tag & 7
        if kind == _VARINT:
            value = data[at]
            at += 1
            if value > 127:
                value, at = _long_varint(data, at, value)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size = data[at]
            at += 1
            if size > 127:
                size, at = _long_varint(data, at, size)
        elif kind == _FIXED64:
            size = 8
        elif kind == _FIXED32:
            size = 4
        else:
            raise IndexError(f"wire type {kind} at byte {at}")
        if at + size > end:
            raise IndexError(f"a field of {size} bytes at byte {at} of {end}")
        yield tag >> 3, data[at : at + size]
        at += size


def _long_varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """A number of several bytes whose first was read; with the place behind it."""
    value, shift = first & 127, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
