"""How the prepared call of a worker is timed: on a CPU by the wall clock, on a device by events where that is possible.

Samples taken while a device was throttled are taken again. Worker side; whatever needs the device is imported only for
rows that run on one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import DeviceCall, Prepared
from profkit.frameworks.device_arrays import cuda_module
from profkit.measurement.device.clocks import ClockWatch, open_watch
from profkit.measurement.device.peaks import theoretical_peaks
from profkit.measurement.device.timing import EventStopwatch, device_peak_bytes, open_stopwatch
from profkit.measurement.device.wall_clock import NO_STREAM, CacheFlush, WallStopwatch
from profkit.measurement.workers.protocol import Message
from profkit.ops.spec import Spec

WARM_NS = 10_000_000
SHORT_NS = 2_000_000
"""Of a longer call launching and waiting, some ten microseconds, are less than the margin."""
WAITED_CALLS = 5
RETAKES = 2
"""Further attempts per requested sample, spent where they are needed."""
COOLING_S = 0.05


@dataclass
class DeviceSamples:
    """Samples with what is known of each."""

    samples_ns: list[float] = field(default_factory=list)
    throttled: list[bool] = field(default_factory=list)
    retaken: int = 0


def wait_to_cool() -> None:
    """Give the device time to get cooler."""
    time.sleep(COOLING_S)


def take_samples(
    count: int,
    once: Callable[[], float],
    is_throttled: Callable[[], bool],
    rest: Callable[[], None] = wait_to_cool,
    retakes: int = RETAKES,
) -> DeviceSamples:
    """`count` samples; those taken while the device was throttled are taken again while tries are left."""
    taken = DeviceSamples()
    tries_left = retakes * count
    while len(taken.samples_ns) < count:
        sample = once()
        throttled = is_throttled()
        if throttled and tries_left:
            tries_left -= 1
            taken.retaken += 1
            rest()
            continue
        taken.samples_ns.append(sample)
        taken.throttled.append(throttled)
    return taken


@dataclass
class CallClock:
    """The timer of one call on a device, and facts about that device."""

    stopwatch: EventStopwatch | WallStopwatch
    watch: ClockWatch
    call: DeviceCall | None = None
    waited_call: Callable[[], Any] | None = None
    """The same call with waiting, where events time it without."""
    retaken: int = 0
    rest_helps: bool = True
    """Whether waiting for cooler clocks makes sense: a power cap may be permanent."""

    @property
    def timing(self) -> str:
        """How the samples come about, for the row."""
        return self.stopwatch.timing

    def limits(self, spec: Spec) -> Message:
        """Limits for planning: most calls per sample, and the device's theoretical peaks if known."""
        peaks = theoretical_peaks(self._device_facts(), spec.dtype_word)
        return {"most_calls": self.stopwatch.most_calls, "peaks": peaks}

    def sample(self, count: int, calls: int, warm_calls: int, is_cold: bool) -> Message:
        """Samples, with what was seen of the device since the call was prepared."""
        # Cold refers to the caches, which are flushed before each sample; the clocks must be up in any case.
        self.warm(warm_calls or int(is_cold))
        retakes = RETAKES if self.rest_helps else 0
        taken = take_samples(
            count, lambda: self.stopwatch.once(calls, is_cold), self.watch.is_throttled, retakes=retakes
        )
        self.rest_helps = self.rest_helps and not any(taken.throttled)
        self.retaken += taken.retaken
        again = {"samples_taken_again": str(self.retaken)} if self.retaken else {}
        return {
            "samples_ns": taken.samples_ns,
            "throttled": taken.throttled,
            "timing": self.timing,
            "device": {**self.watch.facts(), **again},
            "remark": self.watch.remark(),
            **self._host_times(float(np.median(taken.samples_ns)), is_cold),
        }

    def warm(self, calls: int) -> None:
        """Untimed calls for a while: a GPU that was idle while others had their turns has lowered its clocks."""
        end_ns = time.perf_counter_ns() + WARM_NS
        while calls:
            self.stopwatch.warm(calls)
            if time.perf_counter_ns() >= end_ns:
                return

    def _host_times(self, call_ns: float, is_cold: bool) -> Message:
        """dispatch_ns and wall_ns of a call that events time, None where they do not apply."""
        if not isinstance(self.stopwatch, EventStopwatch):
            return {"dispatch_ns": None, "wall_ns": None}
        dispatch_ns, self.stopwatch.dispatch_ns = self.stopwatch.dispatch_ns, []
        wall_ns = None
        if self.waited_call is not None and call_ns < SHORT_NS:
            wall_ns = float(np.median([self.stopwatch.waited(self.waited_call, is_cold) for _ in range(WAITED_CALLS)]))
        return {"dispatch_ns": float(np.median(dispatch_ns)) if dispatch_ns else None, "wall_ns": wall_ns}

    def peak_bytes(self) -> int:
        """Device memory of one call; UnavailableError where it cannot be determined."""
        if self.call is None:
            raise UnavailableError("the framework does not report it")
        return device_peak_bytes(self.call)

    def _device_facts(self) -> Mapping[str, Any]:
        try:
            facts: Mapping[str, Any] = cuda_module().devices()[self.call.ordinal if self.call else 0]
        except UnavailableError:
            return {}
        return facts


def pci_bus_id(ordinal: int) -> str:
    """The device's place, by which NVML finds it; nothing where profkit was built without CUDA."""
    try:
        return str(cuda_module().devices()[ordinal].get("pci_bus_id", ""))
    except UnavailableError:
        return ""


def call_clock_of(prepared: Prepared, device: str) -> CallClock | None:
    """The best clock for a prepared call; None on a CPU, where the worker itself looks at the clock."""
    if device == "cpu":
        return None
    call, why = prepared.device, NO_STREAM
    ordinal = call.ordinal if call else 0
    watch = open_watch(ordinal, pci_bus_id(ordinal))
    if call is not None:
        try:
            return CallClock(open_stopwatch(call), watch, call, prepared.call)
        except UnavailableError as error:
            why = str(error)
    return CallClock(WallStopwatch(prepared.call, why, CacheFlush(ordinal)), watch, call)
