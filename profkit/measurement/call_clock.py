"""How the prepared call of a worker is timed: on a CPU by the wall clock, on a device by events where that is possible.

Worker side; whatever needs the device is imported only for rows that run on one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profkit.backends.adapter import DeviceCall
from profkit.errors import UnavailableError
from profkit.measurement.device_peaks import theoretical_peaks
from profkit.measurement.device_timing import (
    MOST_CALLS,
    DeviceSampler,
    cuda_module,
    device_peak_bytes,
    open_sampler,
)
from profkit.measurement.protocol import Message
from profkit.ops.spec import Spec

WALL_CLOCK = "wall clock with waiting"
GIVE_UP_AFTER_S = 1.0


@dataclass
class CallClock:
    """What times one call, and what can be known of its device."""

    device: str = "cpu"
    call: DeviceCall | None = None
    sampler: DeviceSampler | None = None
    why_not: str = ""
    """Why there is no sampler although the call could be enqueued."""

    @property
    def timing(self) -> str:
        """For the row; empty on a CPU, where all rows are timed alike."""
        if self.device == "cpu":
            return ""
        if self.sampler is not None:
            return self.sampler.timing
        return f"{WALL_CLOCK}: {self.why_not}" if self.why_not else WALL_CLOCK

    def limits(self, spec: Spec | None) -> Message:
        """What planning must know: most calls per sample, and the device's theoretical peaks where they are known."""
        if self.device == "cpu" or spec is None:
            return {}
        peaks = theoretical_peaks(self._device_facts(), spec.dtype_word)
        return {"most_calls": MOST_CALLS if self.sampler is not None else None, "peaks": peaks}

    def sample(self, count: int, calls: int, warm_calls: int, is_cold: bool) -> Message:
        """Samples by the device's clock."""
        assert self.sampler is not None
        taken = self.sampler.sample(count, calls, warm_calls, is_cold)
        return {
            "samples_ns": taken.samples_ns,
            "throttled": taken.throttled,
            "timing": self.timing,
            "device": self.sampler.facts(),
        }

    def device_bytes(self) -> int:
        """Device memory of one call; UnavailableError where nobody can tell."""
        if self.call is None:
            raise UnavailableError("the framework does not tell")
        return device_peak_bytes(self.call)

    def flush_device(self) -> None:
        """Push the device's cache out, on a stream of our own: the cache is the whole device's."""
        try:
            cuda = cuda_module()
            timer = cuda.DeviceTimer(0, GIVE_UP_AFTER_S)
            timer.flush(2 * int(self._device_facts()["l2_bytes"]))
            cuda.synchronize(0)
        except UnavailableError as error:
            self.why_not = f"the device's cache could not be emptied: {error}"

    def _device_facts(self) -> Mapping[str, Any]:
        try:
            facts: Mapping[str, Any] = cuda_module().devices()[self.call.ordinal if self.call else 0]
        except UnavailableError:
            return {}
        return facts


def clock_of(call: DeviceCall | None, device: str) -> CallClock:
    """The best clock for a prepared call."""
    if device == "cpu" or call is None:
        return CallClock(device)
    try:
        return CallClock(device, call, open_sampler(call))
    except UnavailableError as error:
        return CallClock(device, call, why_not=str(error))
