"""Which rounds are dropped, by invented clocks; and that the clocks of this system can be read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from profkit import _core
from profkit.measurement import disturbance
from profkit.measurement.contention import ProcessorClocks
from profkit.measurement.disturbance import (
    NO_CLOCKS,
    NO_RUN_DELAY,
    RUN_DELAY,
    STOLEN,
    DisturbanceWatch,
    LoadWindow,
    OthersTurn,
    Turn,
    dropped_rounds,
    spared,
    spent,
    thread_times,
    window_of,
)

QUIET = [LoadWindow(0.0, 10.0, 0.0, 0.0)]
BUSY = [LoadWindow(0.0, 0.5, 0.0, 0.0), LoadWindow(0.5, 1.0, 0.3, 0.0), LoadWindow(1.0, 1.5, 0.0, 0.0)]


def turns(*delays_s: float) -> list[Turn]:
    """Two turns of 0.1 s in each round of 0.2 s."""
    return [Turn(place // 2, 0.1 * place, 0.1 * place + 0.1, delay_s) for place, delay_s in enumerate(delays_s)]


STOLEN_IN_THE_FIRST = [LoadWindow(0.0, 0.5, 0.2, 0.1), LoadWindow(0.5, 1.0, 0.0, 0.01)]


@pytest.mark.parametrize(
    ("delays", "windows", "dropped"),
    [
        # A round is dropped whole when one of its turns, here at 0.7 s, was delayed while others ran.
        ([0.0] * 7 + [0.01] + [0.0] * 6, BUSY, {RUN_DELAY: [3]}),
        ([0.05] * 14, QUIET, {}),  # threads that wait for each other
        ([0.001] * 14, BUSY, {}),  # others who delayed no thread
        # Stolen time drops every round of its half second, and each once.
        ([0.0, 0.01, *[0.0] * 6], STOLEN_IN_THE_FIRST, {RUN_DELAY: [0], STOLEN: [1, 2]}),
    ],
)
def test_rounds_are_dropped_that_others_disturbed(
    delays: list[float], windows: list[LoadWindow], dropped: dict[str, list[int]]
) -> None:
    assert dropped_rounds(turns(*delays), windows) == dropped


def test_a_window_has_what_was_neither_ours_nor_idle() -> None:
    before, after = ProcessorClocks(10.0, 2, 100.0, 5.0), ProcessorClocks(10.5, 2, 100.7, 5.1)

    window = window_of(before, after, own_s=0.5)

    assert window.others_share == pytest.approx(0.2)
    assert window.stolen_share == pytest.approx(0.1)
    assert window_of(before, after, own_s=0.9).others_share == 0.0  # clocks of different grain


def test_new_threads_count_from_their_start_and_ended_ones_not_at_all() -> None:
    ran_s, delay_s = spent({1: (100, 10), 2: (50, 5)}, {1: (400, 30), 3: (7, 1)})

    assert ran_s == pytest.approx(307e-9)
    assert delay_s == pytest.approx(21e-9)


def test_a_process_that_is_gone_tells_nothing() -> None:
    assert thread_times(2**30) is None


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system has no schedstat")
def test_a_turn_is_watched_here() -> None:
    watch = DisturbanceWatch([min(os.sched_getaffinity(0))])

    with watch.turn(os.getpid(), 0):
        sum(range(200_000))

    assert watch.not_watched() == []
    assert set(watch.dropped()) <= {RUN_DELAY, STOLEN}
    assert "load" in watch.facts()


def test_a_device_that_times_itself_is_not_disturbed_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([{1: (0, 0)}, {1: (10**9, 10**9)}] * 2)
    monkeypatch.setattr(disturbance, "thread_times", lambda _: next(readings))
    clocks = iter(ProcessorClocks(float(at), 1, 5.0 * at, 0.0) for at in range(100))
    monkeypatch.setattr(disturbance, "processor_clocks", lambda _: next(clocks))
    monkeypatch.setattr(time, "monotonic", iter([0.0, 0.9, 0.95, 0.99] + [99.0] * 9).__next__)
    watch = DisturbanceWatch([0])

    with watch.turn(1, 0, is_timed_here=False):
        pass
    with watch.turn(2, 1):
        pass

    assert watch.dropped() == {RUN_DELAY: [1]}


def test_round_trips_between_two_processors_are_facts_of_cells_with_several(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 200, 2))
    monkeypatch.setattr(disturbance, "processor_clocks", lambda _: ProcessorClocks(next(seconds), 2, 0.0, 0.0))
    monkeypatch.setattr(time, "monotonic", iter(float(second) for second in range(1, 400, 2)).__next__)
    trips = iter([100.0] * 5 + [0.0] + [400.0] * 5)
    asked = []

    def round_trip_ns(*pair: int) -> float:
        asked.append(pair)
        return next(trips)

    monkeypatch.setattr(_core, "round_trip_ns", round_trip_ns)
    watches = {cpus: DisturbanceWatch(cpus) for cpus in ((3, 1, 2), (3,))}
    for watch in watches.values():
        for _ in range(11):
            watch._close_window()

    facts = watches[3, 1, 2].facts()

    assert {facts[f"{end}round_trip_ns"] for end in ("low_", "", "high_")} == {100.0, 250.0, 400.0}
    assert set(asked) == {(1, 2)} and len(asked) == 11  # a single processor has no distance
    assert "round_trip_ns" not in watches[3,].facts()


def test_what_the_system_does_not_tell_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disturbance, "thread_times", lambda _: None)
    watch = DisturbanceWatch([min(os.sched_getaffinity(0))])
    with watch.turn(os.getpid(), 0):
        pass
    monkeypatch.setattr(disturbance, "processor_clocks", lambda _: None)
    blind = DisturbanceWatch([0])
    with blind.turn(os.getpid(), 0):
        pass

    assert watch.not_watched() == [NO_RUN_DELAY]
    assert "others_share" not in watch.facts()
    assert (blind.not_watched(), blind.dropped()) == ([NO_CLOCKS], {})


def others(own: float, rest: float, count: int = 40) -> list[OthersTurn]:
    """Turns of 20 ms on two processors, in which others took these shares."""
    shares = [("a", own), ("b", rest), ("c", rest)]
    return [OthersTurn(key, 0.04 * share, 0.04) for key, share in shares * count]


def test_others_who_spare_the_turns_of_one_row_are_told() -> None:
    shares = spared("a", others(0.01, 0.4))

    assert shares is not None
    assert list(shares) == pytest.approx([0.01, 0.4])
    assert spared("b", others(0.01, 0.4)) is None


@pytest.mark.parametrize(
    ("own", "rest", "count"),
    [
        pytest.param(0.3, 0.5, 40, id="a row that leaves others less"),
        pytest.param(0.0, 0.1, 40, id="others who take little"),
        pytest.param(0.0, 0.9, 10, id="few turns"),
    ],
)
def test_others_who_take_what_is_left_are_not(own: float, rest: float, count: int) -> None:
    assert spared("a", others(own, rest, count)) is None


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system has no schedstat")
def test_what_others_use_in_a_turn_is_kept_by_row() -> None:
    watch = DisturbanceWatch([min(os.sched_getaffinity(0))])

    with watch.turn(os.getpid(), 0, used_s=lambda: 0.0, key="a"):
        sum(range(200_000))

    (turn,) = watch.others_turns
    assert turn.key == "a" and turn.whole_s > 0.0
