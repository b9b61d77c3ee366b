"""The race on a fake clock: order, fairness, stopping and failures, with invented times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from profkit.measurement.sampling import LEAST_ROUNDS, Contender, Rules, race, shuffled


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

    def run(self, baseline: str, budget_s: float = 20.0, tell: Callable[[float], None] = lambda _: None) -> None:
        race(
            list(self.contenders.values()),
            self.contenders[baseline],
            Rules(budget_s, margin=0.02),
            self.take_turn,
            tell,
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
    race([], None, Rules(1.0, 0.02), lambda contender, index: None, lambda fraction: None)


def test_every_sample_has_a_partner_of_the_baseline_even_when_the_baseline_is_slow() -> None:
    course = Course({"slow baseline": 2900.0, "a": 900.0, "b": 950.0}, noise=0.3)

    course.run("slow baseline", budget_s=10.0)

    paired = set(course.contenders["slow baseline"].rounds)
    assert {index for _, index in course.turns} == paired


def test_turns_are_planned_by_experience_once_there_is_some() -> None:
    contender = Contender("a", call_ns=1e6, spent_s=2.0, turns=4)

    assert contender.turn_s == 0.5


def test_cold_samples_are_single_calls_without_warm_up() -> None:
    cold = Contender("a", call_ns=1000.0, cold=True)

    assert (cold.calls_per_sample, cold.warm_calls, cold.samples_per_turn) == (1, 0, 2)


def test_samples_of_different_implementations_are_interleaved() -> None:
    course = Course({"a": 10.0, "b": 10.1, "c": 9.9}, noise=0.2)

    course.run("a", budget_s=5.0)

    rounds = [index for _, index in course.turns]
    assert rounds == sorted(rounds)
    assert {key for key, index in course.turns if index == 1} == {"a", "b", "c"}


def test_a_clear_race_ends_early_and_an_unclear_one_uses_the_budget() -> None:
    clear = Course({"a": 10.0, "b": 20.0})
    unclear = Course({"a": 10.0, "b": 10.15}, noise=0.3)

    clear.run("a")
    unclear.run("a")

    assert clear.now < 5.0
    assert clear.contenders["b"].round_count >= LEAST_ROUNDS
    assert 15.0 < unclear.now <= 20.0


def test_a_slow_implementation_gets_few_rounds_and_does_not_starve_the_others() -> None:
    course = Course({"fast": 5.0, "near": 5.05, "slow": 2000.0}, noise=0.05)

    course.run("fast")

    assert course.contenders["slow"].round_count in (2, 3, 4)
    assert course.contenders["near"].round_count > 20
    assert course.now <= 20.0


def test_everybody_gets_one_turn_even_when_a_single_call_exceeds_the_budget() -> None:
    course = Course({"fast": 5.0, "huge": 60_000.0})

    course.run("fast", budget_s=1.0)

    assert course.contenders["huge"].round_count == 1
    assert course.contenders["fast"].round_count >= 1


def test_a_failing_implementation_leaves_the_race_and_keeps_its_samples() -> None:
    course = Course({"a": 10.0, "b": 11.0, "c": 30.0}, noise=0.1, fails_at=("b", 4))

    course.run("a", budget_s=5.0)

    assert ("b", 5) not in course.turns
    assert course.contenders["b"].round_count == 4
    assert course.contenders["c"].round_count >= 4


def test_a_failing_baseline_does_not_end_the_race_of_the_others() -> None:
    course = Course({"a": 10.0, "b": 11.0}, fails_at=("a", 2))

    course.run("a", budget_s=2.0)

    assert course.contenders["b"].round_count > 3


def test_a_single_implementation_is_sampled_too() -> None:
    course = Course({"a": 10.0})

    course.run("a", budget_s=5.0)

    assert course.contenders["a"].round_count >= LEAST_ROUNDS


def test_short_calls_are_timed_in_groups_and_long_ones_alone() -> None:
    short, long = Contender("short", 2_000.0), Contender("long", 3e8)

    assert short.calls_per_sample == 500
    assert short.warm_calls == 500
    assert (long.calls_per_sample, long.samples_per_turn, long.warm_calls) == (1, 1, 0)
