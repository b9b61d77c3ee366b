"""Published numbers beside ours, and beside each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profkit.studies.analyses.agreement import Agreement, agreements
from profkit.studies.analyses.contradictions import contradictions
from profkit.studies.analyses.points import Point
from profkit.studies.declaration import PublishedRatio, PublishedValue
from tests.studies.analyses.builders import point


def ratio(low: float, high: float | None = None, quantity: str = "step_ms") -> PublishedRatio:
    return PublishedRatio("§1", "s", quantity, {"framework": "a", "n": 1}, {"framework": "b", "n": 1}, low, high or low)


def value(table: str, number: float, framework: str = "a", margin: float = 0.0) -> PublishedValue:
    return PublishedValue(table, "s", "step_ms", {"framework": framework, "n": 1}, number, margin)


@pytest.mark.parametrize(
    ("ours", "published", "verdict", "why"),
    [
        ((20, 21), ratio(2.0), "agrees", "every repetition is within 25 % of it"),
        ((20, 29), ratio(2.0, 2.5), "agrees", "every repetition is within 25 % of it"),
        ((20, 29), ratio(2.0), "not resolved", "the repetitions are on both sides of the margin"),
        ((12, 12), ratio(2.0), "differs", "every repetition is below it"),
        ((30, 31), ratio(2.0), "differs", "every repetition is above it"),
        ((5, 5), ratio(2.0), "differs", "every repetition is below it, and the other one wins here"),
    ],
)
def test_a_published_ratio_agrees_differs_or_is_not_resolved(
    ours: tuple[float, float], published: PublishedRatio, verdict: str, why: str
) -> None:
    (found,) = agreements([point("a", *ours, n=1), point("b", 10, 10, n=1)], [published], [])

    assert (found.verdict, found.why) == (verdict, why)


def only(points: list[Point], ratios: list[PublishedRatio], values: list[PublishedValue]) -> Agreement:
    (found,) = agreements(points, ratios, values)
    return found


def test_points_that_were_not_measured_are_told() -> None:
    found = only([point("a", 10, n=1)], [ratio(2.0)], [])

    assert (found.verdict, found.why) == ("not measured here", "no cell was measured at framework b, n 1")


def test_memory_is_compared_by_peaks() -> None:
    found = only([point("a", 1, peak=30, n=1), point("b", 9, peak=10, n=1)], [ratio(3.0, quantity="peak_mb")], [])

    assert found.verdict == "agrees" and found.ours is not None and found.ours.median == 3.0


def test_an_epoch_has_the_steps_of_its_point() -> None:
    points = [replace(point("a", 20, batch=32), epoch_steps=10, epoch_images=320)]
    points.append(replace(point("a", 30, batch=64), epoch_steps=5, epoch_images=320))

    def ours(quantity: str) -> float | None:
        published = PublishedRatio("§1", "s", quantity, {"batch": 32}, {"batch": 64}, 1.0, 1.0)
        found = only(points, [published], [])
        return found.ours.median if found.ours is not None else None

    assert ours("step_ms") == pytest.approx(2 / 3)
    assert ours("epoch_s") == ours("total_s") == pytest.approx(200 / 150)
    assert ours("images_per_s") == pytest.approx(150 / 200)
    points[1] = replace(points[1], epoch_steps=0)
    assert ours("epoch_s") is None


def test_a_place_may_name_what_is_no_axis_and_must_name_what_is_one() -> None:
    points = [replace(point(name, 10, n=1), fixed={"batch": 32}) for name in "ab"]

    assert only(points, [], [value("1", 4), value("1", 4, "b")]).verdict == "agrees"
    here = {"batch": 32, "n": 1}
    named = PublishedRatio("§1", "s", "step_ms", {**here, "framework": "a"}, {**here, "framework": "b"}, 1.0, 1.0)
    assert only(points, [named], []).verdict == "agrees"
    assert only(points, [replace(named, against=here)], []).why == "2 cells were measured at batch 32, n 1"


def test_a_speed_up_is_that_against_one_thread() -> None:
    published = PublishedValue("4.7", "s", "speed_up", {"framework": "a", "n": 1, "threads": 2}, 1.8)

    found = only([point("a", 100, n=1, threads=1), point("a", 50, n=1, threads=2)], [], [published])

    assert found.verdict == "agrees" and found.ours is not None and found.ours.median == 2.0
    device = PublishedValue("4.7", "s", "speed_up", {"framework": "a", "n": 1, "device": "cuda"}, 1.8)
    assert only([point("a", 100, n=1, threads=1)], [], [device]).why == (
        "no cell was measured at framework a, n 1, device cuda"
    )


def test_a_table_of_times_gives_the_ratio_of_every_pair_of_frameworks() -> None:
    found = only([point("a", 20, n=1), point("b", 10, n=1)], [], [value("1", 40), value("1", 20, "b")])

    assert (found.published_low, found.verdict) == (2.0, "agrees")
    assert agreements([], [], [value("1", 40), value("2", 20, "b")]) == []
    assert agreements([], [], [value("1", 40), value("1", 0, "b")]) == []


def test_two_tables_that_give_other_numbers_for_one_point_contradict_each_other() -> None:
    (found,) = contradictions([value("4.3", 2041.43, margin=6.28), value("4.7", 2400.0)], [])

    assert found.where == ("4.3", "4.7")
    assert found.why == "two tables give 2041.43 and 2400 ± 6.28 and ± 0 for the same point"
    assert contradictions([value("4.3", 100, margin=6), value("4.7", 106)], []) == []
    assert contradictions([value("4.3", 100), value("4.7", 104)], []) == []
    assert contradictions([value("4.3", 100), value("4.7", 200, "b")], []) == []


def test_a_sentence_that_its_table_denies_is_a_contradiction() -> None:
    (found,) = contradictions([value("4.14", 3906.9), value("4.14", 2317.9, "b")], [ratio(1.2)])

    assert found.where == ("§1", "4.14") and found.why == "§1 says 1.2, its table 4.14 gives 1.69"
    assert contradictions([value("4.14", 3906.9), value("4.14", 2317.9, "b")], [ratio(1.6, 1.7)]) == []


def test_two_sentences_about_one_pair_are_compared_in_either_direction() -> None:
    back = PublishedRatio("§2", "s", "step_ms", {"framework": "b", "n": 1}, {"framework": "a", "n": 1}, 0.5, 0.5)

    assert contradictions([], [ratio(2.0), back]) == []
    (found,) = contradictions([], [ratio(3.0), back])
    assert found.why == "two statements give 3 and 2 for the same pair"
