"""What a sweep over axes says: points in, tables and sentences of every analysis out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from profkit.rendering.quantities import ABSENT, percent_text, plural, ratio_text, time_text
from profkit.rendering.studies.grids import grid, megabytes, ratio_range_text
from profkit.rendering.tables.document import Block, Bullets, Heading, Paragraph
from profkit.rendering.tables.table import Table
from profkit.studies.analyses.agreement import NOT_HERE, Agreement, agreements
from profkit.studies.analyses.anomalies import NOT_MONOTONIC, Anomaly, anomalies
from profkit.studies.analyses.contradictions import contradictions
from profkit.studies.analyses.crossovers import Crossover, crossovers, value_crossovers
from profkit.studies.analyses.epochs import EpochTime, epoch_time
from profkit.studies.analyses.inversions import inversions
from profkit.studies.analyses.pairs import MEMORY, TIME, pairs
from profkit.studies.analyses.points import Point, Ratio, groups_of, number_axes, points_of
from profkit.studies.analyses.recommendations import TIE, recommendations
from profkit.studies.analyses.saturation import BATCH, SATURATED, saturations
from profkit.studies.analyses.scaling import laws
from profkit.studies.analyses.speedups import FASTER, NOT_RESOLVED, SLOWER, THREADS, SpeedUp, speed_ups
from profkit.studies.analyses.switches import switches
from profkit.studies.declaration import Epoch, PublishedRatio, PublishedValue, Variant
from profkit.studies.summary import RepetitionRange, Summary
from profkit.studies.sweeps import point_name, value_word

_PARALLEL = (THREADS, "device", "data_fraction", "dtype")
"""Axes along which the arithmetic of a step does not grow."""
WIDTHS, DEPTHS = ("neurons", "maps", "filters", "cells"), ("hidden", "convolutions", "depth")
"""Parameters of networks by what they change."""


def sweep_blocks(summary: Summary) -> list[Block]:
    """Everything about the sweep of one network; nothing where its variants are named."""
    sweep = summary.study.sweep
    points = points_of(summary)
    if not sweep.axes or not points:
        return []
    blocks: list[Block] = [Heading(2, "Times"), times_grid(summary), Paragraph(_times_note(sweep.epoch))]
    blocks += _threads(points) + _pairs(points) + _recommended(points) + _batches(points)
    blocks += _growth(points) + _exceptions(points)
    blocks += _agreement(summary, _published_agreements(summary, points))
    ratios, values = _published_of(summary)
    if found := contradictions(values, ratios):
        lines = [f"{' and '.join(dict.fromkeys(each.where))}, {_at(each.point)}: {each.why}" for each in found]
        blocks += [Heading(2, "Where the publication contradicts itself"), Bullets(lines)]
    return blocks


def times_grid(summary: Summary) -> Table:
    """One line per point and framework."""
    sweep = summary.study.sweep
    axes = list(sweep.axes)
    headings = [*axes, "framework", "step", *(["epoch", "images/s"] if sweep.epoch else []), "peak"]
    lines = []
    for facts in summary.variants:
        variant = summary.study.variant(facts.name)
        for row in summary.measured(facts.name):
            texts = [*(value_word(facts.changes[axis]) for axis in axes), row.framework, _spread_text(row.step_ns)]
            if sweep.epoch is not None and row.step_ns is not None:
                found = epoch_of(sweep.epoch, variant, row.step_ns.median)
                texts += [time_text(1e9 * found.epoch_s), f"{found.images_per_s:,.0f}"] if found else [ABSENT, ABSENT]
            lines.append([*texts, megabytes(row.peak_bytes)])
    return grid(headings, lines, texts=len(axes) + 1)


def epoch_of(epoch: Epoch, variant: Variant, step_ns: float) -> EpochTime | None:
    return epoch_time(epoch, variant.network.input_shape()[0], variant.setting.data_fraction, step_ns)


def _times_note(epoch: Epoch | None) -> str:
    text = "step: median with nothing recorded (range of the repetitions). peak: most bytes live at once."
    if epoch is None:
        return text
    how = "full batches only" if epoch.rounding == "floor" else "a last batch that is not full counted"
    return (
        f"{text} epoch: not run, but steps x step, with {epoch.images:,} images ({how}). images/s: images of an epoch "
        "over its time."
    )


def _threads(points: Sequence[Point]) -> list[Block]:
    """Speed-up and efficiency, a column per number of threads."""
    found = speed_ups(points)
    if not found:
        return []
    counts = sorted({each.threads for each in found})
    rows = []
    for group in groups_of(points, lambda point: (point.framework, point.without(THREADS))):
        place = group[0].without(THREADS)
        mine = {each.threads: each for each in found if (each.framework, each.at) == (group[0].framework, place)}
        if mine:
            cells = [text for count in counts for text in _speed_texts(mine.get(count))]
            rows.append([_at(place), group[0].framework, *cells])
    headings = ["point", "framework"]
    headings += [text for count in counts for text in (f"{count} threads", "efficiency")]
    table = grid(headings, rows, texts=2)
    return [Heading(2, "Speed-up against one thread"), table, Bullets(_thread_sentences(found))]


def _thread_sentences(found: Sequence[SpeedUp]) -> list[str]:
    """Per framework and number of threads: at how many points they help or harm, and by how much."""
    sentences = []
    for framework, threads in dict.fromkeys((each.framework, each.threads) for each in found):
        mine = [each for each in found if (each.framework, each.threads) == (framework, threads)]
        counts = Counter(each.verdict for each in mine)
        best = max(mine, key=lambda each: each.ratio.median)
        sentences.append(
            f"{framework}, {threads} threads against one: faster at {counts[FASTER]} of {plural(len(mine), 'point')}, "
            f"slower at {counts[SLOWER]}, not resolved at {counts[NOT_RESOLVED]}; best speed-up "
            f"{ratio_text(best.ratio.median)}, efficiency {percent_text(100 * best.efficiency)}{_comma(best.at)}"
        )
    return sentences


def sweep_answers(summary: Summary) -> list[str]:
    """A sweep in short: which framework is fastest where, what threads give, how published ratios fare."""
    points = points_of(summary)
    found = recommendations(points)
    sentences = []
    if found:
        counts = Counter(each.fastest for each in found)
        parts = [f"{name} at {count}" for name, count in counts.most_common()]
        ties = sum(bool(each.ties) for each in found)
        text = f"Fastest of {plural(len(found), 'point')}: {', '.join(parts)}"
        sentences.append(f"{text}; at {ties} another one is within {100 * (TIE - 1):.0f} %.")
    sentences += [f"{text}." for text in _thread_sentences(speed_ups(points))]
    if judged := _published_agreements(summary, points):
        counts = Counter(each.verdict for each in judged)
        sentences.append(f"Published ratios: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}.")
    return sentences


def _published_agreements(summary: Summary, points: Sequence[Point]) -> list[Agreement]:
    published = summary.study.published
    return agreements(points, *_published_of(summary), published.places if published else {})


def _published_of(summary: Summary) -> tuple[list[PublishedRatio], list[PublishedValue]]:
    """What was published about this sweep."""
    published, name = summary.study.published, summary.study.sweep.name
    if published is None:
        return [], []
    ratios = [each for each in published.ratios if each.sweep == name]
    return ratios, [each for each in published.values if each.sweep == name]


def _speed_texts(each: Any) -> list[str]:
    return [_ratio_text(each.ratio), percent_text(100 * each.efficiency)] if each is not None else [ABSENT, ABSENT]


def _pairs(points: Sequence[Point]) -> list[Block]:
    blocks: list[Block] = []
    for quantity, title in ((TIME, "faster"), (MEMORY, "less memory")):
        found = pairs(points, quantity)
        if not found:
            continue
        names = list(dict.fromkeys(each.first for each in found))
        by = {(each.first, each.second): each for each in found}
        rows = []
        for first in names:
            row = [first]
            for second in names:
                each = by.get((first, second))
                row.append(_range_text(each.low, each.mean, each.high) if each else ABSENT)
            rows.append(row)
        blocks += [Heading(2, f"Each framework against each: how many times {title}"), grid(["", *names], rows)]
    if blocks:
        blocks.append(
            Paragraph(
                "The row's framework against the column's, geometric mean over the points that both have (lowest to "
                "highest); above 1 the row's is better."
            )
        )
    return blocks


def _recommended(points: Sequence[Point]) -> list[Block]:
    found = recommendations(points)
    if not found:
        return []
    rows = [
        [
            _at(each.at),
            each.fastest,
            time_text(each.step_ns),
            ", ".join(each.ties) or ABSENT,
            ratio_text(each.next_ratio),
            {True: "yes", False: "no", None: ABSENT}[each.is_resolved],
        ]
        for each in found
    ]
    headings = ["point", "fastest", "step", "ties", "next", "in every repetition"]
    note = (
        f"ties: within {100 * (TIE - 1):.0f} % of the fastest, so that ease of use may decide. next: time of the first "
        "that does not tie over the fastest's. in every repetition: whether the fastest is faster than all that do not "
        "tie."
    )
    return [Heading(2, "What to take"), grid(headings, rows, texts=2), Paragraph(note)]


def _batches(points: Sequence[Point]) -> list[Block]:
    found = saturations(points)
    if not found:
        return []
    rows = [
        [
            _at(each.at),
            each.framework,
            f"{each.best_batch}{' or more' if each.is_at_end else ''}",
            f"{each.best_images_per_s:,.0f}",
            str(each.enough_batch),
        ]
        for each in found
    ]
    headings = ["point", "framework", "best batch", "images/s", f"{100 * SATURATED:.0f} % from batch"]
    return [Heading(2, "Best batch"), grid(headings, rows, texts=2)]


def _growth(points: Sequence[Point]) -> list[Block]:
    rows = []
    for axis in number_axes(points):
        for law in laws(points, axis):
            if law.exponent is not None:
                interval = f"{law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
                behind = f"{law.name} at {law.step_at:g}" if law.step_at is not None else law.name
                rows.append([axis, _at(law.at), law.framework, behind, interval])
    if not rows:
        return []
    headings = ["axis", "point", "framework", "law", "exponent"]
    note = (
        "exponent: of time = a x^exponent, with its 95 % interval from the points of the line. linear: the interval "
        "has 1 in it; not resolved: it has 0 in it."
    )
    return [Heading(2, "How time grows"), grid(headings, rows, texts=4), Paragraph(note)]


def _exceptions(points: Sequence[Point]) -> list[Block]:
    """What is not as one would expect."""
    axes = number_axes(points)
    working = [axis for axis in axes if axis not in _PARALLEL]
    lines = [_crossover_text(each) for each in _crossovers(points, working)]
    lines += [_anomaly_text(each) for axis in working for each in anomalies(points, axis)]
    lines += [
        f"{each.framework}, {_at(each.at)}: {each.kind} changes between {each.axis} {each.below:g} and {each.above:g}"
        f" ({', '.join(each.before) or 'nothing'} before, {', '.join(each.after) or 'nothing'} after)"
        for axis in axes
        for each in switches(points, axis, axis in DEPTHS)
    ]
    for width in (axis for axis in working if axis in WIDTHS):
        for depth in (axis for axis in working if axis in DEPTHS):
            lines += [
                f"{each.framework}: {_at(each.deeper)} takes {ratio_text(each.time_ratio)} times as long as "
                f"{_at(each.wider)} with {ratio_text(each.flops_ratio)} of its arithmetic"
                for each in inversions(points, width, depth)
            ]
    if not lines:
        return []
    return [Heading(2, "Crossovers, anomalies, switches"), Bullets(_some(lines))]


def _crossovers(points: Sequence[Point], axes: Sequence[str]) -> list[Crossover]:
    """Between frameworks, then between numbers of threads and devices."""
    found = [each for axis in axes for each in crossovers(points, axis)]
    for between in (THREADS, "device"):
        if any(between in point.at for point in points):
            found += [each for axis in axes for each in value_crossovers(points, axis, between)]
    return found


def _crossover_text(each: Crossover) -> str:
    text = (
        f"{each.first} is faster up to {each.axis} {each.below:g}, {each.second} from {each.above:g} on (equal at "
        f"about {each.at_x:.3g}){_comma(each.at)}"
    )
    return text if each.is_resolved else f"{text}; not in every repetition"


def _anomaly_text(each: Anomaly) -> str:
    place = f"{each.framework}, {each.axis} {each.x:g}{_comma(each.at)}"
    if each.kind == NOT_MONOTONIC:
        return f"{place}: {ratio_text(each.factor)} times faster than the value before, which is less work"
    return f"{place}: {ratio_text(each.factor)} of the time that its neighbours say"


def _agreement(summary: Summary, found: Sequence[Agreement]) -> list[Block]:
    published = summary.study.published
    if not found or published is None:
        return []
    rows = [
        [
            each.where,
            each.quantity,
            _at(each.point),
            _at({name: value for name, value in each.against.items() if each.point.get(name) != value}),
            _interval(each.published_low, each.published_high),
            _ratio_text(each.ours),
            each.verdict,
            each.why,
        ]
        for each in found
        if each.verdict != NOT_HERE
    ]
    missing: dict[str, list[str]] = {}
    for each in found:
        if each.verdict == NOT_HERE:
            missing.setdefault(each.where, []).append(each.why)
    headings = ["where", "quantity", "point", "against", "published", "here", "verdict", "why"]
    source = f"Source: {published.source}. {' '.join(published.notes)}".strip()
    if published.places:
        taken = ", ".join(f"{here} in the place of {there}" for there, here in published.places.items())
        source += f" Not run as published: {taken}."
    blocks: list[Block] = [Heading(2, "Beside the published ratios"), Paragraph(source)]
    blocks += [grid(headings, rows, texts=4)] if rows else []
    lines = [
        f"{name}: {why[0] if len(why) == 1 else f'{len(why)} ratios of points that were not measured here'}"
        for name, why in missing.items()
    ]
    return [*blocks, *([Bullets(lines)] if lines else [])]


MOST_LINES = 40


def _some(lines: Sequence[str]) -> list[str]:
    """As many as one reads."""
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more in summary.json"] if more > 0 else [])]


def sweep_findings(summary: Summary) -> dict[str, list[Any]]:
    """All analyses as data."""
    sweep, points = summary.study.sweep, points_of(summary)
    if not sweep.axes:
        return {}
    axes = number_axes(points)
    working = [axis for axis in axes if axis not in _PARALLEL]
    ratios, values = _published_of(summary)

    def along(analysis: Callable[[Sequence[Point], str], Iterable[Any]], names: Sequence[str]) -> list[Any]:
        return [each for axis in names for each in analysis(points, axis)]

    return {
        "speed_ups": speed_ups(points),
        "pairs": [*pairs(points, TIME), *pairs(points, MEMORY)],
        "recommendations": recommendations(points),
        "saturations": saturations(points) if BATCH in axes else [],
        "laws": along(laws, axes),
        "crossovers": _crossovers(points, working),
        "anomalies": along(anomalies, working),
        "switches": [each for axis in axes for each in switches(points, axis, axis in DEPTHS)],
        "inversions": [
            each
            for width in WIDTHS
            for depth in DEPTHS
            if width in axes and depth in axes
            for each in inversions(points, width, depth)
        ],
        "agreements": _published_agreements(summary, points),
        "contradictions": contradictions(values, ratios),
    }


def _at(place: Mapping[str, Any]) -> str:
    return point_name(place) or "everywhere"


def _comma(place: Mapping[str, Any]) -> str:
    return f", at {point_name(place)}" if place else ""


def _spread_text(spread: RepetitionRange | None) -> str:
    if spread is None:
        return ABSENT
    low, middle, high = (time_text(value) for value in (spread.low, spread.median, spread.high))
    return middle if low == high else f"{middle} ({low} to {high})"


def _ratio_text(ratio: Ratio | None) -> str:
    return ABSENT if ratio is None else ratio_range_text(RepetitionRange(ratio.median, ratio.low, ratio.high))


def _range_text(low: float, mean: float, high: float) -> str:
    return ratio_range_text(RepetitionRange(mean, low, high))


def _interval(low: float, high: float) -> str:
    return ratio_text(low) if low == high else f"{ratio_text(low)} to {ratio_text(high)}"
