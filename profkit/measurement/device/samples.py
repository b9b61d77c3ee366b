"""Samples on a device whose clocks are watched: those taken while it was throttled are taken again. Worker side.

A sample is tried again as often as `RETAKES` allows, and marked if that did not help.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

RETAKES = 2
"""Further tries per asked sample, spent where they are needed."""
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
