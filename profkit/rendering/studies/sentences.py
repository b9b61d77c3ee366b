"""A study's conclusions in words: findings in, sentences out. Every number in them was computed by profkit.studies."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.rendering.quantities import percent_text, ratio_text, time_text
from profkit.rendering.studies.grids import megabytes, ratio_range_text
from profkit.studies import findings
from profkit.studies.findings import AGREES_WITHIN, Combination, PrecisionCost, PublishedComparison, Saving
from profkit.studies.summary import Summary

SAME_BYTES = 0.005
"""Published sizes have three or four digits."""

ONCE = "There is one repetition only: how far the numbers repeat is not known."


def dominance_sentences(summary: Summary) -> list[str]:
    """Which kind of operator takes the time, per framework."""
    sentences = []
    for each in findings.dominances(summary):
        second = f", then {each.second} ({percent_text(each.second_percent)})" if each.second else ""
        sentences.append(
            f"{each.framework}: {each.first} takes {percent_text(each.first_percent)} of all operators' time "
            f"({time_text(each.first_ns)} a step){second}. In {percent_text(each.remainder_percent)} of the step no "
            "operator ran."
        )
    return sentences


def variant_sentences(summary: Summary) -> list[str]:
    """What each variant saves and costs, over all frameworks."""
    every = findings.savings(summary)
    costs = {cost.variant: cost for cost in findings.costs(summary)}
    sentences = []
    for facts in summary.variants:
        mine = [saving for saving in every if saving.variant == facts.name]
        if not mine:
            continue
        text = f"{facts.name}: the step takes {_range([each.step_ratio for each in mine])} of the base's time"
        if focus := [each.focus_ratio for each in mine if each.focus_ratio]:
            text += f", {summary.focus} {_range(focus)} for {ratio_text(mine[0].flops_ratio)} of its flops"
        if sizes := [each.bytes_ratio for each in mine if each.bytes_ratio]:
            text += f" and {_range(sizes)} of its bytes"
        if facts.name in costs:
            cost = costs[facts.name]
            text += f"; precision {points_text(cost)}"
            text += " on synthetic data" if summary.is_synthetic else ""
            text += f" (published {cost.published_points:+.1f})" if cost.published_points is not None else ""
        sentences.append(f"{text}.{_rate_sentence(summary, mine)}")
    return sentences


def points_text(cost: PrecisionCost) -> str:
    """Points of precision, with what the number of test images leaves open."""
    margin = f" ± {cost.margin_points:.1f}" if cost.margin_points is not None else ""
    return f"{cost.points:+.1f}{margin} points"


def combination_sentences(summary: Summary) -> list[str]:
    """Whether combined changes do what the single ones promise."""
    every = findings.combinations(summary)
    sentences = []
    for name in dict.fromkeys(each.variant for each in every):
        mine = [each for each in every if each.variant == name]
        one, other = mine[0].parts
        shown = "; ".join(
            f"{each.framework} {ratio_range_text(each.measured)}, product {ratio_range_text(each.product)}"
            for each in mine
        )
        sentences.append(
            f"{one} and {other} together take this part of the base's step time, beside the product of both alone (in "
            f"brackets: the ranges of the repetitions): {shown}. {_combination_verdict(summary, mine)}"
        )
    return sentences


def comparison_sentences(summary: Summary) -> list[str]:
    """Where ratios agree with the published ones, and where not and why, per variant and quantity."""
    every = findings.comparisons(summary)
    sentences = []
    for variant, quantity in dict.fromkeys((each.variant, each.quantity) for each in every):
        mine = [each for each in every if (each.variant, each.quantity) == (variant, quantity)]
        what = "flops" if quantity == "time" else "results"
        parts = [
            f"{words}: {_values(chosen)}"
            for words, verdict in (
                (f"agree within {100 * (AGREES_WITHIN - 1):.0f} %", findings.AGREES),
                ("not resolved by the repetitions", findings.NOT_RESOLVED),
            )
            if (chosen := [each for each in mine if each.verdict == verdict])
        ]
        parts += _reasons([each for each in mine if each.verdict == findings.DIFFERS])
        found = "; ".join(parts)
        sentences.append(
            f"{variant}, {summary.focus} {quantity}: published {ratio_text(mine[0].published)} of the base, its {what} "
            f"{ratio_text(mine[0].predicted)}. {found[:1].upper()}{found[1:]}."
        )
    return sentences


def open_sentences(summary: Summary) -> list[str]:
    """What the published figures leave open, and what can be said about it."""
    sentences = []
    for each in findings.unexplained(summary):
        what = "arithmetic" if each.quantity == "time" else "size of its results"
        text = (
            f"{each.variant}: the published {summary.focus} {each.quantity} is {ratio_text(each.published)} of the "
            f"base, the {what} alone would give {ratio_text(each.predicted)}."
        )
        if each.quantity == "time":
            rate = each.predicted / each.published
            text += (
                f" Its kernel {'lost' if rate < 1 else 'gained'} {100 * abs(1 - rate):.0f} % of its flops per second."
            )
        if each.ours is not None:
            text += f" Here it is {ratio_text(each.ours)}, the median of the frameworks."
        sentences.append(text)
    sizes = findings.published_bytes(summary)
    if exact := [each.variant for each in sizes if abs(each.published / each.outputs - 1) <= SAME_BYTES]:
        sentences.append(
            f"The published bytes of {_listed(exact)} are the results of {summary.focus}, to within "
            f"{100 * SAME_BYTES:g} %: that is what its column counts, and it confirms batch and sizes used here."
        )
    if more := [each for each in sizes if each.published / each.outputs - 1 > SAME_BYTES]:
        shown = ", ".join(f"{each.variant} {megabytes(each.published - each.outputs)}" for each in more)
        sentences.append(f"Beyond its results, the published {summary.focus} allocated workspace: {shown}.")
    return [*sentences, *_recording_sentences(summary)]


def _recording_sentences(summary: Summary) -> list[str]:
    published = summary.study.published
    if published is None or published.recording_ratio is None:
        return []
    ours = [
        f"{row.framework} {ratio_text(max(row.recording.values()))} ({ratio_text(row.null)})"
        for row in summary.measured(summary.study.base)
        if row.recording and row.null
    ]
    text = f"Its profiler made what it watched about {published.recording_ratio:g} times slower."
    if ours:
        text += f" Here recorded against unrecorded steps (unrecorded against unrecorded): {', '.join(ours)}."
    return [text]


def machine_sentences(summary: Summary) -> list[str]:
    """Where it ran, and whether the numbers can be trusted."""
    sentences = []
    if summary.environments:
        first = summary.environments[0]
        threads = f", {summary.threads} threads per framework" if summary.threads else ""
        sentences.append(f"Machine: {first.get('cpu', 'unknown')}{threads}; profkit {first.get('profkit', '?')}.")
        if changed := _changed_packages(summary):
            sentences.append(f"Versions changed between the runs that filled this folder: {', '.join(changed)}.")
    return [*sentences, *busy_sentences(summary), _spread_sentence(summary)]


def busy_sentences(summary: Summary) -> list[str]:
    """Whether others used the machine meanwhile; nothing if not."""
    if not summary.is_busy:
        return []
    load = f"its load was up to {summary.highest_load:.1f} when a cell began"
    own = f"{summary.threads} of it at most from profkit itself"
    return [f"The machine was busy: {load}, {own}. Times are longer and less certain than on a quiet machine."]


def _spread_sentence(summary: Summary) -> str:
    spreads = [
        (row.step_ns.high / row.step_ns.low, row)
        for row in summary.rows
        if row.step_ns is not None and row.repetitions > 1 and row.step_ns.low > 0
    ]
    if not spreads:
        return ONCE
    widest, row = max(spreads, key=lambda pair: pair[0])
    return (
        f"Between repetitions the step time differed by up to {100 * (widest - 1):.0f} % ({row.variant}, "
        f"{row.framework}); the ranges in the tables are those of the repetitions."
    )


def _changed_packages(summary: Summary) -> list[str]:
    found = []
    packages = [environment.get("packages", {}) for environment in summary.environments]
    for name in dict.fromkeys(name for each in packages for name in each):
        versions = list(dict.fromkeys(str(each.get(name)) for each in packages))
        found += [f"{name} {' then '.join(versions)}"] if len(versions) > 1 else []
    return found


def _combination_verdict(summary: Summary, every: Sequence[Combination]) -> str:
    frameworks: dict[str, list[str]] = {}
    for each in every:
        frameworks.setdefault(each.verdict, []).append(each.framework)
    margin = f"{100 * (AGREES_WITHIN - 1):.0f} %"
    texts = []
    if full := frameworks.get(findings.AGREES):
        texts.append(f"The two savings multiply, or do more, to within {margin}: {_listed(full)}.")
    if unclear := frameworks.get(findings.NOT_RESOLVED):
        texts.append(f"The repetitions differ too much to show whether they multiply: {_listed(unclear)}.")
    if short := frameworks.get(findings.DIFFERS):
        shares = ", ".join(
            f"{each.framework} {percent_text(each.focus_percent)} ({percent_text(each.base_focus_percent)})"
            for each in every
            if each.framework in short
        )
        texts.append(
            f"In {_listed(short)} both together take over {margin} more than the product: the second change saves less "
            f"once the first is made; share of {summary.focus} in what is left (in the base): {shares}."
        )
    return " ".join(texts)


def _rate_sentence(summary: Summary, savings: Sequence[Saving]) -> str:
    """Said only when the time did not go down with the arithmetic."""
    slow = [each for each in savings if each.rate_kept and each.rate_kept < 1 / findings.AGREES_WITHIN]
    if not slow:
        return ""
    shown = ", ".join(f"{each.framework} {100 * (each.rate_kept or 0.0):.0f} %" for each in slow)
    return f" Its {summary.focus} reaches only a part of the flops per second that it has in the base: {shown}."


def _reasons(differing: Sequence[PublishedComparison]) -> list[str]:
    """Frameworks that differ for the same reason are named together."""
    groups: dict[str, list[PublishedComparison]] = {}
    for each in differing:
        groups.setdefault(_reason(each), []).append(each)
    return [f"{reason}: {_values(members)}" for reason, members in groups.items()]


def _reason(each: PublishedComparison) -> str:
    if each.quantity == "bytes":
        side = "above" if each.ours > each.published else "below"
        if abs(each.ours / each.predicted - 1) <= SAME_BYTES:
            return f"{side}, just as its results"
        part = "larger" if each.ours > each.predicted else "smaller"
        return f"{side} (besides its results it allocates workspace, here a {part} part than in the base)"
    if each.ours < each.published:
        if each.is_ours_closer:
            return "below, nearer to the arithmetic (the kernel keeps more of its rate than the published one)"
        return "below even the arithmetic (the kernel has a higher rate than in the base)"
    if each.is_ours_closer:
        return "above, nearer to the arithmetic (the published kernel gained more rate than this one)"
    return "above both (the kernel loses more of its rate than the published one)"


def _values(comparisons: Sequence[PublishedComparison]) -> str:
    return ", ".join(f"{each.framework} {ratio_text(each.ours)}" for each in comparisons)


def _range(values: Sequence[float]) -> str:
    texts = [ratio_text(value) for value in (min(values), max(values))]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
