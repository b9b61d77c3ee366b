"""Along an axis: laws of growth, best batches, anomalies, changes of algorithm, width against depth, epochs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profkit.studies.analyses.anomalies import NOT_MONOTONIC, OUTLIER, anomalies
from profkit.studies.analyses.epochs import epoch_time
from profkit.studies.analyses.inversions import inversions
from profkit.studies.analyses.points import lines, number_axes
from profkit.studies.analyses.saturation import saturations
from profkit.studies.analyses.scaling import fitted, laws
from profkit.studies.analyses.switches import switches
from profkit.studies.declaration import Epoch
from tests.studies.analyses.builders import line, point

X = [1.0, 2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize(
    ("y", "name"),
    [
        ([5.0, 5.1, 5.0, 5.05, 5.0], "constant"),
        ([1.0, 2.0, 4.1, 7.9, 16.0], "linear"),
        ([1.0, 4.0, 16.0, 64.0, 256.0], "super-linear"),
        ([1.0, 1.4, 2.0, 2.8, 4.0], "sub-linear"),
        ([16.0, 8.0, 4.0, 2.0, 1.0], "falling"),
        ([1.0, 1.0, 1.01, 4.0, 4.02], "step"),
        ([1.0, 9.0, 1.0, 9.0, 1.1], "not resolved"),
        ([1.0, 2.0], "not resolved"),
    ],
)
def test_the_law_of_a_line_follows_from_the_interval_of_its_exponent(y: list[float], name: str) -> None:
    assert fitted(X[: len(y)], y).name == name


def test_the_exponent_has_its_interval_and_the_step_its_place() -> None:
    square, step = fitted(X, [3 * x**2 for x in X]), fitted(X, [1.0, 1.0, 1.01, 4.0, 4.02])

    assert square.exponent == pytest.approx(2.0)
    assert square.low == pytest.approx(2.0) and square.high == pytest.approx(2.0)
    assert step.step_at == 8.0


def test_laws_are_those_of_every_framework_and_place() -> None:
    points = [*line("a", "n", X, X), *line("a", "n", X, [x**2 for x in X], k=2), *line("b", "n", X, [5.0] * 5)]

    found = {(law.framework, tuple(law.at.items())): law.name for law in laws(points, "n")}

    assert found == {("a", ()): "linear", ("a", (("k", 2),)): "super-linear", ("b", ()): "constant"}


def test_lines_and_axes_are_those_of_numbers() -> None:
    points = [point("a", 1, n=2, kind="x", training=True), point("a", 1, n=1, kind="x", training=False)]

    assert number_axes(points) == ["n"]
    assert lines(points, "training") == [] and lines(points, "kind") == []
    assert lines(points, "n") == []  # each is alone on its line: `training` differs


def test_the_best_batch_and_the_one_that_is_enough() -> None:
    points = line("a", "batch", [1, 8, 64, 512], [100.0, 200.0, 1000.0, 8100.0])

    (found,) = saturations(points)

    assert (found.best_batch, found.enough_batch, found.is_at_end) == (64, 64, False)
    (rising,) = saturations(line("a", "batch", [1, 8, 64], [100.0, 200.0, 1550.0]))
    assert (rising.best_batch, rising.enough_batch, rising.is_at_end) == (64, 8, True)


def test_more_work_in_less_time_is_an_anomaly() -> None:
    found = anomalies(line("a", "n", [8, 16, 32], [100.0, 80.0, 90.0], p=1), "n")

    assert [(each.kind, each.x, each.factor, each.at) for each in found] == [(NOT_MONOTONIC, 16, 1.25, {"p": 1})]


def test_less_time_that_repetitions_deny_is_none() -> None:
    points = [point("a", 100, 100, n=1, flops=1), point("a", 50, 120, n=2, flops=2)]

    assert anomalies(points, "n") == []


def test_a_point_far_from_its_neighbours_is_an_outlier() -> None:
    found = anomalies(line("a", "n", [1, 2, 4, 8], [10.0, 20.0, 400.0, 800.0]), "n")
    alone = anomalies(line("a", "n", [1, 2, 4], [10.0, 100.0, 140.0]), "n")

    assert {each.kind for each in found} == {OUTLIER} and [each.x for each in found] == [2, 4]
    assert [(each.kind, each.x) for each in alone] == [(OUTLIER, 2)]
    assert anomalies(line("a", "n", [1, 2, 4], [10.0, 20.0, 40.0]), "n") == []


def test_an_algorithm_switches_where_a_kind_of_operator_has_another_implementation() -> None:
    kinds = [{"conv2d": {"direct"}, "relu": {"r"}}, {"conv2d": {"winograd"}, "pool": {"p"}}, {"conv2d": {"winograd"}}]
    points = [
        replace(each, types={kind: frozenset(types) for kind, types in own.items()})
        for each, own in zip(line("a", "n", [8, 16, 32], [1, 2, 3]), kinds)
    ]

    (found,) = switches(points, "n")

    assert (found.kind, found.below, found.above) == ("conv2d", 8, 16)
    assert (found.before, found.after) == (("direct",), ("winograd",))


def test_an_operator_that_comes_with_a_layer_is_no_switch() -> None:
    types = [{"forward"}, {"forward", "input gradient"}, {"other", "input gradient"}]
    points = [
        replace(each, types={"conv2d": frozenset(own)})
        for each, own in zip(line("a", "d", [1, 2, 3], [1, 2, 3]), types)
    ]

    assert [(each.below, each.above) for each in switches(points, "d")] == [(1, 2), (2, 3)]
    assert [(each.below, each.above) for each in switches(points, "d", adds_layers=True)] == [(2, 3)]


def test_a_deep_network_that_takes_longer_with_less_arithmetic_is_an_inversion() -> None:
    deep, wide = point("a", 30, 32, flops=10, n=25, d=16), point("a", 20, 21, flops=40, n=200, d=2)

    (found,) = inversions([deep, wide], "n", "d")

    assert (found.deeper, found.wider) == ({"n": 25, "d": 16}, {"n": 200, "d": 2})
    assert found.flops_ratio == 0.25
    assert found.time_ratio == pytest.approx(1.512, abs=1e-3)
    assert inversions([deep, point("a", 20, 40, flops=40, n=200, d=2)], "n", "d") == []


def test_an_epoch_is_steps_times_step() -> None:
    found = epoch_time(Epoch(100, 2, "ceil"), 16, 1.0, 1e9)

    assert found is not None
    assert (found.steps, found.seconds, found.epoch_s) == (14, 14.0, 7.0)
    assert found.images_per_s == pytest.approx(200 / 14)
    assert epoch_time(Epoch(10), 16, 1.0, 1e9) is None
