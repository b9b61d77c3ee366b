"""Samples of calls on a device by the wall clock, for frameworks that give no stream to put events on. Worker side.

Every call waits for the device, so that launching and waiting are in its time; rows say so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from profkit.errors import UnavailableError
from profkit.frameworks.device_arrays import cuda_module
from profkit.measurement.device.timing import FLUSHED, GIVE_UP_AFTER_S, UNKNOWN_CACHE_BYTES, Timer

WALL_CLOCK = "wall clock with waiting"
NO_STREAM = "the framework gives no stream to put events on"
DEFAULT_STREAM = 0


@dataclass
class CacheFlush:
    """Empties the device's cache between calls, on the default stream: the cache is the whole device's."""

    ordinal: int = 0
    trouble: str = ""
    """Why it could not."""
    _timer: Timer | None = None
    _bytes: int = 0

    def __call__(self) -> None:
        """Write more than the cache holds, and wait; what is in the way is kept in `trouble`."""
        if self.trouble:
            return
        try:
            cuda = cuda_module()
            if self._timer is None:
                cuda.use_device(self.ordinal)
                self._bytes = FLUSHED * int(cuda.devices()[self.ordinal]["l2_bytes"]) or UNKNOWN_CACHE_BYTES
                self._timer = cuda.DeviceTimer(DEFAULT_STREAM, GIVE_UP_AFTER_S)
            self._timer.flush(self._bytes)
            cuda.synchronize(DEFAULT_STREAM)
        except UnavailableError as error:
            self.trouble = f"the device's cache was not emptied: {error}"


@dataclass
class WallStopwatch:
    """Times one prepared call that ends when the device has finished."""

    call: Callable[[], Any]
    why: str = NO_STREAM
    flush: CacheFlush = field(default_factory=CacheFlush)
    most_calls: int | None = None

    @property
    def timing(self) -> str:
        """How its samples come about, for the row."""
        return "; ".join(text for text in (f"{WALL_CLOCK}: {self.why}", self.flush.trouble) if text)

    def warm(self, calls: int) -> None:
        """Untimed calls."""
        for _ in range(calls):
            self.call()

    def once(self, calls: int, is_cold: bool) -> float:
        """Nanoseconds per call."""
        if is_cold:
            self.flush()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            self.call()
        return (time.perf_counter_ns() - begin) / calls
