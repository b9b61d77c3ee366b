"""The short answer of a study: what takes the time, what to do about it, what the variants give. A Summary in."""

from __future__ import annotations

import statistics
from collections import Counter

from profkit.rendering.quantities import percent_text, ratio_text, time_text
from profkit.rendering.studies.sentences import ONCE, busy_sentences, points_text
from profkit.rendering.studies.sweeps import sweep_answers
from profkit.studies import findings
from profkit.studies.opportunities import Opportunity, opportunities
from profkit.studies.summary import Summary

CHEAP_POINTS = 3.0
"""Up to this number of points of precision is called a small price."""
SAME_POINTS = 1.0
"""Below, variants are called equally precise."""
REMAINDER_PERCENT = 10.0
"""Time without operators is named from this share of the step on."""


def short_answers(summary: Summary) -> list[str]:
    """For a reader in a hurry."""
    if not summary.frameworks():
        return []
    once = [ONCE] if max(row.repetitions for row in summary.rows) == 1 else []
    if summary.study.sweep.axes:
        return [*busy_sentences(summary), *sweep_answers(summary), *_dominance(summary), *once]
    return [
        *busy_sentences(summary),
        *_dominance(summary),
        *_optimise(summary),
        *_remainder(summary),
        *_variants(summary),
        *_published(summary),
        *once,
    ]


def optimise_sentence(each: Opportunity) -> str:
    """One kind of layer in one framework: what it takes, what is possible, what that would give, and why."""
    share = percent_text(100 * each.time_ns / each.step_ns) if each.step_ns else "?"
    text = f"{each.kind} ({', '.join(each.layers)}) takes {time_text(each.time_ns)}, {share} of the step"
    if each.native_ns is not None:
        untuned = " (a plain reference, not tuned)" if each.is_reference else ""
        text += f"; profkit's fastest kernels{untuned} take {time_text(each.native_ns)}"
    if each.bound_ns is not None:
        text += f"; {_bound_text(each)}"
    if each.is_worth_it and each.saving_ns is not None:
        then, now = time_text(each.step_ns - each.saving_ns), time_text(each.step_ns)
        fall = f"{100 * each.saving_ns / each.step_ns:.0f} % less"
        text += f": with these kernels the step would take {then} instead of {now}, {fall}"
    elif each.saving_ns is not None:
        text += f": {_no_gain(each)}"
    parts = _parts(each)
    text += f". Of its time {parts}" if parts else ""
    return text + (f". Class {each.bottleneck}: {each.why}" if each.bottleneck else "")


def first_opportunities(summary: Summary) -> dict[str, Opportunity]:
    """By framework: what profkit's kernels would save most; when that is nothing, what is farthest from its bound."""
    found: dict[str, Opportunity] = {}
    for each in opportunities(summary):
        best = found.get(each.framework)
        if best is None or (not best.is_worth_it and _above_bound(each) > _above_bound(best)):
            found[each.framework] = each
    return found


def _no_gain(each: Opportunity) -> str:
    return "these are profkit's kernels" if each.framework == "native" else "profkit's kernels would gain nothing"


def _bound_text(each: Opportunity) -> str:
    """Of a convolution there are methods, Winograd's, whose bound is lower."""
    direct = " (direct)" if each.kind == "conv2d" else ""
    return f"the machine's bound{direct} is {time_text(each.bound_ns)}"


def _above_bound(each: Opportunity) -> float:
    return each.time_ns - each.bound_ns if each.bound_ns is not None else 0.0


def _parts(each: Opportunity) -> str:
    """What of the time is not the kernels' own work, as far as it is seen and counts."""
    named = {
        "copies, pads or allocates": each.auxiliary_ns,
        "passes in the framework's own code": each.dispatch_ns,
        "is lost to waiting threads": each.threading_loss_ns,
    }
    counting = {what: ns for what, ns in named.items() if ns and ns > 0.05 * each.time_ns}
    return ", ".join(f"{percent_text(100 * ns / each.time_ns)} {what}" for what, ns in counting.items())


def _dominance(summary: Summary) -> list[str]:
    by_kind: dict[str, list[str]] = {}
    for each in findings.dominances(summary):
        by_kind.setdefault(each.first, []).append(f"{each.framework} {percent_text(each.first_percent)}")
    parts = [f"{kind} ({', '.join(shares)})" for kind, shares in by_kind.items()]
    return [f"Most operator time of {summary.study.base!r} goes to {'; to '.join(parts)}."] if parts else []


