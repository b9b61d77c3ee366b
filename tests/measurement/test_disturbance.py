"""Which rounds are dropped, by invented clocks; and that the clocks of this system can be read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from profkit.measurement import disturbance
from profkit.measurement.contention import ProcessorClocks
from profkit.measurement.disturbance import (
    NO_CLOCKS,
    NO_RUN_DELAY,
    RUN_DELAY,
    STOLEN,
    DisturbanceWatch,
    Turn,
    Window,
    dropped_rounds,
    spent,
    thread_times,
    window_of,
)

QUIET = [Window(0.0, 10.0, 0.0, 0.0)]
BUSY = [Window(0.0, 0.5, 0.0, 0.0), Window(0.5, 1.0, 0.3, 0.0), Window(1.0, 1.5, 0.0, 0.0)]


def turns(*delays_s: float) -> list[Turn]:
    """Two turns of 0.1 s in each round of 0.2 s."""
    return [Turn(place // 2, 0.1 * place, 0.1 * place + 0.1, delay_s) for place, delay_s in enumerate(delays_s)]


def test_a_round_is_dropped_whole_when_one_of_its_turns_was_delayed_while_others_ran() -> None:
    delays = [0.0] * 14
    delays[7] = 0.01  # in round 3, at 0.7 s

    assert dropped_rounds(turns(*delays), BUSY) == {RUN_DELAY: [3]}


def test_threads_that_wait_for_each_other_disturb_nothing() -> None:
    assert dropped_rounds(turns(*[0.05] * 14), QUIET) == {}


def test_others_who_ran_without_delaying_a_thread_disturb_nothing() -> None:
    assert dropped_rounds(turns(*[0.001] * 14), BUSY) == {}


def test_stolen_time_drops_every_round_of_its_half_second_and_each_once() -> None:
    windows = [Window(0.0, 0.5, 0.2, 0.1), Window(0.5, 1.0, 0.0, 0.01)]

    assert dropped_rounds(turns(0.0, 0.01, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), windows) == {RUN_DELAY: [0], STOLEN: [1, 2]}


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
