"""Intervals and verdicts on invented numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from profkit.measurement.statistics.estimates import (
    NORMAL,
    Centre,
    Estimate,
    Floats,
    centre_of,
    least_difference,
    log_interval,
    long_run_error,
    median_of,
    middle_mean,
    ratio_centre,
    round_medians,
    time_centre,
    times_longer,
    verdict,
    verdicts,
)
from profkit.measurement.statistics.student import DOUBT, MOST_DEGREES, share_within, student_t


def flicker(generator: np.random.Generator, count: int) -> Floats:
    """Noise whose power grows as 1 / frequency."""
    spectrum = generator.normal(size=count) + 1j * generator.normal(size=count)
    spectrum[0] = 0.0
    spectrum[1:] /= np.sqrt(np.minimum(np.arange(1, count), np.arange(count - 1, 0, -1)))
    values: Floats = np.fft.ifft(spectrum).real * np.sqrt(count)
    return values


def coverage(runs: Sequence[Floats], truth: float) -> float:
    """Share of runs whose interval holds the truth."""
    found = [by_cosines(run) for run in runs]
    return float(np.mean([abs(centre - truth) <= reach for centre, reach in found]))


def by_cosines(logs: Floats) -> tuple[float, float]:
    centre = centre_of([logs])
    assert centre is not None and centre.reach is not None
    return centre.log, centre.reach


def by_bootstrap(logs: Floats) -> tuple[float, float]:
    found = log_interval(np.exp(logs), middle_mean)
    assert found.low is not None and found.high is not None
    return float(np.log(found.value)), float(np.log(found.high / found.low)) / 2.0


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
    assert three.high == pytest.approx(1.1 * np.exp(reach), rel=1e-4)
    assert (one.value, one.low, one.high) == (2.0, None, None)


@pytest.mark.parametrize("count", [2, 3, 5, 12, 36, 350])
def test_intervals_of_white_noise_hold_the_truth_as_often_as_they_claim(count: int) -> None:
    generator = np.random.default_rng(5)

    share = coverage([generator.normal(0.1, 0.05, count) for _ in range(600)], 0.1)

    assert 0.92 <= share <= 0.985


@pytest.mark.parametrize(
    ("white", "floor", "least"),
    [
        (0.05, 0.005, 0.78),  # as recorded: 5 % per round, 0.7 % between runs; 83 % is sound
        (0.0, 0.0, 0.45),  # a limit of the estimator: flicker noise alone, and no floor
    ],
)
def test_intervals_of_flicker_noise_hold_other_runs_where_a_bootstrap_of_rounds_does_not(
    white: float, floor: float, least: float
) -> None:
    generator = np.random.default_rng(6)
    count, runs = 16, 256
    series = [
        np.split(0.2 * flicker(generator, count * runs) + white * generator.normal(size=count * runs), count)
        for _ in range(10)
    ]

    cosines, bootstrap = held_by_others(series, by_cosines, floor), held_by_others(series, by_bootstrap, 0.0)

    assert cosines >= least
    assert bootstrap <= 0.5 and cosines > 1.5 * bootstrap


def held_by_others(
    series: Sequence[Sequence[Floats]], interval: Callable[[Floats], tuple[float, float]], floor: float
) -> float:
    """How often the interval of a run holds the centre of another run of the same series."""
    hits = []
    for runs in series:
        found = [interval(run) for run in runs]
        hits += [
            abs(other - centre) <= np.hypot(reach, NORMAL * floor)
            for i, (centre, reach) in enumerate(found)
            for j, (other, _) in enumerate(found)
            if i != j
        ]
    return float(np.mean(hits))


def test_drift_widens_the_interval() -> None:
    generator = np.random.default_rng(8)
    white = generator.normal(0.0, 0.01, 200)

    steady, _ = long_run_error(white)
    drifting, _ = long_run_error(white + np.linspace(0.0, 0.05, 200))

    assert drifting > 5.0 * steady


def test_of_few_values_the_error_is_the_usual_one() -> None:
    logs = np.array([0.1, 0.3, 0.2, 0.6])

    error, degrees = long_run_error(logs)

    assert error == pytest.approx(np.std(logs, ddof=1) / 2.0)
    assert degrees == 3


def test_several_runs_count_as_one_value_each() -> None:
    runs = [np.full(50, 0.10), np.full(50, 0.12), np.full(7, 0.14)]

    centre = centre_of(runs)

    assert centre is not None and centre.log == pytest.approx(0.12)
    assert centre.reach == pytest.approx(4.303 * 0.02 / np.sqrt(3.0), rel=1e-3)
    assert centre_of([runs[0], np.array([])]) == centre_of(runs[:1])
    assert centre_of([np.array([])]) is None


def test_one_value_has_no_interval_and_the_floor_gives_it_none() -> None:
    centre = centre_of([np.array([0.7])])

    assert centre is not None and centre.reach is None
    assert (centre.estimate(0.005).low, centre.estimate(0.005).high) == (None, None)


def test_the_floor_adds_in_quadrature() -> None:
    found = Centre(0.0, 0.03 / student_t(7), 7).estimate(0.04 / NORMAL)

    assert found.low == pytest.approx(np.exp(-0.05), rel=1e-5)
    assert found.high == pytest.approx(np.exp(0.05), rel=1e-5)


def test_noise_that_hits_a_whole_round_cancels_in_the_paired_ratio() -> None:
    generator = np.random.default_rng(3)
    noise = np.exp(generator.normal(0.0, 0.5, 20))

    ratio = ratio_centre({i: 10.0 * noise[i] for i in range(20)}, {i: 5.0 * noise[i] for i in range(20)})

    assert ratio is not None and np.exp(ratio.log) == pytest.approx(2.0)
    assert ratio.reach == pytest.approx(0.0, abs=1e-9)


def test_rounds_that_only_one_side_has_do_not_count() -> None:
    ratio = ratio_centre({0: 1.0, 1: 2.0, 2: 3.0}, {1: 1.0, 2: 1.5, 9: 100.0})

    assert ratio is not None and np.exp(ratio.log) == pytest.approx(2.0)
    assert ratio_centre({0: 1.0}, {1: 1.0}) is None


def test_rounds_belong_to_the_run_that_began_last() -> None:
    times = {index: 2.0 if index < 5 else 8.0 for index in range(10)}

    centre = time_centre(times, [0, 5])

    assert centre is not None and np.exp(centre.log) == pytest.approx(4.0)
    assert centre.reach == pytest.approx(student_t(1) * np.log(4.0) / 2.0)


def test_round_medians_group_samples_by_round_in_order_of_time() -> None:
    assert list(round_medians([8.0, 1.0, 3.0, 2.0], [4, 0, 0, 0]).items()) == [(0, 2.0), (4, 8.0)]


def test_the_least_difference_is_one_whose_verdict_would_just_be_resolved() -> None:
    least = least_difference(Estimate(0.5, 0.49, 0.51), margin=0.02)

    assert least is not None
    assert [
        verdict(Estimate(1 + each, (1 + each) * 0.5 / 0.51, 2 * (1 + each)), 0.02)
        for each in (least + 1e-6, least - 1e-6)
    ] == ["faster", "not resolved"]
    assert least_difference(Estimate(1.0, None, None), 0.02) is None


def test_a_longer_run_helps_only_above_the_floor() -> None:
    far, near = (Centre(np.log(value), 0.05 / student_t(4), 4) for value in (1.06, 1.021))

    assert times_longer(far, 0.005, 0.02) == pytest.approx(
        1.2 * 0.05**2 / (np.log(1.06 / 1.02) ** 2 - 0.0098**2), rel=1e-3
    )
    assert times_longer(near, 0.005, 0.02) is None
    assert times_longer(Centre(0.0, None), 0.005, 0.02) is None


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
    quantiles = [student_t(degrees) for degrees in (1, 2, 5, 30, 31, 1000, MOST_DEGREES + 1)]

    assert quantiles == sorted(quantiles, reverse=True)
    assert quantiles[-1] == pytest.approx(1.96, abs=0.001)


@pytest.mark.parametrize(
    ("degrees", "doubt", "quantile"),
    [(1, 0.05, 12.706), (2, 0.05, 4.303), (3, 0.01, 5.841), (4, 0.01, 4.604), (7, 0.002, 4.785), (30, 0.001, 3.646)],
)
def test_students_t_is_that_of_the_tables(degrees: int, doubt: float, quantile: float) -> None:
    assert student_t(degrees, doubt) == pytest.approx(quantile, abs=6e-4)
    assert share_within(student_t(degrees, doubt), degrees) == pytest.approx(1.0 - doubt)


def test_a_ratio_of_two_centres_has_the_errors_of_both_and_welchs_degrees() -> None:
    a, b = Centre(0.5, 0.03, 4), Centre(0.2, 0.04, 2)

    found = a.over(b)

    assert found.log == pytest.approx(0.3)
    assert found.error == pytest.approx(0.05)
    assert found.degrees == int(0.05**4 / (0.03**4 / 4 + 0.04**4 / 2))
    assert a.over(Centre(0.2, None)).error is None
    assert Centre(0.5, 0.0, 4).over(Centre(0.5, 0.0, 2)) == Centre(0.0, 0.0, 6)


def test_one_row_has_the_verdict_of_its_interval() -> None:
    for log, word in ((0.1, "faster"), (-0.1, "slower"), (0.0, "same"), (0.03, "not resolved")):
        ratio = Centre(log, 0.005, 4)

        assert verdicts([ratio], 0.001, 0.02) == [word] == [verdict(ratio.estimate(0.001), 0.02)]


def test_rows_are_corrected_for_their_number_and_clear_ones_leave_the_others_more() -> None:
    weak, clear, nothing = Centre(0.045, 0.01, 20), Centre(0.9, 0.01, 20), Centre(0.0, 0.01, 20)

    alone = verdicts([weak], 0.0, 0.02)
    beside_nothing = verdicts([weak, *[nothing] * 3], 0.0, 0.02)
    beside_clear = verdicts([weak, *[clear] * 3], 0.0, 0.02)
    unknown = verdicts([weak, *[Centre(0.9, None)] * 3], 0.0, 0.02)

    assert alone[0] == "faster"
    assert beside_nothing[0] == "not resolved"
    assert beside_clear == ["faster"] * 4
    assert unknown == ["faster", *["not resolved"] * 3]  # what has no interval is no row that could be told


def test_of_tables_in_which_nothing_differs_few_have_a_row_that_is_told() -> None:
    generator = np.random.default_rng(11)
    tables = [[Centre(0.01 * generator.standard_t(6), 0.01, 6) for _ in range(20)] for _ in range(400)]

    wrong = [{"faster", "slower"} & set(verdicts(table, 0.0, 0.0)) for table in tables]
    plain = [any(verdict(row.estimate(0.0), 0.0) in ("faster", "slower") for row in table) for table in tables]

    assert np.mean([bool(each) for each in wrong]) == pytest.approx(DOUBT, abs=0.025)
    assert np.mean(plain) > 0.5
