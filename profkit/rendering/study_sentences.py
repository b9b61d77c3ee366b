"""A study's conclusions in words: findings in, sentences out. Every number in them was computed by profkit.studies."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from profkit.rendering.quantities import percent_text, ratio_text, time_text
from profkit.studies import findings
from profkit.studies.findings import Comparison, Opportunity, Saving
from profkit.studies.summary import Summary

CHEAP_POINTS = 3.0
"""So many points of precision are called a small price."""
_LIMITS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "transfer": "copies and reorders",
    "latency": "fixed costs per call",
}


def megabytes(value: float | None) -> str:
    """Bytes as published tables have them, in powers of ten: 23.59 MB."""
    if value is None:
        return "-"
    if value < 1e6:
        return f"{value / 1e3:.1f} kB" if value >= 1e3 else f"{value:.0f} B"
    return f"{value / 1e6:.2f} MB"


def short_answers(summary: Summary) -> list[str]:
    """What a reader in a hurry must know: what takes the time, what to do about it, what the variants give."""
    return [
        *_dominance_answer(summary),
        *_optimise_answers(summary),
        *_variant_answers(summary),
        *_published_answer(summary),
    ]


def dominance_sentences(summary: Summary) -> list[str]:
    """Which kind of operator takes the time, per framework."""
    sentences = []
    for each in findings.dominances(summary):
        second = f", then {each.second} ({percent_text(each.second_percent)})" if each.second else ""
        sentences.append(
            f"{each.framework}: {each.first} takes {percent_text(each.first_percent)} of all operators' time "
            f"({time_text(each.first_ns)} a step){second}; {percent_text(each.remainder_percent)} of the step is no "
            "operator at all (dispatch, framework, idle)"
        )
    return sentences


def optimise_sentence(each: Opportunity) -> str:
    """One kind of layer in one framework: what it takes, what is possible, what that would give, and what holds it."""
    share = percent_text(100 * each.time_ns / each.step_ns)
    text = f"{each.kind} ({', '.join(each.layers)}) takes {time_text(each.time_ns)}, {share} of the step"
    if each.native_ns is not None:
        text += f"; profkit's fastest kernels take {time_text(each.native_ns)}"
    if each.bound_ns is not None:
        text += f", the machine's bound is {time_text(each.bound_ns)}"
    if each.saving_ns is not None and each.saving_ns > 0:
        left = each.step_ns - each.saving_ns
        text += f": the step would take {time_text(left)} instead of {time_text(each.step_ns)} ({_minus(left, each.step_ns)})"
    elif each.saving_ns is not None:
        text += ": faster than profkit's kernels already"
    return text + (
        f"; limited by {_LIMITS.get(each.bottleneck, each.bottleneck)}: {each.why}" if each.bottleneck else ""
    )


def _dominance_answer(summary: Summary) -> list[str]:
    by_kind: dict[str, list[str]] = {}
    for each in findings.dominances(summary):
        by_kind.setdefault(each.first, []).append(f"{each.framework} {percent_text(each.first_percent)}")
    parts = [f"{kind} ({', '.join(shares)})" for kind, shares in by_kind.items()]
    name = summary.study.base
    return [f"Most operator time of {name!r} goes to {'; to '.join(parts)} of all operators."] if parts else []


def _optimise_answers(summary: Summary) -> list[str]:
    """The kind of layer that saves most, per framework."""
    first: dict[str, Opportunity] = {}
    for each in findings.opportunities(summary):
        first.setdefault(each.framework, each)
    return [
        f"Optimise first in {name}: {optimise_sentence(each)}."
        for name, each in first.items()
        if each.saving_ns is None or each.saving_ns > 0.02 * each.step_ns
    ]


def _variant_answers(summary: Summary) -> list[str]:
    every = findings.savings(summary)
    if not every:
        return []
    names = list(dict.fromkeys(each.variant for each in every))
    middle = {name: statistics.median(each.step_ratio for each in every if each.variant == name) for name in names}
    costs = {cost.variant: cost.points for cost in findings.costs(summary)}
    best = min(middle, key=lambda name: middle[name])
    sentences = [
        f"Fastest variant: {best}, {ratio_text(middle[best])} of the base's step time (median of the frameworks)"
    ]
    sentences[0] += f", precision {costs[best]:+.1f} points." if best in costs else "."
    cheap = [name for name in names if costs.get(name, -math.inf) >= -CHEAP_POINTS]
    if cheap and costs.get(best, -math.inf) < -CHEAP_POINTS:
        chosen = min(cheap, key=lambda name: middle[name])
        sentences.append(
            f"For at most {CHEAP_POINTS:g} points of precision: {chosen}, {ratio_text(middle[chosen])} of the base's step "
            f"time, precision {costs[chosen]:+.1f} points."
        )
    return sentences


def _published_answer(summary: Summary) -> list[str]:
    every = findings.comparisons(summary)
    sentences = []
    for quantity in ("time", "bytes"):
        mine = [each for each in every if each.quantity == quantity]
        if mine:
            agreeing = sum(each.agrees for each in mine)
            nearer = sum(each.is_ours_closer for each in mine if not each.agrees)
            what = "flops" if quantity == "time" else "results"
            sentences.append(
                f"Published ratios of {summary.focus} {quantity} to the base: {agreeing} of {len(mine)} agree within "
                f"{100 * (findings.AGREES_WITHIN - 1):.0f} %; of the others {nearer} of {len(mine) - agreeing} are nearer "
                f"to the ratio of {what} than the published one."
            )
    return sentences


def _minus(value: float, whole: float) -> str:
    return f"-{100 * (1 - value / whole):.0f} %"


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
        focus = [each.focus_ratio for each in mine if each.focus_ratio]
        if focus:
            text += f", {summary.focus} {_range(focus)} (its flops: {ratio_text(mine[0].flops_ratio)})"
        sizes = [each.bytes_ratio for each in mine if each.bytes_ratio]
        text += f", its bytes {_range(sizes)}" if sizes else ""
        if facts.name in costs:
            cost = costs[facts.name]
            text += f"; precision {cost.points:+.1f} points"
            if cost.published_points is not None:
                text += f" (published {cost.published_points:+.1f})"
        text += _rate_clause(summary, mine)
        sentences.append(text)
    return sentences


def combination_sentences(summary: Summary) -> list[str]:
    """Whether combined changes do what the single ones promise."""
    every = findings.combinations(summary)
    sentences = []
    for name in dict.fromkeys(each.variant for each in every):
        mine = [each for each in every if each.variant == name]
        one, other = mine[0].parts
        shown = ", ".join(f"{each.framework} {ratio_text(each.measured)} ({ratio_text(each.product)})" for each in mine)
        short = [each.framework for each in mine if each.measured > each.product * findings.AGREES_WITHIN]
        verdict = (
            f"in {_listed(short)} the second change saves less once the first is made: what is left is not {summary.focus}"
            if short
            else "the two savings multiply"
        )
        sentences.append(
            f"{one} and {other} together: step time against the base, in brackets the product of both alone: {shown}; {verdict}"
        )
    return sentences


def comparison_sentences(summary: Summary) -> list[str]:
    """Where ratios agree with the published ones, and where not and why, per variant and quantity."""
    every = findings.comparisons(summary)
    sentences = []
    for variant, quantity in dict.fromkeys((each.variant, each.quantity) for each in every):
        mine = [each for each in every if (each.variant, each.quantity) == (variant, quantity)]
        published, predicted = mine[0].published, mine[0].predicted
        word = "time" if quantity == "time" else "bytes"
        what = "flops" if quantity == "time" else "results"
        text = (
            f"{variant}, {summary.focus} {word}: published {ratio_text(published)} of the base, "
            f"its {what} {ratio_text(predicted)}; "
        )
        agreeing = [each for each in mine if each.agrees]
        differing = [each for each in mine if not each.agrees]
        parts = []
        if agreeing:
            parts.append(f"agrees: {', '.join(f'{each.framework} {ratio_text(each.ours)}' for each in agreeing)}")
        parts += _reasons(differing)
        sentences.append(text + "; ".join(parts))
    return sentences


def open_sentences(summary: Summary) -> list[str]:
    """What the published figures leave open, and what can be said about it."""
    sentences = []
    for each in findings.unexplained(summary):
        what = "arithmetic" if each.quantity == "time" else "size of its results"
        ours = f"; here it is {ratio_text(each.ours)} (median of the frameworks)" if each.ours is not None else ""
        rate = each.predicted / each.published
        reason = ""
        if each.quantity == "time":
            verdict = "lost" if rate < 1 else "gained"
            reason = f": its kernel {verdict} {abs(1 - rate) * 100:.0f} % of its flops per second with this shape"
        sentences.append(
            f"{each.variant}: the published {summary.focus} {each.quantity} is {ratio_text(each.published)} of the base, "
            f"the {what} alone would give {ratio_text(each.predicted)}{reason}{ours}"
        )
    sizes = findings.published_bytes(summary)
    exact = [each.variant for each in sizes if abs(each.published - each.outputs) <= 0.005 * each.outputs]
    if exact:
        sentences.append(
            f"the published bytes of {_listed(exact)} are the results of {summary.focus} to within 0.5 %: what tfprof "
            "calls requested bytes is the output, and the batch and crop assumed here are right"
        )
    more = [each for each in sizes if each.published > 1.005 * each.outputs]
    if more:
        shown = ", ".join(f"{each.variant} {megabytes(each.published - each.outputs)}" for each in more)
        sentences.append(f"beyond its results, published {summary.focus} asked for workspace: {shown}")
    return sentences


def recording_sentence(summary: Summary) -> str:
    """What recording cost."""
    shown = ", ".join(f"{each.framework} {ratio_text(each.ratio)}" for each in findings.recordings(summary))
    return f"Recorded steps against unrecorded ones in the base: {shown}." if shown else ""


def _rate_clause(summary: Summary, savings: Sequence[Saving]) -> str:
    """Said only when the time did not go down with the arithmetic."""
    kept = [each.rate_kept for each in savings if each.rate_kept]
    if not kept or min(kept) > 1 / findings.AGREES_WITHIN:
        return ""
    return f"; {summary.focus} keeps {_range([100 * each for each in kept], whole=True)} % of its flops per second"


def _reasons(differing: Sequence[Comparison]) -> list[str]:
    """Frameworks that differ for the same reason are named together."""
    groups: dict[str, list[Comparison]] = {}
    for each in differing:
        if each.quantity == "bytes":
            reason = "asks for more than its results" if each.ours > each.published else "asks for less"
        elif each.ours < each.published:
            reason = (
                "follows the arithmetic more closely than the published kernel"
                if each.is_ours_closer
                else "falls even below the arithmetic: its base is slow for this operator"
            )
        else:
            reason = (
                "stays above the published one, nearer to the arithmetic"
                if each.is_ours_closer
                else "stays above both: fixed costs and a lower rate at this size"
            )
        groups.setdefault(reason, []).append(each)
    return [
        f"differs: {', '.join(f'{each.framework} {ratio_text(each.ours)}' for each in members)} ({reason})"
        for reason, members in groups.items()
    ]


def _range(values: Sequence[float], whole: bool = False) -> str:
    texts = [f"{value:.0f}" if whole else ratio_text(value) for value in (min(values), max(values))]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
