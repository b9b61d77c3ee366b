"""Published ratios beside ours: points and what was published about them in, agree, differ or not resolved out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profkit.studies.analyses.points import Point, Ratio, ratio_of
from profkit.studies.declaration import (
    EPOCH_S,
    FRAMEWORK,
    IMAGES_PER_S,
    PEAK_MB,
    SPEED_UP,
    STEP_MS,
    TOTAL_S,
    PublishedRatio,
    PublishedValue,
)
from profkit.studies.findings import AGREES, AGREES_WITHIN, DIFFERS, NOT_RESOLVED

NOT_HERE = "not measured here"
_ONE_THREAD = {"threads": 1}


@dataclass(frozen=True)
class Agreement:
    where: str
    quantity: str
    point: Mapping[str, Any]
    against: Mapping[str, Any]
    published_low: float
    published_high: float
    ours: Ratio | None
    verdict: str
    why: str


def agreements(
    points: Sequence[Point],
    ratios: Sequence[PublishedRatio],
    values: Sequence[PublishedValue],
    places: Mapping[str, str] | None = None,
) -> list[Agreement]:
    """Of every published ratio, and of every pair of frameworks that a published table of times or sizes has.

    `places`: which framework was measured in the place of a published one.
    """
    every = [*ratios, *_speed_up_ratios(values), *_framework_ratios(values)]
    return [_judged(points, each, places or {}) for each in every]


def _judged(points: Sequence[Point], published: PublishedRatio, places: Mapping[str, str]) -> Agreement:
    def answer(ours: Ratio | None, verdict: str, why: str) -> Agreement:
        about = published.where, published.quantity, published.point, published.against
        return Agreement(*about, published.low, published.high, ours, verdict, why)

    found = [_at(points, place, places) for place in (published.point, published.against)]
    for place, there in zip((published.point, published.against), found):
        if len(there) != 1:
            text = f"{len(there)} cells were" if there else "no cell was"
            return answer(None, NOT_HERE, f"{text} measured at {_place_text(place)}")
    (one,), (other,) = found
    ours = _ours(one, other, published.quantity)
    if ours is None:
        return answer(None, NOT_HERE, f"{published.quantity} is not known of both, in the same repetition")
    low, high = published.low / AGREES_WITHIN, published.high * AGREES_WITHIN
    if low <= ours.low and ours.high <= high:
        return answer(ours, AGREES, f"every repetition is within {100 * (AGREES_WITHIN - 1):.0f} % of it")
    if ours.high < low or ours.low > high:
        side = "below" if ours.high < low else "above"
        opposite = (ours.median - 1) * ((published.low * published.high) ** 0.5 - 1) < 0
        why = f"every repetition is {side} it" + (", and the other one wins here" if opposite else "")
        return answer(ours, DIFFERS, why)
    return answer(ours, NOT_RESOLVED, "the repetitions are on both sides of the margin")


def _ours(one: Point, other: Point, quantity: str) -> Ratio | None:
    """As the published quantity counts: larger is slower, or faster."""
    if quantity == PEAK_MB:
        if not one.peak_bytes or not other.peak_bytes:
            return None
        ratio = one.peak_bytes / other.peak_bytes
        return Ratio(ratio, ratio, ratio)
    if quantity == STEP_MS:
        return ratio_of(one, other)
    if quantity == SPEED_UP:
        return ratio_of(other, one)
    if quantity not in (EPOCH_S, TOTAL_S, IMAGES_PER_S) or not one.epoch_steps or not other.epoch_steps:
        return None
    steps, images = one.epoch_steps / other.epoch_steps, one.epoch_images / other.epoch_images
    if quantity == IMAGES_PER_S:
        return _times(ratio_of(other, one), images / steps)
    return _times(ratio_of(one, other), steps)


def _times(ratio: Ratio | None, factor: float) -> Ratio | None:
    return Ratio(ratio.median * factor, ratio.low * factor, ratio.high * factor) if ratio is not None else None


def _at(points: Sequence[Point], place: Mapping[str, Any], places: Mapping[str, str]) -> list[Point]:
    """The points there: several where the place does not name every axis, or the framework."""
    wanted = {name: value for name, value in place.items() if name != FRAMEWORK}
    named = place.get(FRAMEWORK)
    framework = places.get(named, named) if named is not None else None
    return [
        point
        for point in points
        if framework in (None, point.framework)
        and all(point.at.get(name, point.fixed.get(name)) == value for name, value in wanted.items())
    ]


def _speed_up_ratios(values: Sequence[PublishedValue]) -> list[PublishedRatio]:
    """A speed-up is the ratio to one thread on the processor."""
    found = []
    for value in values:
        if value.quantity == SPEED_UP:
            against = {name: each for name, each in value.point.items() if name != "device"} | _ONE_THREAD
            found.append(
                PublishedRatio(value.table, value.sweep, SPEED_UP, value.point, against, value.value, value.value)
            )
    return found


def _framework_ratios(values: Sequence[PublishedValue]) -> list[PublishedRatio]:
    """Of the same table and quantity, at the same point, of any two frameworks; a printed 0 has no ratio."""
    quantities = (STEP_MS, EPOCH_S, TOTAL_S, IMAGES_PER_S, PEAK_MB)
    usable = [value for value in values if value.quantity in quantities and value.value > 0]
    found = []
    for number, one in enumerate(usable):
        for other in usable[number + 1 :]:
            if _same_but_framework(one, other):
                ratio = one.value / other.value if one.quantity != IMAGES_PER_S else other.value / one.value
                quantity = one.quantity if one.quantity != IMAGES_PER_S else STEP_MS
                found.append(PublishedRatio(one.table, one.sweep, quantity, one.point, other.point, ratio, ratio))
    return found


def _same_but_framework(one: PublishedValue, other: PublishedValue) -> bool:
    about: Callable[[PublishedValue], Any] = lambda value: (  # noqa: E731 - a key
        value.table,
        value.sweep,
        value.quantity,
        {name: each for name, each in value.point.items() if name != FRAMEWORK},
    )
    return about(one) == about(other) and one.point.get(FRAMEWORK) != other.point.get(FRAMEWORK)


def _place_text(place: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in place.items())
