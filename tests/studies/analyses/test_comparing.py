"""Frameworks and threads against each other: speed-ups, pairs, crossovers, recommendations."""

from __future__ import annotations

import pytest

from profkit.studies.analyses.crossovers import crossovers, value_crossovers
from profkit.studies.analyses.pairs import MEMORY, TIME, pairs
from profkit.studies.analyses.points import Ratio
from profkit.studies.analyses.recommendations import recommendations
from profkit.studies.analyses.speedups import speed_ups
from tests.studies.analyses.builders import line, point


def test_a_speed_up_is_taken_within_a_repetition_against_one_thread() -> None:
    points = [point("a", 100, 300, threads=1, n=5), point("a", 50, 200, threads=2, n=5), point("a", 9, threads=4, n=6)]

    (found,) = speed_ups(points)

    assert (found.framework, found.at, found.threads) == ("a", {"n": 5}, 2)
    assert found.ratio == Ratio(1.75, 1.5, 2.0)
    assert found.efficiency == 0.875


@pytest.mark.parametrize(
    ("times", "verdict"), [((50, 60), "faster"), ((150, 160), "slower"), ((50, 160), "not resolved")]
)
def test_threads_help_or_harm_only_when_all_repetitions_say_so(times: tuple[float, float], verdict: str) -> None:
    (found,) = speed_ups([point("a", 100, 100, threads=1), point("a", *times, threads=2)])

    assert found.verdict == verdict


def test_pairs_have_the_range_over_the_places_that_both_measured() -> None:
    points = [point("a", 10, n=1, peak=4), point("b", 20, n=1, peak=2), point("a", 10, n=2), point("b", 80, n=2)]
    points.append(point("b", 5, n=3))

    times, sizes = pairs(points, TIME), pairs(points, MEMORY)

    assert [(each.first, each.second) for each in times] == [("a", "b"), ("b", "a")]
    assert (times[0].low, times[0].high) == (2.0, 8.0)
    assert times[0].mean == pytest.approx(4.0)
    assert (times[0].places, times[0].highest_at) == (2, {"n": 2})
    assert [each.mean for each in sizes] == [pytest.approx(0.5), pytest.approx(2.0)]


def test_pairs_are_compared_within_a_repetition() -> None:
    (found, _) = pairs([point("a", 10, 1000, 1000), point("b", 20, 2000, 30)], TIME)

    assert found.mean == pytest.approx(2.0)


def test_a_crossover_lies_between_the_neighbours_where_the_faster_one_changes() -> None:
    points = [*line("a", "n", [10, 100], [10, 100]), *line("b", "n", [10, 100], [40, 25])]

    (found,) = crossovers(points, "n")

    assert (found.first, found.second, found.below, found.above) == ("a", "b", 10, 100)
    assert found.at_x == pytest.approx(10**1.5)
    assert found.is_resolved
    assert crossovers(line("a", "n", [1, 2], [1, 2]) + line("b", "n", [1, 2], [2, 3]), "n") == []


def test_a_crossover_that_one_repetition_denies_is_not_resolved() -> None:
    points = [point("a", 10, 30, n=1), point("a", 100, n=2), point("b", 20, 20, n=1), point("b", 50, n=2)]
    points[0] = point("a", 10, 10, 30, n=1)
    points[2] = point("b", 20, 20, 20, n=1)

    (found,) = crossovers(points, "n")

    assert not found.is_resolved


def test_values_of_an_axis_cross_in_one_framework() -> None:
    points = [*line("a", "n", [1, 4], [10, 40], threads=1), *line("a", "n", [1, 4], [20, 20], threads=2)]

    (found,) = value_crossovers(points, "n", "threads")

    assert (found.first, found.second, found.at) == ("a threads 1", "a threads 2", {})
    assert found.at_x == pytest.approx(2.0)


def test_the_fastest_is_recommended_with_those_that_tie() -> None:
    points = [
        point("slow", 30, 31, n=1),
        point("near", 10.5, 10.6, n=1),
        point("best", 10, 10, n=1),
        point("x", 1, n=2),
    ]

    (found,) = recommendations(points)

    assert (found.at, found.fastest, found.ties) == ({"n": 1}, "best", ("near",))
    assert found.next_ratio == pytest.approx(3.05)
    assert found.is_resolved


def test_a_recommendation_that_one_repetition_denies_is_not_resolved() -> None:
    (found,) = recommendations([point("a", 10, 40, 10), point("b", 30, 30, 30)])

    assert found.fastest == "a" and found.is_resolved is False
    (tied,) = recommendations([point("a", 10, 10), point("b", 10, 10.5)])
    assert (tied.ties, tied.next_ratio, tied.is_resolved) == (("b",), None, None)
