"""What a study's plot shows, before it is drawn: panels over the same variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profkit.studies.declaration import Figures
from profkit.studies.summary import Summary, VariantRow

# Distinguishable with every kind of colour vision, on white.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#7a5c00", "#555555")
PUBLISHED_COLOUR, EXPECTED_COLOUR = "#000000", "#9a9a9a"


@dataclass(frozen=True)
class Series:
    """One value per variant; None where there is none. A reference (published, by formula) is drawn apart."""

    name: str
    values: Sequence[float | None]
    colour: str
    is_reference: bool = False


@dataclass(frozen=True)
class Panel:
    """One picture under a title that says quantity and unit."""

    title: str
    series: Sequence[Series]
    is_log: bool = False

    def limits(self) -> tuple[float, float] | None:
        """Lowest and highest value with some room, None without any value."""
        values = [value for series in self.series for value in series.values if value is not None]
        values = [value for value in values if value > 0] if self.is_log else values
        if not values:
            return None
        if self.is_log:
            return min(values) / 1.25, max(values) * 1.25
        return 0.0, max(max(values) * 1.08, 1e-9)

    def ticks(self) -> list[float]:
        """Round numbers between the limits."""
        limits = self.limits()
        if limits is None:
            return []
        return _log_ticks(*limits) if self.is_log else _linear_ticks(*limits)


@dataclass(frozen=True)
class Chart:
    """Panels above each other, the variants from left to right."""

    title: str
    notes: Sequence[str]
    variants: Sequence[str]
    panels: Sequence[Panel]


def study_chart(summary: Summary) -> Chart:
    """Time, memory and precision over the variants, the published figures beside ours."""
    focus, names = summary.focus, [facts.name for facts in summary.variants]
    colours = {runner.key: COLOURS[place % len(COLOURS)] for place, runner in enumerate(summary.study.runners)}
    frameworks = summary.frameworks()

    def ours(value: Callable[[VariantRow], float | None]) -> list[Series]:
        rows = {name: [summary.row(variant, name) for variant in names] for name in frameworks}
        return [
            Series(name, [value(row) if row else None for row in rows[name]], colours[name]) for name in frameworks
        ]  # fmt: skip

    def published(value: Callable[[Figures], float | None], base: bool) -> list[Series]:
        figures = [facts.published for facts in summary.variants]
        whole = value(summary.base.published) if base and summary.base.published else 1.0
        values = [value(each) if each else None for each in figures]
        ratios = [number / whole if number is not None and whole else None for number in values]
        return [Series("published", ratios, PUBLISHED_COLOUR, True)] if any(ratios) else []

    flops = [facts.focus_flops / (summary.base.focus_flops or 1) for facts in summary.variants]
    panels = [
        Panel("time of a step, ms", ours(lambda row: row.step_ns.median / 1e6 if row.step_ns else None), True),
        Panel(
            f"{focus} time against the base",
            [
                *ours(lambda row: row.focus_ratio.median if row.focus_ratio else None),
                Series("flops", flops, EXPECTED_COLOUR, True),
                *published(lambda figures: figures.focus_ms, True),
            ],
            True,
        ),
        Panel(
            f"bytes requested by {focus} in a step, MB",
            [
                *ours(lambda row: row.focus_bytes / 1e6 if row.focus_bytes is not None else None),
                *published(lambda figures: figures.focus_bytes / 1e6 if figures.focus_bytes else None, False),
            ],
        ),
    ]
    learned = [facts.learned for facts in summary.variants]
    if any(each is not None and each.precision_percent is not None for each in learned):
        framework = next(each.framework for each in learned if each is not None)
        precision = [each.precision_percent if each else None for each in learned]
        series = Series(f"precision here ({framework})", precision, colours.get(framework, COLOURS[-1]))
        title = f"precision@1, %{' (here on synthetic data)' if summary.is_synthetic else ''}"
        panels.append(Panel(title, [series, *published(lambda figures: figures.precision_percent, False)]))
    notes = [f"images: {summary.data}"] if summary.data else []
    notes += [f"published: {summary.study.published.source}"] if summary.study.published else []
    return Chart(summary.study.title, notes, names, panels)


def tick_text(value: float) -> str:
    """A round number, as short as it goes."""
    return f"{value:g}" if value < 1e5 else f"{value:.0e}"


def wrapped_name(name: str, width: int = 13) -> list[str]:
    """A variant's name in short lines."""
    lines: list[str] = []
    for word in name.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 6
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= rough)
    return [round(step * number, 12) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = [float(f"{factor}e{exponent}") for exponent in exponents for factor in (1, 2, 5)]
    inside = [value for value in every if low <= value <= high]
    tens = [value for value in inside if f"{value:e}".startswith("1.0")]
    return tens if len(inside) > 9 else inside
