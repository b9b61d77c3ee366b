"""XPlane files of TensorFlow's and JAX's profilers: serialized XSpace in, plain events on our clock out.

The wire format is read here, with the standard library only: JAX brings no protobuf classes, TensorFlow's move between
releases. Text that is not UTF-8 is replaced letter by letter, so that one such name costs no other event.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from profkit.errors import CaptureError

Stats = dict[str, Any]
ENVIRONMENT_PLANE = "Task Environment"
START_STAT, OPTIONS_STAT = "profile_start_time", "profile_options"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


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
        """The mean of both readings."""
        return (self.before.ahead_ns + self.after.ahead_ns) // 2

    @property
    def error_ns(self) -> int:
        """Half of the difference between the readings, and what each is uncertain by."""
        difference = abs(self.after.ahead_ns - self.before.ahead_ns)
        return max(self.before.error_ns, self.after.error_ns) + (difference + 1) // 2


def read_clocks(tries: int = 15) -> ClockReading:
    """The tightest of several readings of the wall clock between two of the monotonic one."""
    readings = []
    for _ in range(tries):
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


@dataclass
class Space:
    """What a file holds. Planes are the host's threads, devices, and facts about the profile."""

    events: list[XplaneEvent] = field(default_factory=list)
    """Line by line, as in the file: not sorted by time."""
    plane_stats: dict[str, Stats] = field(default_factory=dict)
    metadata: dict[str, dict[str, Stats]] = field(default_factory=dict)
    """By plane, then by event name: stats that belong to the name. `/host:metadata` has HLO modules here."""
    warnings: list[str] = field(default_factory=list)
    """Errors and warnings that the profiler wrote into the file, such as dropped events."""


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
            space.metadata[plane.name] = {name: stats for name, stats in plane.events.values() if stats}
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
    """The tracer levels that the profile was really made with: what was asked for may have been ignored."""
    options = space.plane_stats.get(ENVIRONMENT_PLANE, {}).get(OPTIONS_STAT, b"")
    values = dict(_fields(options))
    return {name: int(values.get(number, 0)) for number, name in ((2, "host"), (3, "device"), (4, "python"))}


class _Plane:
    """A plane with its tables of names; lines stay undecoded until the profile's start is known."""

    def __init__(self, data: bytes) -> None:
        self.name = ""
        self.lines: list[bytes] = []
        self.stats: list[bytes] = []
        self._stat_names: dict[int, str] = {}
        events: list[bytes] = []
        for number, value in _fields(data):
            if number == 2:
                self.name = _text(value)
            elif number == 3:
                self.lines.append(value)
            elif number == 4:
                events.append(_map_value(value))
            elif number == 5:
                self._add_stat_name(_map_value(value))
            elif number == 6:
                self.stats.append(value)
        # After the loop: stats of names refer to the table of stat names.
        self.events = dict(self._event_name(each) for each in events)

    def _add_stat_name(self, data: bytes) -> None:
        values = dict(_fields(data))
        self._stat_names[values.get(1, 0)] = _text(values.get(2, b""))

    def _event_name(self, data: bytes) -> tuple[int, tuple[str, Stats]]:
        key, name = 0, ""
        stats: list[bytes] = []
        for number, value in _fields(data):
            if number == 1:
                key = value
            elif number == 2:
                name = _text(value)
            elif number == 5:
                stats.append(value)
        return key, (name, self.stats_of(stats))

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
        """The events of a line."""
        events: list[bytes] = []
        values: dict[int, Any] = {}
        for number, value in _fields(data):
            if number == 4:
                events.append(value)
            else:
                values[number] = value
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
