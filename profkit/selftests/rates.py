"""Judging measured peaks and rates: two measurements of one peak, and a rate against it.

Only what no machine could do is wrong. What others who used the machine meanwhile may explain is not proven.
"""

from __future__ import annotations

from profkit.rendering.quantities import rate_text
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, Finding

ALIKE = 1.25
"""Two measurements of one peak differ by less where nothing disturbs them."""
ABOVE = 1.1
"""A rate may be above a peak by so much: both are measured, and clocks vary."""
EXPLAINED = 3.0
"""Beyond this no excuse explains it."""


def judge_peak(name: str, unit: str, measured: list[float], excuse: str = "") -> Finding:
    """Several measurements of one peak; `excuse`: why they may be too low."""
    numbers = {"measured": measured}
    shown = " and ".join(rate_text(value, unit) for value in measured)
    if not all(0.0 < value < float("inf") for value in measured):
        return Finding(name, WRONG, f"no rate: {shown}", numbers)
    text = f"measured twice: {shown}"
    if not excuse and max(measured) > ALIKE * min(measured):
        excuse = "they differ by more than noise"
    if excuse:
        return Finding(name, NOT_PROVEN, f"{text}; {excuse}", numbers)
    return Finding(name, PROVEN, text, numbers)


def judge_rate(name: str, unit: str, rate: float, peak: float, of_what: str, excuse: str = "") -> Finding:
    """What a kernel reaches cannot be above what the machine can do; `excuse`: why the peak may be too low."""
    numbers = {"rate": rate, "peak": peak}
    share = f"{100 * rate / peak:.3g} %" if peak > 0.0 else "more"
    text = f"{of_what} reaches {rate_text(rate, unit)}, {share} of the peak {rate_text(peak, unit)}"
    if rate <= ABOVE * peak:
        return Finding(name, PROVEN, text, numbers)
    if excuse and rate <= EXPLAINED * peak:
        return Finding(name, NOT_PROVEN, f"{text}; {excuse}", numbers)
    return Finding(name, WRONG, f"{text}: impossible", numbers)
