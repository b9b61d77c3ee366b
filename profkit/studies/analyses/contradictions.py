"""Whether a publication agrees with itself: its tables and ratios in, numbers that cannot both be right out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.declaration import SPEED_UP, PublishedRatio, PublishedValue

ROUNDING = 1.05
"""Printed numbers are rounded: within this factor they may be the same."""


@dataclass(frozen=True)
class Contradiction:
    where: tuple[str, str]
    quantity: str
    point: Mapping[str, Any]
    first: float
    second: float
    why: str


def contradictions(values: Sequence[PublishedValue], ratios: Sequence[PublishedRatio]) -> list[Contradiction]:
    return [*_between_tables(values), *_between_ratios(ratios), *_of_ratios(values, ratios)]


def _between_tables(values: Sequence[PublishedValue]) -> list[Contradiction]:
    """Two tables about the same point."""
    found = []
    for number, one in enumerate(values):
        for other in values[number + 1 :]:
            same = (one.sweep, one.quantity, one.point) == (other.sweep, other.quantity, other.point)
            if same and not _may_be_equal(one, other):
                margins = f" ± {one.margin:g} and ± {other.margin:g}" if one.margin or other.margin else ""
                why = f"two tables give {one.value:g} and {other.value:g}{margins} for the same point"
                where = one.table, other.table
                found.append(Contradiction(where, one.quantity, one.point, one.value, other.value, why))
    return found


def _between_ratios(ratios: Sequence[PublishedRatio]) -> list[Contradiction]:
    """Two statements about the same pair, in either direction."""
    found = []
    for number, one in enumerate(ratios):
        for other in ratios[number + 1 :]:
            if (one.sweep, one.quantity) != (other.sweep, other.quantity):
                continue
            if (one.point, one.against) == (other.point, other.against):
                low, high = other.low, other.high
            elif (one.point, one.against) == (other.against, other.point):
                low, high = 1 / other.high, 1 / other.low
            else:
                continue
            if one.low > ROUNDING * high or low > ROUNDING * one.high:
                why = f"two statements give {_range(one.low, one.high)} and {_range(low, high)} for the same pair"
                where = one.where, other.where
                found.append(Contradiction(where, one.quantity, one.point, one.low, low, why))
    return found


def _of_ratios(values: Sequence[PublishedValue], ratios: Sequence[PublishedRatio]) -> list[Contradiction]:
    """A stated ratio against the table that has both numbers."""
    found = []
    for ratio in ratios:
        if ratio.quantity == SPEED_UP:
            continue
        for one in values:
            for other in values:
                is_about = one.table == other.table and (one.point, other.point) == (ratio.point, ratio.against)
                same = one.sweep == other.sweep == ratio.sweep and one.quantity == other.quantity == ratio.quantity
                if not is_about or not same or not other.value:
                    continue
                value = one.value / other.value
                if not ratio.low / ROUNDING <= value <= ratio.high * ROUNDING:
                    why = f"{ratio.where} says {_range(ratio.low, ratio.high)}, its table {one.table} gives {value:.3g}"
                    where = ratio.where, one.table
                    found.append(Contradiction(where, ratio.quantity, ratio.point, ratio.low, value, why))
    return found


def _may_be_equal(one: PublishedValue, other: PublishedValue) -> bool:
    low, high = sorted((one.value, other.value))
    return high - low <= one.margin + other.margin or (low > 0 and high / low <= ROUNDING)


def _range(low: float, high: float) -> str:
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