def _optimise(summary: Summary) -> list[str]:
    sentences = []
    for name, each in first_opportunities(summary).items():
        share = percent_text(100 * each.time_ns / each.step_ns) if each.step_ns else "?"
        bound = _bound_text(each) if each.bound_ns is not None else ""
        text = f"in {name}: {each.kind}, {time_text(each.time_ns)}, {share} of the step; "
        if each.is_worth_it and each.saving_ns is not None:
            saved = f"{100 * each.saving_ns / each.step_ns:.0f} %"
            text += f"with profkit's kernels ({time_text(each.native_ns)}) the step would be {saved} shorter; {bound}"
            sentences.append(f"Optimise first {text.removesuffix('; ')}.")
        else:
            text += f"{_no_gain(each)}, {bound}"
            sentences.append(f"Farthest from the bound {text.removesuffix(', ')}.")
    return sentences


def _remainder(summary: Summary) -> list[str]:
    """Where the framework's own time outweighs what profkit's kernels would save, as far as that is known."""
    savings: dict[str, float] = {}
    for each in opportunities(summary):
        savings[each.framework] = savings.get(each.framework, 0.0) + max(each.saving_ns or 0.0, 0.0)
    found = [
        each
        for each in findings.dominances(summary)
        if each.remainder_percent >= REMAINDER_PERCENT and each.remainder_ns > savings.get(each.framework, 0.0)
    ]
    if not found:
        return []
    what = "no operator runs in this part of the step"
    if all(each.framework in savings for each in found):
        what += ", more than profkit's kernels would save in all layers"
    shares = ", ".join(f"{each.framework} {percent_text(each.remainder_percent)}" for each in found)
    return [f"Python, dispatch and the framework's own code: {what}: {shares}."]


def _variants(summary: Summary) -> list[str]:
    ratios = _shared_ratios(summary)
    if not ratios:
        return []
    middle = {name: statistics.median(values) for name, values in ratios.items()}
    costs = {cost.variant: cost for cost in findings.costs(summary)}
    best = min(middle, key=lambda name: middle[name])
    if middle[best] >= 1:
        return [f"No variant is faster than {summary.study.base!r} (median of the frameworks)."]
    where = " on synthetic data" if summary.is_synthetic else ""
    price = f", precision {points_text(costs[best])}{where}" if best in costs else ""
    low, high = ratio_text(min(ratios[best])), ratio_text(max(ratios[best]))
    widest = f", which have {low} to {high}" if low != high else ""
    part = f"{ratio_text(middle[best])} of the base's step time (median of the frameworks{widest})"
    sentences = [f"Fastest variant: {best}, {part}{price}."]
    cheap = [name for name in middle if name in costs and costs[name].points >= -CHEAP_POINTS and middle[name] < 1]
    if cheap and best in costs and best not in cheap:
        chosen = min(cheap, key=lambda name: middle[name])
        sentences.append(
            f"Fastest for at most {CHEAP_POINTS:g} points of precision: {chosen}, {ratio_text(middle[chosen])} of the "
            f"base's step time, precision {points_text(costs[chosen])}{where}."
        )
    if summary.is_synthetic and len(costs) > 1 and all(abs(cost.points) <= SAME_POINTS for cost in costs.values()):
        sentences.append(
            "All variants learn the synthetic images equally well: what one costs in precision shows on real data only "
            "(--data PATH)."
        )
    return sentences


def _shared_ratios(summary: Summary) -> dict[str, list[float]]:
    """Step ratios by variant in the frameworks that have measured all of these: medians of others do not compare."""
    ratios: dict[str, dict[str, float]] = {}
    for each in findings.savings(summary):
        ratios.setdefault(each.variant, {})[each.framework] = each.step_ratio
    shared = set.intersection(*map(set, ratios.values())) if ratios else set()
    if not shared:
        return {}
    return {name: [ratio for key, ratio in own.items() if key in shared] for name, own in ratios.items()}


def _published(summary: Summary) -> list[str]:
    every = findings.comparisons(summary)
    sentences = []
    for quantity, what in (("time", "flops"), ("bytes", "results")):
        mine = [each for each in every if each.quantity == quantity]
        if not mine:
            continue
        counts = Counter(each.verdict for each in mine)
        differing = [each for each in mine if each.verdict == findings.DIFFERS]
        text = (
            f"Published ratios of {summary.focus} {quantity} to the base: {counts[findings.AGREES]} of {len(mine)} "
            f"agree within {100 * (findings.AGREES_WITHIN - 1):.0f} %, {counts[findings.NOT_RESOLVED]} are not resolved"
        )
        if differing:
            nearer = sum(each.is_ours_closer for each in differing)
            text += f", {len(differing)} differ ({nearer} of these are nearer to the ratio of its {what})"
        sentences.append(f"{text}.")
    return sentences
