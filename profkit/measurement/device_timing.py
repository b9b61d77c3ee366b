"""Samples of calls on a CUDA device, by events on the call's own stream. Worker side; needs profkit._cuda.

The host enqueues a group of calls behind a kernel that holds the stream up, with an event before and after them, and
then lets the device go: it never waits for the host, so that the time between the events is its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from profkit.backends.adapter import DeviceCall
from profkit.backends.device_arrays import cuda_module

MOST_CALLS = 50
"""Calls of one sample: a launch queue has some thousand places, a call may launch many kernels, and a host that finds
the queue full would wait for a device that waits for it."""
GIVE_UP_AFTER_S = 1.0
"""Longest hold: a call that waits for the device cannot go on before."""
FLUSHED = 2
"""How many times the cache's size is written: it keeps by recency and by hash, so that one pass may leave remains."""
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
        """Nanoseconds between the events, and whether the hold gave up because somebody waited for the device."""

    def flush(self, bytes: int) -> None:
        """Write so many bytes on the stream."""


@dataclass
class EventStopwatch:
    """Times one prepared call by the device's own clock."""

    call: DeviceCall
    timer: Timer
    l2_bytes: int
    holds: bool = True
    most_calls: int | None = MOST_CALLS

    @property
    def timing(self) -> str:
        """How its samples come about, for the row."""
        return HELD if self.holds else WAITS

    def warm(self, calls: int) -> None:
        """Untimed calls."""
        for _ in range(calls):
            self.call.enqueue()

    def once(self, calls: int, is_cold: bool) -> float:
        """Nanoseconds per call; a hold that gave up spoils the sample, and ends holding for this call."""
        while True:
            if is_cold:
                self.timer.flush(FLUSHED * self.l2_bytes)
            elapsed_ns, gave_up = self._measured(calls)
            if not gave_up:
                return elapsed_ns / calls
            self.holds = False

    def _measured(self, calls: int) -> tuple[float, bool]:
        timer, enqueue = self.timer, self.call.enqueue
        if self.holds:
            timer.hold()
        try:
            timer.begin()
            for _ in range(calls):
                enqueue()
            timer.end()
        finally:
            # Whatever happened: a device that is held would hold the next call up as well.
            timer.release()
        return timer.finish()


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
