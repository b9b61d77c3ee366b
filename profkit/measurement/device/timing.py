"""Samples of calls on a CUDA device, by events on the call's own stream. Worker side; needs profkit._cuda.

The host enqueues a group of calls behind a kernel that holds the stream up, with an event before and after them, and
then lets the device go: it never waits for the host, so that the time between the events is its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from profkit.frameworks.adapter import DeviceCall
from profkit.frameworks.device_arrays import cuda_module

MOST_CALLS = 50
"""Calls of one sample: a launch queue has some thousand places, a call may launch many kernels, and a host that finds
the queue full would wait for a device that waits for it."""
FEWER = 8
"""How many times fewer calls go behind one hold after a hold that gave up; where none is left nothing is held."""
GIVE_UP_AFTER_S = 1.0
"""Longest hold: a call that waits for the device cannot go on before."""
FLUSHED = 2
"""How many times the cache's size is written: it keeps by recency and by hash, so that one pass may leave remains."""
UNKNOWN_CACHE_BYTES = 256 << 20
"""The size of the flush where the driver does not report the size of the cache."""
HELD = "CUDA events behind a holding kernel"
WAITS = "CUDA events; the call waits for the device, so that the host's pauses are in its time"


class Timer(Protocol):
    """profkit._cuda.DeviceTimer."""

    def hold(self) -> None:
        """Nothing that is enqueued from now on starts before `release`."""

    def begin(self) -> None:
        """First event."""

    def end(self) -> None:
        """Second event."""

    def release(self) -> None:
        """Let the device go."""

    def finish(self) -> tuple[float, bool]:
        """Nanoseconds between the events, and whether the hold gave up because something waited for the device."""

    def flush(self, bytes: int) -> None:
        """Write this number of bytes on the stream."""


@dataclass
class EventStopwatch:
    """Times one prepared call by the device's own clock."""

    call: DeviceCall
    timer: Timer
    l2_bytes: int
    holds: bool = True
    most_calls: int | None = MOST_CALLS
    group: int = MOST_CALLS
    """Calls behind one hold."""
    dispatch_ns: list[float] = field(default_factory=list)
    """The host's own time per call, of every group that was enqueued while the device was held."""

    @property
    def timing(self) -> str:
        """How its samples come about, for the row."""
        if not self.holds:
            return WAITS
        return HELD if self.group == MOST_CALLS else f"{HELD}, {self.group} calls at a time: more had to wait"

    def warm(self, calls: int) -> None:
        """Untimed calls, waited for."""
        self._measured(calls, is_held=False)

    def once(self, calls: int, is_cold: bool) -> float:
        """Nanoseconds per call; a hold that gave up spoils the sample, which is taken again with fewer calls behind it.

        If the few have to wait as well, it is the call itself that waits, and nothing is held any more.
        """
        while True:
            if is_cold:
                self.empty_cache()
            elapsed_ns = self._in_groups(calls)
            if elapsed_ns is not None:
                return elapsed_ns / calls
            self.group = min(calls, self.group) // FEWER
            self.holds = self.group > 0

    def empty_cache(self) -> None:
        """Write more than the second-level cache holds, on the stream; is not waited for."""
        self.timer.flush(FLUSHED * self.l2_bytes or UNKNOWN_CACHE_BYTES)

    def waited(self, call: Callable[[], Any], is_cold: bool) -> float:
        """Nanoseconds of one call that waits for the device, by the wall clock: what rows without a stream have."""
        if is_cold:
            self.empty_cache()
            self.warm(0)
        begin = time.perf_counter_ns()
        call()
        return float(time.perf_counter_ns() - begin)

    def _in_groups(self, calls: int) -> float | None:
        """Nanoseconds of all calls; None when a hold gave up."""
        elapsed_ns, left = 0.0, calls
        while left:
            count = min(left, self.group) if self.holds else left
            part_ns, gave_up = self._measured(count, self.holds)
            if gave_up and self.holds:
                return None
            elapsed_ns += part_ns
            left -= count
        return elapsed_ns

    def _measured(self, calls: int, is_held: bool) -> tuple[float, bool]:
        timer, enqueue = self.timer, self.call.enqueue
        if is_held:
            timer.hold()
        try:
            timer.begin()
            begin = time.perf_counter_ns()
            for _ in range(calls):
                enqueue()
            host_ns = time.perf_counter_ns() - begin
            timer.end()
        finally:
            # Whatever happened: a device that is held would hold the next call up as well.
            timer.release()
        elapsed_ns, gave_up = timer.finish()
        if is_held and not gave_up:
            self.dispatch_ns.append(host_ns / calls)
        return elapsed_ns, gave_up


def open_stopwatch(call: DeviceCall) -> EventStopwatch:
    """A stopwatch on the call's own stream; UnavailableError with the reason where there is no timer."""
    cuda = cuda_module()
    cuda.use_device(call.ordinal)
    l2_bytes = int(cuda.devices()[call.ordinal]["l2_bytes"])
    return EventStopwatch(call, cuda.DeviceTimer(call.stream, GIVE_UP_AFTER_S), l2_bytes)


def device_peak_bytes(call: DeviceCall) -> int:
    """Device memory that one call takes at most, its output included, as far as can be seen."""
    if call.peak_bytes is not None:
        return call.peak_bytes(call.enqueue)
    cuda = cuda_module()
    cuda.synchronize(call.stream)
    before, _ = cuda.memory_info()
    result = call.enqueue()
    cuda.synchronize(call.stream)
    after, _ = cuda.memory_info()
    del result
    return max(0, int(before) - int(after))
