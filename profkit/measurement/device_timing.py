"""Samples of calls on a CUDA device, by events on the call's own stream. Worker side; needs profkit._cuda.

The host enqueues a group of calls behind a kernel that holds the stream up, with an event before and after them, and
then lets the device go: it never waits for the host, so that the time between the events is its own. Samples that were
taken while the device was throttled are taken again, as often as `RETAKES` allows, and marked if that did not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from profkit.backends.adapter import DeviceCall
from profkit.errors import UnavailableError
from profkit.measurement.device_clocks import ClockWatch, open_watch

MOST_CALLS = 50
"""Calls of one sample: a launch queue has some thousand places, a call may launch many kernels, and a host that finds
the queue full would wait for a device that waits for it."""
GIVE_UP_AFTER_S = 1.0
"""Longest hold: a call that waits for the device cannot go on before."""
RETAKES = 2
"""Further tries per asked sample, spent where they are needed."""
COOLING_S = 0.05
EVENTS = "CUDA events"
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
class Taken:
    """Samples with what is known of each."""

    samples_ns: list[float] = field(default_factory=list)
    throttled: list[bool] = field(default_factory=list)
    retaken: int = 0


def take_samples(
    count: int, once: Callable[[], float], is_throttled: Callable[[], bool], cool: Callable[[], None]
) -> Taken:
    """`count` samples; those taken while the device was throttled are taken again while tries are left."""
    taken = Taken()
    tries_left = RETAKES * count
    while len(taken.samples_ns) < count:
        sample = once()
        throttled = is_throttled()
        if throttled and tries_left:
            tries_left -= 1
            taken.retaken += 1
            cool()
            continue
        taken.samples_ns.append(sample)
        taken.throttled.append(throttled)
    return taken


@dataclass
class DeviceSampler:
    """Takes samples of one prepared call."""

    call: DeviceCall
    timer: Timer
    watch: ClockWatch
    l2_bytes: int
    holds: bool = True
    retaken: int = 0

    @property
    def timing(self) -> str:
        """How its samples come about, for the row."""
        return HELD if self.holds else WAITS

    def sample(self, count: int, calls: int, warm_calls: int, is_cold: bool) -> Taken:
        """Samples of `calls` calls each, in nanoseconds per call."""
        for _ in range(warm_calls):
            self.call.enqueue()
        taken = take_samples(
            count, lambda: self.once(calls, is_cold), self.watch.is_throttled, lambda: time.sleep(COOLING_S)
        )
        self.retaken += taken.retaken
        return taken

    def once(self, calls: int, is_cold: bool) -> float:
        """One sample; a hold that gave up spoils it, and ends holding for this call."""
        while True:
            if is_cold:
                # Twice: the cache keeps by recency and by hash, so that one pass of its own size may leave remains.
                self.timer.flush(2 * self.l2_bytes)
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

    def facts(self) -> dict[str, str]:
        """Clocks that were seen and samples that were taken again, for the row."""
        again = {"samples_taken_again": str(self.retaken)} if self.retaken else {}
        return {**self.watch.facts(), **again}


def open_sampler(call: DeviceCall) -> DeviceSampler:
    """A sampler on the call's own stream; UnavailableError with the reason where there is no timer."""
    cuda = cuda_module()
    cuda.use_device(call.ordinal)
    l2_bytes = int(cuda.devices()[call.ordinal]["l2_bytes"])
    return DeviceSampler(call, cuda.DeviceTimer(call.stream, GIVE_UP_AFTER_S), open_watch(call.ordinal), l2_bytes)


def cuda_module() -> Any:
    """profkit._cuda; UnavailableError where profkit was built without CUDA."""
    try:
        from profkit import _cuda
    except ImportError as error:
        raise UnavailableError(f"profkit was built without CUDA: {error}") from error
    return _cuda


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
