"""Whether a machine was too busy during a measurement, and the message about it: shares of its processors in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

BUSY_SHARE, STOLEN_SHARE = 0.05, 0.02
"""Shares of these processors' time above which other programs, and other guests of the host, are reported."""
CLOCK_DRIFT = 0.05
ROUND_TRIP_CHANGE = 2.0
"""Between the first and the last tenth of the round trips between two processors: they were moved apart."""
BUSY_LOAD = 0.75
"""If the shares are unknown: a load average above this share of the processors."""
CLOCK = "the clock moved"
OTHERS, STOLEN, LOAD, DISTURBED = "others_share", "stolen_share", "load", "disturbed_share"


def busy_words(machine: Mapping[str, float]) -> list[str]:
    """What disturbed the machine during a measurement; empty for a quiet one."""
    seen = []
    if machine.get(OTHERS, 0.0) > BUSY_SHARE:
        load = f" (load {machine[LOAD]:.1f})" if LOAD in machine else ""
        seen.append(f"other programs took {_percent(machine[OTHERS])} of these processors{load}")
    if machine.get(STOLEN, 0.0) > STOLEN_SHARE:
        seen.append(f"other guests took {_percent(machine[STOLEN])} of them")
    if machine.get("most_mhz", 0.0) > (1.0 + CLOCK_DRIFT) * machine.get("least_mhz", math.inf):
        seen.append(f"{CLOCK} between {machine['least_mhz']:.0f} and {machine['most_mhz']:.0f} MHz")
    low_ns, high_ns = (machine.get(f"{end}_round_trip_ns", math.nan) for end in ("low", "high"))
    if high_ns > ROUND_TRIP_CHANGE * low_ns:
        seen.append(f"the core-to-core round trip changed between {low_ns:.0f} and {high_ns:.0f} ns")
    return seen


def is_busy(machine: Mapping[str, float], cpus: Sequence[int] = ()) -> bool:
    """Whether others took so much that times cannot be judged; a changed clock frequency is only reported."""
    if machine.get(STOLEN, 0.0) > STOLEN_SHARE or machine.get(DISTURBED, 0.0) > 0.5:
        return True
    if OTHERS in machine:
        return machine[OTHERS] > BUSY_SHARE
    return bool(cpus) and machine.get(LOAD, 0.0) > BUSY_LOAD * len(cpus)


def why_busy(machine: Mapping[str, float], cpus: Sequence[int] = ()) -> str:
    """Why a machine was busy, in one line; empty if it was not."""
    if not is_busy(machine, cpus):
        return ""
    words = busy_words({name: machine[name] for name in machine if name in (OTHERS, STOLEN, LOAD)})
    if not words and machine.get(DISTURBED, 0.0) > 0.5:
        words = [f"{_percent(machine[DISTURBED])} of its blocks of steps were disturbed"]
    return "; ".join(words) or f"load {machine.get(LOAD, 0.0):.1f} on {len(cpus)} processors"


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f}%" if share >= 0.0995 else f"{100.0 * share:.1f}%"
