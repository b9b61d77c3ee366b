"""The points of a sweep: a Summary in, what was measured where out; lines of points along one axis."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from profkit.studies.declaration import Sweep, Variant
from profkit.studies.summary import Summary


@dataclass(frozen=True)
class Point:
    """One variant in one framework."""

    framework: str
    at: Mapping[str, Any]
    """Values of the sweep's axes."""
    steps_ns: Mapping[int, float]
    """Step time by repetition."""
    peak_bytes: float | None = None
    flops: float = 0.0
    """Of a step, by formula."""
    types: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The framework's own operators by kind: which implementation did it."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Parameters and settings that are no axes of the sweep."""
    epoch_steps: float = 1.0
    epoch_images: float = 1.0
    """Of one epoch; without a declared epoch in proportion to those of the other points."""

    @property
    def step_ns(self) -> float:
        return statistics.median(self.steps_ns.values())

    @property
    def low_ns(self) -> float:
        return min(self.steps_ns.values())

    @property
    def high_ns(self) -> float:
        return max(self.steps_ns.values())

    def without(self, *axes: str) -> dict[str, Any]:
        """Where it is, these axes aside."""
        return {name: value for name, value in self.at.items() if name not in axes}


@dataclass(frozen=True)
class Line:
    """Points of one framework that differ in one axis only, in the order of its numbers."""

    framework: str
    axis: str
    at: Mapping[str, Any]
    """Values of the other axes."""
    points: Sequence[Point]

    @property
    def x(self) -> list[float]:
        return [float(number_of(point.at[self.axis])) for point in self.points]


@dataclass(frozen=True)
class Ratio:
    """Of two times: the median over the repetitions that both have, and the lowest and the highest."""

    median: float
    low: float
    high: float


def points_of(summary: Summary) -> list[Point]:
    """Those with numbers; a cell that swapped, failed or was skipped is none."""
    found = []
    for facts in summary.variants:
        variant = summary.study.variant(facts.name)
        steps, images = _epoch(summary.study.sweep, variant)
        for row in summary.measured(facts.name):
            found.append(
                Point(
                    row.framework,
                    facts.changes,
                    row.steps_ns,
                    row.peak_bytes,
                    float(facts.flops),
                    row.types_by_kind(),
                    _fixed(variant, summary.threads),
                    steps,
                    images,
                )
            )
    return found


def _epoch(sweep: Sweep, variant: Variant) -> tuple[float, float]:
    """Steps and images of one epoch."""
    batch, fraction = variant.network.input_shape()[0], variant.setting.data_fraction
    if sweep.epoch is None:
        return fraction / batch, fraction
    return sweep.epoch.steps(batch, fraction) / sweep.epoch.epochs, sweep.epoch.counted_images(fraction)


def _fixed(variant: Variant, threads: int | None) -> dict[str, Any]:
    """As a study writes it, one count as a number; of what it leaves to the run only the threads are known."""
    setting = {name: value for name, value in asdict(variant.setting).items() if value not in (None, "")}
    parameters = {item.name: getattr(variant.network, item.name) for item in fields(variant.network)}
    for name, value in parameters.items():
        if isinstance(value, tuple):
            parameters[name] = value[0] if len(value) == 1 else list(value)
    every = {**({"threads": threads} if threads is not None else {}), **setting, **parameters}
    return {name: value for name, value in every.items() if name not in variant.changes}


def lines(points: Sequence[Point], axis: str) -> list[Line]:
    """Along an axis of numbers, two points at least; nothing for other axes."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        if axis in point.at and number_of(point.at[axis]) is not None:
            groups.setdefault(f"{point.framework} {point.without(axis)}", []).append(point)
    return [
        Line(group[0].framework, axis, group[0].without(axis), sorted(group, key=lambda point: _order(point, axis)))
        for group in groups.values()
        if len(group) > 1
    ]


def number_axes(points: Sequence[Point]) -> list[str]:
    """Axes whose values are numbers, more than one."""
    names = dict.fromkeys(name for point in points for name in point.at)
    return [
        name
        for name in names
        if all(number_of(point.at.get(name)) is not None for point in points)
        and len({number_of(point.at[name]) for point in points}) > 1
    ]


def number_of(value: Any) -> Any:
    """A number, or None for what has no order."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def ratio_of(above: Point, below: Point) -> Ratio | None:
    """Of two step times, each pair in the same repetition; None where they share none."""
    shared = [key for key in above.steps_ns if key in below.steps_ns]
    ratios = [above.steps_ns[key] / below.steps_ns[key] for key in shared if below.steps_ns[key] > 0]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios)) if ratios else None


def groups_of(points: Sequence[Point], key: Callable[[Point], Any]) -> list[list[Point]]:
    """Points with the same key, in the order of their first."""
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(repr(key(point)), []).append(point)
    return list(groups.values())


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def _order(point: Point, axis: str) -> float:
    return float(number_of(point.at[axis]))
