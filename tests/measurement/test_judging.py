"""Two runs judged by their samples: verdicts, how often chance makes one, and how many more samples are asked for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from profkit.measurement.judging import drift, judge, judge_runs, samples_needed
from profkit.measurement.statistics import Estimate


def noisy(seed: int, centre: float, count: int, spread: float = 0.05) -> list[float]:
    """Samples around a centre."""
    values: list[float] = (centre * np.exp(np.random.default_rng(seed).normal(0.0, spread, count))).tolist()
    return values


@pytest.mark.parametrize(
    ("b", "word"), [(1000.0, "same"), (1300.0, "slower"), (800.0, "faster")], ids=["same", "slower", "faster"]
)
def test_differences_beyond_the_margin_are_told(b: float, word: str) -> None:
    found = judge(noisy(1, 1000.0, 60, 0.01), noisy(2, b, 60, 0.01), margin=0.02)

    assert found.verdict == word
    assert found.ratio.value == pytest.approx(1000.0 / b, rel=0.01)
    assert found.samples_needed is None


@pytest.mark.parametrize("count", [3, 5, 10, 30])
def test_runs_of_the_same_thing_are_rarely_called_different(count: int) -> None:
    words = [judge(noisy(seed, 1e6, count), noisy(seed + 5000, 1e6, count), 0.0).verdict for seed in range(400)]

    wrong = sum(word in ("faster", "slower") for word in words)
    assert wrong <= 0.09 * 400, wrong  # 5 % are meant


def test_too_few_or_too_noisy_samples_are_not_resolved_and_say_how_many_would_do() -> None:
    alone = judge([1000.0], [1200.0], 0.02)
    noisy_ones = judge(noisy(1, 1000.0, 8, 0.2), noisy(2, 1100.0, 8, 0.2), 0.02)

    assert (alone.verdict, alone.ratio.low, alone.samples_needed) == ("not resolved", None, 12)
    assert noisy_ones.verdict == "not resolved"
    assert noisy_ones.samples_needed is not None and noisy_ones.samples_needed > 8


def test_so_many_samples_are_asked_for_that_the_interval_fits() -> None:
    # Half-width 0.10, distance to the margin 0.05: a quarter of the variance, hence four times the samples.
    centre = math.log1p(0.02) + 0.05
    ratio = Estimate(math.exp(centre), math.exp(centre - 0.10), math.exp(centre + 0.10))

    assert samples_needed(ratio, 10, 0.02) == pytest.approx(1.2 * 40, abs=1)


def test_nobody_is_asked_for_samples_without_end() -> None:
    hopeless = Estimate(1.0, math.exp(-1.0), math.exp(1.0))
    without_margin = Estimate(1.0, 0.99, 1.01)

    assert samples_needed(hopeless, 10, 0.02) is None
    assert samples_needed(without_margin, 10, 0.0) is None


def test_one_outlier_does_not_make_a_run_slower() -> None:
    steps = noisy(3, 1000.0, 20, 0.005)

    found = judge(steps, [*noisy(4, 1000.0, 19, 0.005), 90_000.0], margin=0.02)

    assert found.verdict == "same"


def test_equal_numbers_and_zeros_are_no_error() -> None:
    equal = judge([5.0] * 8, [5.0] * 8, 0.02)
    nothing = judge([0.0, 0.0], [0.0, 0.0], 0.02)

    assert (equal.verdict, equal.ratio.low, equal.ratio.high) == ("same", 1.0, 1.0)
    assert nothing.verdict == "same"


def in_phases(seed: int, centre: float, count: int = 30) -> list[float]:
    """Samples of a machine whose speed wanders: neighbours in time are alike."""
    shocks = np.random.default_rng(seed).normal(0.0, 0.02, count + 50)
    level, levels = 0.0, []
    for shock in shocks:
        level = 0.9 * level + float(shock)
        levels.append(centre * math.exp(level))
    return levels[50:]


def test_runs_of_a_machine_that_wanders_are_called_different_half_as_often_as_without_its_drift() -> None:
    pairs = [(in_phases(seed, 1e6), in_phases(seed + 5000, 1e6)) for seed in range(300)]

    plain, with_drift = (
        sum(judged(a, b, 0.02).verdict in ("faster", "slower") for a, b in pairs) for judged in (judge, judge_runs)
    )

    assert plain > 100  # what the interval alone would claim
    assert with_drift < plain / 2


def test_a_real_change_is_told_beyond_the_drift() -> None:
    found = judge_runs(in_phases(1, 1e6), in_phases(2, 1.5e6), 0.02)

    assert found.verdict == "slower"


def test_the_interval_is_wider_by_what_a_run_differs_from_itself() -> None:
    steady, stepped = [100.0, 101.0] * 5, [100.0, 101.0, 100.0, 101.0, 110.0, 111.1, 110.0, 111.1]

    plain, found = judge(steady, stepped, 0.02).ratio, judge_runs(steady, stepped, 0.02).ratio

    assert drift(stepped) == pytest.approx(math.log(1.1))
    assert (drift(steady[:8]), drift([1.0, 9.0, 5.0])) == (0.0, 0.0)
    assert plain.low is not None and plain.high is not None
    for plain_end, end in ((plain.low, found.low), (plain.high, found.high)):
        assert end is not None
        assert math.log(end / found.value) ** 2 == pytest.approx(
            math.log(plain_end / plain.value) ** 2 + math.log(1.1) ** 2
        )
