"""How the prepared call of a worker is timed: on a CPU by the wall clock, on a device by events where that is possible.

Worker side; whatever needs the device is imported only for rows that run on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profkit.backends.adapter import DeviceCall, Prepared
from profkit.errors import UnavailableError
from profkit.measurement.device_clocks import ClockWatch, open_watch
from profkit.measurement.device_peaks import theoretical_peaks
from profkit.measurement.device_samples import take_samples
from profkit.measurement.device_timing import EventStopwatch, cuda_module, device_peak_bytes, open_stopwatch
from profkit.measurement.device_wall_clock import NO_STREAM, CacheFlush, WallStopwatch
from profkit.measurement.protocol import Message
from profkit.ops.spec import Spec


@dataclass
class CallClock:
    """What times one call on a device, and what can be known of that device."""

    stopwatch: EventStopwatch | WallStopwatch
    watch: ClockWatch
    call: DeviceCall | None = None
    retaken: int = 0

    @property
    def timing(self) -> str:
        """How the samples come about, for the row."""
        return self.stopwatch.timing

    def limits(self, spec: Spec) -> Message:
        """What planning must know: most calls per sample, and the device's theoretical peaks where they are known."""
        peaks = theoretical_peaks(self._device_facts(), spec.dtype_word)
        return {"most_calls": self.stopwatch.most_calls, "peaks": peaks}

    def sample(self, count: int, calls: int, warm_calls: int, is_cold: bool) -> Message:
        """Samples, with what was seen of the device since the call was prepared."""
        self.stopwatch.warm(warm_calls)
        taken = take_samples(count, lambda: self.stopwatch.once(calls, is_cold), self.watch.is_throttled)
        self.retaken += taken.retaken
        again = {"samples_taken_again": str(self.retaken)} if self.retaken else {}
        return {
            "samples_ns": taken.samples_ns,
            "throttled": taken.throttled,
            "timing": self.timing,
            "device": {**self.watch.facts(), **again},
            "remark": self.watch.remark(),
        }

    def peak_bytes(self) -> int:
        """Device memory of one call; UnavailableError where nobody can tell."""
        if self.call is None:
            raise UnavailableError("the framework does not tell")
        return device_peak_bytes(self.call)

    def _device_facts(self) -> Mapping[str, Any]:
        try:
            facts: Mapping[str, Any] = cuda_module().devices()[self.call.ordinal if self.call else 0]
        except UnavailableError:
            return {}
        return facts


def clock_of(prepared: Prepared, device: str) -> CallClock | None:
    """The best clock for a prepared call; None on a CPU, where the worker itself looks at the clock."""
    if device == "cpu":
        return None
    call, why = prepared.device, NO_STREAM
    ordinal = call.ordinal if call else 0
    watch = open_watch(ordinal)
    if call is not None:
        try:
            return CallClock(open_stopwatch(call), watch, call)
        except UnavailableError as error:
            why = str(error)
    return CallClock(WallStopwatch(prepared.call, why, CacheFlush(ordinal)), watch, call)
