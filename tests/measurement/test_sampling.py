"""The race on a fake clock: order, fairness, its fixed length and failures, with invented times."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from profkit.measurement.sampling import Contender, periods, race, shuffled


class Course:
    """A pretended machine: every turn advances the clock and gives samples around the true time."""

    def __init__(
        self, true_ms: dict[str, float], noise: float = 0.002, fails_at: tuple[str, int] | None = None
    ) -> None:
        self.now = 0.0
        self.turns: list[tuple[str, int]] = []
        self.contenders = {key: Contender(key, call_ns=ms * 1e6) for key, ms in true_ms.items()}
        self._noise = noise
        self._fails_at = fails_at
        self._generator = np.random.default_rng(0)

    def take_turn(self, contender: Contender, index: int) -> None:
        self.turns.append((contender.key, index))
        self.now += contender.turn_s
        if (contender.key, index) == self._fails_at:
            contender.failed = True
            return
        for _ in range(contender.samples_per_turn):
            factor = float(np.exp(self._generator.normal(0.0, self._noise)))
            contender.samples_ns.append(contender.call_ns * factor)
            contender.rounds.append(index)

    def run(self, baseline: str | None, budget_s: float = 20.0, first: int = 0) -> int:
        return race(
            list(self.contenders.values()),
            self.contenders[baseline] if baseline else None,
            budget_s,
            self.take_turn,
            lambda _: None,
            first,
            clock=lambda: self.now,
        )


@pytest.mark.parametrize("count", range(2, 9))
def test_nobody_is_favoured_by_the_order_of_the_rounds(count: int) -> None:
    contenders = [Contender(str(number), 1.0) for number in range(count)]
    rounds = 400

    orders = [[contender.key for contender in shuffled(contenders, index)] for index in range(rounds)]

    firsts = Counter(order[0] for order in orders)
    followers = Counter(pair for order in orders for pair in pairwise(order))
    assert all(abs(firsts[contender.key] - rounds / count) < 0.3 * rounds / count for contender in contenders)
    assert len(followers) == count * (count - 1)
    assert all(first == second[::-1] for first, second in zip(orders[::2], orders[1::2]))


def test_a_race_of_nobody_ends_at_once() -> None:
    assert race([], None, 1.0, lambda contender, index: None, lambda fraction: None, first=3) == 3


def test_turns_are_planned_by_experience_once_there_is_some() -> None:
    contender = Contender("a", call_ns=1e6, spent_s=2.0, turns=4)

    assert contender.turn_s == 0.5


def test_short_calls_are_timed_in_groups_and_long_and_cold_ones_alone() -> None:
    short, long, cold = Contender("a", 2_000.0), Contender("a", 3e8), Contender("a", call_ns=1000.0, cold=True)

    assert (short.calls_per_sample, short.warm_calls) == (500, 500)
    assert (long.calls_per_sample, long.warm_calls, long.samples_per_turn) == (1, 0, 1)
    assert (cold.calls_per_sample, cold.warm_calls, cold.samples_per_turn) == (1, 0, 2)


def test_samples_are_interleaved_and_the_baseline_has_one_in_every_round_even_when_it_is_slow() -> None:
    course = Course({"a": 10.0, "b": 10.1, "c": 9.9}, noise=0.2)
    slow = Course({"slow baseline": 2900.0, "a": 900.0, "b": 950.0}, noise=0.3)

    course.run("a", budget_s=5.0)
    slow.run("slow baseline", budget_s=10.0)

    rounds = [index for _, index in course.turns]
    assert rounds == sorted(rounds)
    assert {key for key, index in course.turns if index == 1} == {"a", "b", "c"}
    assert {index for _, index in slow.turns} == set(slow.contenders["slow baseline"].rounds)


def test_neither_a_clear_race_nor_its_noise_changes_who_is_sampled_when() -> None:
    clear, unclear = Course({"a": 10.0, "b": 20.0}, noise=0.0), Course({"a": 10.0, "b": 20.0}, noise=0.5)

    clear.run("a")
    unclear.run("a")

    assert clear.turns == unclear.turns
    assert 19.5 < clear.now <= 20.0


def test_nobody_leaves_before_the_end() -> None:
    course = Course({"a": 10.0, "b": 20.0, "c": 10.5, "d": 90.0})

    rounds = course.run("a")

    last = {key: max(index for other, index in course.turns if other == key) for key in course.contenders}
    assert all(index >= 0.9 * rounds for index in last.values()), last


def test_every_row_takes_part_in_each_kth_round_and_k_does_not_change() -> None:
    course = Course({"a": 10.0, "b": 11.0, "c": 10.5, "d": 90.0})

    course.run("a", budget_s=60.0)

    rounds = sorted(set(course.contenders["d"].rounds))[1:]
    steps = {later - earlier for earlier, later in pairwise(rounds)}
    assert len(steps) == 1 and steps.pop() > 1


def test_a_slow_implementation_gets_few_rounds_and_does_not_starve_the_others() -> None:
    course = Course({"fast": 5.0, "near": 5.05, "other": 5.1, "slow": 1500.0}, noise=0.05)

    course.run("fast")

    assert 3 <= len(course.contenders["slow"].medians()) <= 6
    assert len(course.contenders["near"].medians()) > 50
    assert course.now <= 20.0


def test_a_slow_baseline_and_its_only_rival_take_part_in_every_round_and_rows_too_slow_for_it_do_not() -> None:
    turns = {"base": 0.02, "a": 0.02, "b": 0.02, "c": 0.02, "huge": 10.0}

    assert periods({"quick": 0.02, "slow": 2.0}, "quick", 20.0) == {"quick": 1, "slow": 1}
    assert periods({"slow": 2.0, "a": 0.02, "b": 0.02}, "slow", 20.0) == {"slow": 1, "a": 1, "b": 1}
    assert periods(turns, "base", 15.0)["huge"] > 15.0 / 0.2  # more than a third of the time


def test_a_further_run_goes_on_counting_and_samples_everybody_again() -> None:
    course = Course({"a": 10.0, "b": 11.0, "slow": 400.0})

    begin = course.run("a", budget_s=3.0)
    end = course.run("a", budget_s=3.0, first=begin)

    assert {key for key, index in course.turns if index == begin} == {"a", "b", "slow"}
    assert max(index for _, index in course.turns) < end
    assert course.now == pytest.approx(6.0, abs=0.5)


def test_everybody_gets_one_turn_even_when_a_single_call_exceeds_the_budget() -> None:
    course = Course({"fast": 5.0, "huge": 60_000.0})

    course.run("fast", budget_s=1.0)

    assert len(course.contenders["huge"].medians()) == 1
    assert len(course.contenders["fast"].medians()) >= 1


def test_a_failing_implementation_leaves_the_race_keeps_its_samples_and_does_not_end_it() -> None:
    course = Course({"a": 10.0, "b": 11.0, "c": 30.0}, noise=0.1, fails_at=("b", 4))
    baseline_fails = Course({"a": 10.0, "b": 11.0}, fails_at=("a", 2))

    course.run("a", budget_s=5.0)
    baseline_fails.run("a", budget_s=2.0)

    assert ("b", 5) not in course.turns
    assert len(course.contenders["b"].medians()) == 4
    assert len(course.contenders["c"].medians()) >= 4
    assert len(baseline_fails.contenders["b"].medians()) > 3


def test_a_single_implementation_is_sampled_too() -> None:
    course = Course({"a": 10.0})

    course.run(None, budget_s=5.0)

    assert course.now == pytest.approx(5.0, abs=0.1)
