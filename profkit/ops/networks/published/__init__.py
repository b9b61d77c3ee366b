"""The networks of the studies and of the papers that they cite, a module each; the registry takes whatever is here."""

from __future__ import annotations

from profkit.ops import axes

DEPTHS = axes.choice_of_numbers(1, 2, 3, 4, 5)
SIZE_CHANGES = axes.choice_of_numbers(-3, -2, -1, 0, 1, 2)
"""Sweeps of the Keras study."""


def scaled(count: int, factor: float) -> int:
    """A share of the published filters or neurons, at least one."""
    return max(1, round(count * factor))
