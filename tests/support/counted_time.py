"""Races whose number of rounds does not depend on how busy the machine is: their clock goes on by being read."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

from profkit.measurement import sampling

TICK_S = 0.005
"""Four or five of them pass in a turn, so it takes as long as on a quiet machine."""


def race(*arguments: Any) -> int:
    """In the place of `profkit.measurement.cell.race`."""
    return partial(sampling.race, clock=itertools.count(0.0, TICK_S).__next__)(*arguments)
