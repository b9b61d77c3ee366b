"""Conclusions drawn from a study's numbers, as data: a Summary in, facts out. Rendering puts them into words.

Nothing here is about a certain study: what dominates, what each variant saves and costs, where published ratios and
ours part, and what the arithmetic says about both.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from profkit.studies.summary import RepetitionRange, Summary, TrainingResult, VariantFacts, VariantRow

AGREES_WITHIN = 1.25
"""Two ratios agree when neither is more than a quarter above the other."""
AGREES, DIFFERS, NOT_RESOLVED = "agrees", "differs", "not resolved"


@dataclass(frozen=True)
class Dominance:
    """Which kinds of operator take the time of the base in a framework; percent of all operators."""

    framework: str
    first: str
    first_ns: float
    first_percent: float
    second: str | None
    second_percent: float | None
    remainder_ns: float
    """Of the recorded step: time in which no operator ran."""
    remainder_percent: float


@dataclass(frozen=True)
class Saving:
    """A variant against the base in one framework. Ratios are this variant's over the base's: below 1 is less."""

    variant: str
    framework: str
    step_ratio: float
    focus_ratio: float | None
    bytes_ratio: float | None
    flops_ratio: float
    """Of the focus operator, by formula."""
    rate_kept: float | None
    """Flops per second of the focus operator against the base: 1 means that time went down with the arithmetic."""


@dataclass(frozen=True)
class PrecisionCost:
    variant: str
    points: float
    margin_points: float | None
    """Half of the 95 % interval by the number of test images alone; another seed may change more."""
    published_points: float | None


@dataclass(frozen=True)
class PublishedComparison:
    """Our ratio to the base beside the published one, and what arithmetic or sizes predict for both."""

    variant: str
    framework: str
    quantity: str
    """time or bytes, of the focus operator."""
    ours: float
    low: float
    high: float
    """Range of ours over the repetitions."""
    published: float
    predicted: float
    """By formula: ratio of flops, or of the results' bytes."""

    @property
    def verdict(self) -> str:
        """Whether they agree: all repetitions within the margin, or all on one side of it; else not resolved."""
        if agree(self.low, self.published) and agree(self.high, self.published):
            return AGREES
        is_beside = self.high < self.published / AGREES_WITHIN or self.low > self.published * AGREES_WITHIN
        return DIFFERS if is_beside else NOT_RESOLVED

    @property
    def is_ours_closer(self) -> bool:
        """Whether our ratio is nearer to the prediction than the published one."""
        return _distance(self.ours, self.predicted) <= _distance(self.published, self.predicted)


@dataclass(frozen=True)
class Combination:
    """A variant that changes what two others change: what both together would give if they did not interact."""

    variant: str
    parts: tuple[str, str]
    framework: str
    product: RepetitionRange
    """Its range is the widest that the ranges of both allow."""
    measured: RepetitionRange
    focus_percent: float | None
    """Share of the focus operator in what is left, and in the base."""
    base_focus_percent: float | None

    @property
    def verdict(self) -> str:
        """AGREES: both savings are there in full, or more; DIFFERS: less than that in every repetition."""
        if self.measured.high <= self.product.low * AGREES_WITHIN:
            return AGREES
        return DIFFERS if self.measured.low > self.product.high * AGREES_WITHIN else NOT_RESOLVED


@dataclass(frozen=True)
class Unexplained:
    """A published ratio that differs from what arithmetic or sizes predict, with ours for the same, median of all."""

    variant: str
    quantity: str
    published: float
    predicted: float
    ours: float | None


@dataclass(frozen=True)
class PublishedBytes:
    """Published bytes of the focus operator beside the size of its results."""

    variant: str
    published: float
    outputs: int


def agree(one: float, other: float) -> bool:
    return one > 0 and other > 0 and max(one / other, other / one) <= AGREES_WITHIN


def dominances(summary: Summary) -> list[Dominance]:
    """Per framework, in the base."""
    found = []
    for row in summary.measured(summary.study.base):
        if not row.operators_ns or not row.kinds:
            continue
        first, *others = row.kinds
        whole = row.operators_ns + row.remainder_ns
        found.append(
            Dominance(
                row.framework,
                first.name,
                first.own_ns,
                100.0 * first.own_ns / row.operators_ns,
                others[0].name if others else None,
                100.0 * others[0].own_ns / row.operators_ns if others else None,
                row.remainder_ns,
                100.0 * row.remainder_ns / whole,
            )
        )
    return found


def savings(summary: Summary) -> list[Saving]:
    """Per variant other than the base, and framework."""
    found = []
    for facts in _others(summary):
        for row in summary.measured(facts.name):
            if row.step_ratio is None:
                continue
            flops_ratio = part(facts.focus_flops, summary.base.focus_flops) or 0.0
            focus_ratio = row.focus_ratio.median if row.focus_ratio else None
            kept = flops_ratio / focus_ratio if focus_ratio else None
            found.append(
                Saving(
                    facts.name, row.framework, row.step_ratio.median, focus_ratio, row.bytes_ratio, flops_ratio, kept
                )
            )
    return found


