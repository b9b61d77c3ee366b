"""Intervals and verdicts on invented numbers."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.measurement.statistics import (
    Estimate,
    log_interval,
    median_of,
    middle_mean,
    ratio_estimate,
    round_medians,
    student_t,
    time_estimate,
    verdict,
)


def test_the_middle_mean_ignores_a_quarter_of_outliers_on_each_side() -> None:
    values = np.array([1000.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, -1000.0])

    centre = float(middle_mean(values))

    assert centre == 2.0


def test_the_interval_covers_the_truth_about_as_often_as_it_claims() -> None:
    generator = np.random.default_rng(7)
    hits = {6: 0, 12: 0, 30: 0}

    for count in hits:
        for _ in range(400):
            interval = log_interval(np.exp(generator.normal(0.0, 0.05, count)), middle_mean)
            assert interval.low is not None and interval.high is not None
            hits[count] += interval.low <= 1.0 <= interval.high

    assert all(0.90 <= hit / 400 <= 0.995 for hit in hits.values()), hits


def test_fewer_than_six_values_use_students_t_and_one_gives_no_interval() -> None:
    logs = np.log([1.0, 1.1, 1.2])

    three = log_interval(np.exp(logs), median_of)
    one = log_interval(np.array([2.0]), median_of)

    reach = 4.303 * np.std(logs, ddof=1) / np.sqrt(3)
    assert three.high == pytest.approx(1.1 * np.exp(reach))
    assert (one.value, one.low, one.high) == (2.0, None, None)


def test_noise_that_hits_a_whole_round_cancels_in_the_paired_ratio() -> None:
    generator = np.random.default_rng(3)
    noise = np.exp(generator.normal(0.0, 0.5, 20))
    baseline = {i: 10.0 * noise[i] for i in range(20)}
    other = {i: 5.0 * noise[i] for i in range(20)}

    ratio = ratio_estimate(baseline, other)

    assert ratio is not None and ratio.value == pytest.approx(2.0)
    assert ratio.half_width < 1e-9


def test_rounds_that_only_one_side_has_do_not_count() -> None:
    ratio = ratio_estimate({0: 1.0, 1: 2.0, 2: 3.0}, {1: 1.0, 2: 1.5, 9: 100.0})

    assert ratio is not None and ratio.value == pytest.approx(2.0)
    assert ratio_estimate({0: 1.0}, {1: 1.0}) is None


def test_round_medians_group_samples_by_round() -> None:
    assert round_medians([1.0, 3.0, 2.0, 8.0], [0, 0, 0, 4]) == {0: 2.0, 4: 8.0}


def test_the_time_interval_contains_the_median() -> None:
    generator = np.random.default_rng(1)
    samples = list(np.exp(generator.normal(0.0, 0.3, 60)))

    estimate = time_estimate(samples, [i // 5 for i in range(60)])

    assert estimate.low is not None and estimate.high is not None
    assert estimate.low <= float(np.median(samples)) <= estimate.high


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.03, 1.05, "faster"),
        (0.90, 0.97, "slower"),
        (0.99, 1.01, "same"),
        (1.005, 1.015, "same"),
        (0.97, 1.03, "not resolved"),
        (1.01, 1.04, "not resolved"),
        (None, None, "not resolved"),
    ],
)
def test_verdicts_follow_from_the_interval_and_the_margin(low: float, high: float, expected: str) -> None:
    assert verdict(Estimate(1.0, low, high), margin=0.02) == expected


def test_students_t_falls_towards_the_normal_quantile() -> None:
    quantiles = [student_t(degrees) for degrees in (1, 2, 5, 30, 31, 1000)]

    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[-1] == pytest.approx(1.96, abs=0.01)
