"""Tables that were not taken in turns: verdicts of white and flicker noise, of one process and of several."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from profkit.measurement.statistics.estimates import NORMAL, log_interval, middle_mean
from profkit.measurement.statistics.judging import FIRST_SAMPLES, Judgement, judge_tables, ratio_of_samples
from tests.measurement.statistics.test_estimates import flicker

TOLD = ("faster", "slower")
FLOOR = 0.015


def noisy(seed: int, centre: float, count: int, spread: float = 0.05) -> list[float]:
    """Samples around a centre."""
    values: list[float] = (centre * np.exp(np.random.default_rng(seed).normal(0.0, spread, count))).tolist()
    return values


def judge(a: list[float], b: list[float], margin: float, floor: float = 0.0) -> Judgement:
    """One row of one process each."""
    (found,) = judge_tables([([a], [b])], False, margin, floor)
    return found


@pytest.mark.parametrize(
    ("b", "word"), [(1000.0, "same"), (1300.0, "slower"), (800.0, "faster")], ids=["same", "slower", "faster"]
)
def test_differences_beyond_the_margin_are_told(b: float, word: str) -> None:
    found = judge(noisy(1, 1000.0, 60, 0.01), noisy(2, b, 60, 0.01), margin=0.02)

    assert found.verdict == word
    assert found.ratio.value == pytest.approx(1000.0 / b, rel=0.01)
    assert (found.samples_needed, found.runs_needed) == (None, None)


@pytest.mark.parametrize("count", [3, 5, 10, 30])
def test_runs_of_the_same_thing_are_rarely_called_different(count: int) -> None:
    words = [judge(noisy(seed, 1e6, count), noisy(seed + 5000, 1e6, count), 0.0).verdict for seed in range(400)]

    wrong = sum(word in TOLD for word in words)
    assert wrong <= 0.07 * 400, wrong  # 5 % are meant


def told_by_bootstrap(a: list[float], b: list[float]) -> bool:
    """As if steps were independent."""
    found = [log_interval(np.array(side), middle_mean) for side in (a, b)]
    reaches = [math.log((each.high or math.inf) / (each.low or math.inf)) / 2.0 for each in found]
    return abs(math.log(found[0].value / found[1].value)) > math.hypot(*reaches)


def false_verdicts(told: Callable[[list[float], list[float]], bool], tables: int = 150) -> float:
    """Of pairs of runs that lie apart on one machine: 5 % of white noise, and changes that take longer than a run."""
    generator = np.random.default_rng(3)
    wrong = 0
    for _ in range(tables):
        logs = 0.2 * flicker(generator, 1600) + generator.normal(0.0, 0.05, 1600)
        wrong += told(*(np.exp(math.log(1e6) + part).tolist() for part in (logs[:100], logs[900:1000])))
    return wrong / tables


def test_of_flicker_noise_few_runs_are_called_different_where_a_bootstrap_of_steps_calls_half_of_them() -> None:
    by_cosines = false_verdicts(lambda a, b: judge(a, b, 0.0, FLOOR).verdict in TOLD)

    assert by_cosines < 0.05
    assert false_verdicts(told_by_bootstrap) > 0.3


def test_a_real_change_is_told_beyond_the_flicker_noise() -> None:
    generator = np.random.default_rng(4)
    a, b = (1e6 * np.exp(0.2 * flicker(generator, 100) + generator.normal(0.0, 0.05, 100)) for _ in range(2))

    assert judge(a.tolist(), (1.5 * b).tolist(), 0.02, FLOOR).verdict == "slower"


def processes(generator: np.random.Generator, count: int, apart: float = 0.04) -> list[list[float]]:
    """Processes that differ by themselves more than their steps do."""
    return [
        (1e6 * np.exp(generator.normal(0.0, apart) + generator.normal(0.0, 0.005, 20))).tolist() for _ in range(count)
    ]


def test_several_processes_are_judged_by_how_they_differ_from_each_other() -> None:
    generator = np.random.default_rng(5)
    wrong = {1: 0, 3: 0}

    for count in wrong:
        for _ in range(200):
            (found,) = judge_tables([(processes(generator, count), processes(generator, count))], False, 0.02, 0.0)
            wrong[count] += found.verdict in TOLD

    assert wrong[1] > 0.5 * 200
    assert wrong[3] < 0.05 * 200


def test_one_process_on_one_side_is_judged_by_its_steps() -> None:
    several, one = processes(np.random.default_rng(6), 4, apart=0.01), noisy(7, 2e6, 20, 0.005)

    (found,) = judge_tables([(several, [one])], False, 0.02, 0.0)

    assert found.verdict == "slower"
    assert found.a == pytest.approx(1e6, rel=0.02)


def test_the_whole_has_half_of_the_doubt_and_the_other_rows_the_other_half() -> None:
    whole, row = ([noisy(21, 1e6, 40)], [noisy(22, 1.06e6, 40)]), ([noisy(3, 1e6, 40)], [noisy(4, 1e6, 40)])

    beside_many = judge_tables([whole, *[row] * 30], True, 0.0, 0.0)
    as_one_of_many = judge_tables([whole, *[row] * 30], False, 0.0, 0.0)

    assert beside_many[0].verdict == "slower"
    assert as_one_of_many[0].verdict == "not resolved"
    assert beside_many[0].ratio == as_one_of_many[0].ratio  # intervals are those of each row alone


def test_the_floor_of_both_sides_adds_to_the_interval() -> None:
    a, b = [1000.0] * 8, [1200.0] * 8

    found = judge(a, b, 0.02, 0.01)

    assert found.ratio.high == pytest.approx(1000 / 1200 * math.exp(NORMAL * 0.01 * math.sqrt(2.0)), rel=1e-4)


def test_too_few_or_too_noisy_samples_are_not_resolved_and_say_how_many_would_do() -> None:
    alone = judge([1000.0], [1200.0], 0.02)
    noisy_ones = judge(noisy(1, 1000.0, 8, 0.1), noisy(2, 1150.0, 8, 0.1), 0.02)
    (few,) = judge_tables([([[1000.0], [1100.0]], [[1300.0], [1400.0]])], False, 0.02, 0.0)

    assert (alone.verdict, alone.ratio.low, alone.samples_needed) == ("not resolved", None, FIRST_SAMPLES)
    assert noisy_ones.verdict == "not resolved"
    assert noisy_ones.samples_needed is not None and noisy_ones.samples_needed > 8
    assert few.verdict == "not resolved"
    assert few.runs_needed is not None and few.runs_needed > 2 and few.samples_needed is None


def test_nobody_is_asked_for_samples_without_end() -> None:
    within_the_floor = judge(noisy(1, 1000.0, 30), noisy(2, 1000.0, 30), 0.02, 0.05)
    steps = noisy(1, 1000.0, 8, 2.0)
    at_the_margin = judge(steps, [1.021 * step for step in steps], 0.02)

    assert (within_the_floor.verdict, within_the_floor.samples_needed) == ("not resolved", None)
    assert (at_the_margin.verdict, at_the_margin.samples_needed) == ("not resolved", None)


def test_one_outlier_does_not_make_a_run_slower() -> None:
    steps = noisy(3, 1000.0, 20, 0.005)

    found = judge(steps, [*noisy(4, 1000.0, 19, 0.005), 90_000.0], margin=0.02)

    assert found.verdict not in TOLD


def test_equal_numbers_and_zeros_are_no_error() -> None:
    equal = judge([5.0] * 8, [5.0] * 8, 0.02)
    nothing = judge([0.0, 0.0], [0.0, 0.0], 0.02)

    assert (equal.verdict, nothing.verdict) == ("same", "same")
    assert (equal.ratio.low, equal.ratio.high) == pytest.approx((1.0, 1.0))


def test_steps_of_one_process_have_a_ratio_without_a_floor() -> None:
    found = ratio_of_samples([110.0] * 5, [100.0] * 10)

    assert (found.value, found.low, found.high) == pytest.approx((1.1, 1.1, 1.1))