def costs(summary: Summary) -> list[PrecisionCost]:
    """Per variant that was trained as long as the base."""
    base = summary.base.learned
    if base is None or base.precision_percent is None:
        return []
    found = []
    for facts in _others(summary):
        learned = facts.learned
        if learned is None or learned.precision_percent is None or learned.steps != base.steps:
            continue
        figures = [each.published.precision_percent if each.published else None for each in (facts, summary.base)]
        points = figures[0] - figures[1] if figures[0] is not None and figures[1] is not None else None
        difference = learned.precision_percent - base.precision_percent
        found.append(PrecisionCost(facts.name, difference, _margin_points(learned, base), points))
    return found


def comparisons(summary: Summary) -> list[PublishedComparison]:
    """Per variant with published figures, framework, and quantity."""
    found = []
    for facts in _others(summary):
        for row in summary.measured(facts.name):
            for quantity, ours, published, predicted in _ratios(summary, facts, row):
                if ours and published and predicted:
                    range_ = row.focus_ratio if quantity == "time" else None
                    low, high = (range_.low, range_.high) if range_ else (ours, ours)
                    found.append(
                        PublishedComparison(facts.name, row.framework, quantity, ours, low, high, published, predicted)
                    )
    return found


def combinations(summary: Summary) -> list[Combination]:
    """Variants whose changes are those of two others together, per framework."""
    found = []
    for facts in _others(summary):
        parts = _parts(facts, _others(summary))
        for framework in summary.frameworks() if parts else []:
            rows = [summary.row(name, framework) for name in (facts.name, *parts, summary.study.base)]
            ratios = [row.step_ratio for row in rows if row is not None and row.step_ratio is not None]
            shares = [row.focus_percent for row in rows if row is not None]
            if len(ratios) == len(shares) == len(rows):
                one, other = ratios[1:3]
                product = RepetitionRange(one.median * other.median, one.low * other.low, one.high * other.high)
                found.append(
                    Combination(facts.name, (parts[0], parts[1]), framework, product, ratios[0], shares[0], shares[-1])
                )
    return found


def unexplained(summary: Summary) -> list[Unexplained]:
    """Published ratios that arithmetic and sizes do not predict."""
    found = []
    for facts in _others(summary):
        for place, quantity in enumerate(("time", "bytes")):
            _, _, published, predicted = _ratios(summary, facts, None)[place]
            if published and predicted and not agree(published, predicted):
                ratios = [_ratios(summary, facts, row)[place][1] for row in summary.measured(facts.name)]
                values = list(filter(None, ratios))
                ours = statistics.median(values) if values else None
                found.append(Unexplained(facts.name, quantity, published, predicted, ours))
    return found


def published_bytes(summary: Summary) -> list[PublishedBytes]:
    return [
        PublishedBytes(facts.name, facts.published.focus_bytes, facts.focus_output_bytes)
        for facts in summary.variants
        if facts.published is not None and facts.published.focus_bytes and facts.focus_output_bytes
    ]


def _others(summary: Summary) -> list[VariantFacts]:
    return [facts for facts in summary.variants if facts.name != summary.study.base]


def _ratios(
    summary: Summary, facts: VariantFacts, row: VariantRow | None
) -> list[tuple[str, float | None, float | None, float | None]]:
    """Quantity, ours, published, predicted; for time and bytes of the focus operator."""
    ours = row.focus_ratio.median if row is not None and row.focus_ratio is not None else None
    return [
        (
            "time",
            ours,
            published_ratio(facts, summary.base, "focus_ms"),
            part(facts.focus_flops, summary.base.focus_flops),
        ),
        (
            "bytes",
            row.bytes_ratio if row is not None else None,
            published_ratio(facts, summary.base, "focus_bytes"),
            part(facts.focus_output_bytes, summary.base.focus_output_bytes),
        ),
    ]


def _margin_points(one: TrainingResult, other: TrainingResult) -> float | None:
    """Of the difference of two precisions, each a count of right answers."""
    if not one.tested or not other.tested:
        return None
    variance = sum(
        (each.precision_percent or 0.0) * (100.0 - (each.precision_percent or 0.0)) / each.tested
        for each in (one, other)
    )
    return 1.96 * math.sqrt(variance)


def _parts(facts: VariantFacts, others: Sequence[VariantFacts]) -> tuple[str, ...]:
    """Two variants that share no parameter and together change exactly what this one does."""
    mine = dict(facts.changes)
    inside = [each for each in others if each is not facts and each.changes and each.changes.items() < mine.items()]
    for number, one in enumerate(inside):
        for other in inside[number + 1 :]:
            if not one.changes.keys() & other.changes.keys() and {**one.changes, **other.changes} == mine:
                return one.name, other.name
    return ()


def published_ratio(facts: VariantFacts, base: VariantFacts, name: str) -> float | None:
    """A published figure of a variant against that of the base."""
    own, other = (getattr(each.published, name) if each.published else None for each in (facts, base))
    return own / other if own is not None and other else None


def part(value: float, whole: float) -> float | None:
    """Of the whole; None of nothing."""
    return value / whole if whole else None


def _distance(value: float, other: float) -> float:
    return max(value / other, other / value)
