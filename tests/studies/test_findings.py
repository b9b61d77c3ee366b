"""Conclusions from numbers made by hand: each one can be checked in the head."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from profkit.studies import findings
from profkit.studies.opportunities import opportunities
from profkit.studies.summary import RepetitionRange, Summary, TrainingResult, summarise
from tests.studies.builders import PUBLISHED, TEXT, cell_of, gap_of, small_study

COMBINED = TEXT + '"half" = { filters = 4 }\n"both" = { stride = 2, filters = 4 }\n' + PUBLISHED


def summary_of(*cells: object, text: str = COMBINED, learned: dict[str, TrainingResult] | None = None) -> Summary:
    return summarise(small_study(text), list(cells), [], learned or {})  # type: ignore[arg-type]


def learned(precision: float, steps: int = 10) -> TrainingResult:
    return TrainingResult("ok", steps=steps, precision_percent=precision, tested=100)


def test_the_kind_with_most_time_dominates_and_the_remainder_is_told() -> None:
    summary = summary_of(cell_of("base", conv2d=60, lrn=30))

    (found,) = findings.dominances(summary)

    assert (found.first, found.second) == ("conv2d", "lrn")
    assert found.first_percent == pytest.approx(100 * 60 / 90)
    assert (found.remainder_ns, found.remainder_percent) == (10, 10)


def test_a_variant_whose_time_does_not_follow_its_flops_keeps_less_of_its_rate() -> None:
    summary = summary_of(cell_of("base", conv2d=100), cell_of("stride 2", conv2d=50))
    flops_ratio = summary.facts("stride 2").focus_flops / summary.base.focus_flops

    (found,) = findings.savings(summary)

    assert found.focus_ratio == 0.5
    assert found.flops_ratio == flops_ratio < 0.2
    assert found.rate_kept == pytest.approx(flops_ratio / 0.5)
    assert found.step_ratio == pytest.approx(60 / 110)


def test_precision_is_compared_only_after_equally_many_steps() -> None:
    same = summary_of(learned={"base": learned(80), "stride 2": learned(75)})
    other = summary_of(learned={"base": learned(80), "stride 2": learned(75, steps=9)})

    (cost,) = findings.costs(same)

    assert (cost.variant, cost.points, cost.published_points) == ("stride 2", -5, -6)
    assert cost.margin_points == pytest.approx(1.96 * math.sqrt(80 * 20 / 100 + 75 * 25 / 100))
    assert not findings.costs(other)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ((25, 26), findings.AGREES),
        ((60, 70), findings.DIFFERS),
        ((5, 10), findings.DIFFERS),
        ((25, 60), findings.NOT_RESOLVED),
        ((5, 95), findings.NOT_RESOLVED),  # none of them agrees, but what they enclose does
    ],
)
def test_a_ratio_beside_the_published_one_agrees_differs_or_is_not_resolved(
    times: tuple[float, float], verdict: str
) -> None:
    cells = [cell_of("base", number, conv2d=100) for number in (1, 2)]
    cells += [cell_of("stride 2", number, conv2d=time) for number, time in enumerate(times, start=1)]

    found = {each.quantity: each for each in findings.comparisons(summary_of(*cells))}

    assert found["time"].published == 0.25
    assert found["time"].verdict == verdict


def test_a_comparison_knows_whether_ours_is_nearer_to_the_arithmetic() -> None:
    near = findings.PublishedComparison("v", "f", "time", 0.15, 0.15, 0.15, 0.3, 0.14)
    far = findings.PublishedComparison("v", "f", "time", 0.9, 0.9, 0.9, 0.3, 0.14)

    assert near.is_ours_closer
    assert not far.is_ours_closer


def test_combined_changes_are_found_by_their_parameters_and_compared_with_the_product() -> None:
    summary = summary_of(
        cell_of("base", conv2d=90),
        cell_of("stride 2", conv2d=40),
        cell_of("half", conv2d=40),
        cell_of("both", conv2d=40),
    )

    (found,) = findings.combinations(summary)

    assert (found.variant, found.parts) == ("both", ("stride 2", "half"))
    assert found.product.median == pytest.approx(0.25)
    assert found.measured.median == 0.5
    assert found.verdict == findings.DIFFERS


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (RepetitionRange(0.25, 0.2, 0.28), findings.AGREES),
        (RepetitionRange(0.1, 0.1, 0.1), findings.AGREES),
        (RepetitionRange(0.5, 0.3, 0.6), findings.NOT_RESOLVED),
        (RepetitionRange(0.5, 0.4, 0.6), findings.DIFFERS),
    ],
)
def test_whether_savings_multiply_is_told_only_if_all_repetitions_say_so(
    measured: RepetitionRange, verdict: str
) -> None:
    found = findings.Combination("both", ("a", "b"), "f", RepetitionRange(0.25, 0.24, 0.26), measured, None, None)

    assert found.verdict == verdict


def test_published_ratios_that_formulas_do_not_predict_are_named_with_ours() -> None:
    summary = summary_of(cell_of("base", conv2d=100), cell_of("stride 2", conv2d=30))

    found = {each.quantity: each for each in findings.unexplained(summary)}

    assert found["time"].published == 0.25
    assert found["time"].predicted == summary.facts("stride 2").focus_flops / summary.base.focus_flops
    assert found["time"].ours == 0.3


def test_published_bytes_stand_beside_the_size_of_the_results() -> None:
    found = {each.variant: each for each in findings.published_bytes(summary_of())}

    assert found["base"].published == 100
    assert found["base"].outputs == 4 * 4 * 8 * (24 * 24 + 12 * 12)


def test_what_saves_most_comes_first_and_untuned_kernels_are_marked() -> None:
    gaps = (
        gap_of("conv1", "conv2d", 40, 30, 10),
        gap_of("conv2", "conv2d", 20, 15, 10),
        gap_of("norm1", "lrn", 35, 5, 1, key="reference"),
    )
    summary = summary_of(replace(cell_of("base", conv2d=60, lrn=35), gaps=gaps))

    first, second = opportunities(summary)

    assert (first.kind, first.saving_ns, first.is_reference) == ("lrn", 30, True)
    assert (second.kind, second.layers, second.time_ns, second.native_ns) == ("conv2d", ("conv1", "conv2"), 60, 45)
    assert second.saving_ns == 15 and second.is_worth_it
    assert first.step_ns == 105


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    gaps = (gap_of("conv1", "conv2d", 40, 30, 10), replace(gap_of("conv2", "conv2d", 20, 15, 10), native_ns=None))
    summary = summary_of(replace(cell_of("base", conv2d=60), gaps=gaps))

    (found,) = opportunities(summary)

    assert found.native_ns is None
    assert found.bound_ns == 20
