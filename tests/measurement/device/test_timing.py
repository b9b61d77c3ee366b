"""The order in which a device is held, timed and let go, on a fake profkit._cuda; and the wall clock beside it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import DeviceCall, Prepared
from profkit.measurement.call_clock import RETAKES, CallClock, call_clock_of
from profkit.measurement.device.timing import (
    HELD,
    MOST_CALLS,
    WAITS,
    EventStopwatch,
    device_peak_bytes,
    open_stopwatch,
)
from profkit.measurement.device.wall_clock import CacheFlush, WallStopwatch
from profkit.measurement.sampling import Contender
from profkit.ops import MatMul
from tests.support.fake_cuda import L2_BYTES, FakeCuda
from tests.support.fake_nvml import FakeNvml

STREAM = 7


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """The fake module in the place of the compiled one."""
    module = FakeCuda()
    monkeypatch.setitem(sys.modules, "profkit._cuda", module)
    monkeypatch.setattr("profkit._cuda", module, raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    return module


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """profkit without its CUDA module, and a driver without NVML."""
    monkeypatch.delattr("profkit._cuda", raising=False)
    monkeypatch.setitem(sys.modules, "profkit._cuda", None)
    monkeypatch.setitem(sys.modules, "pynvml", None)


def call_on(cuda: FakeCuda, then: Callable[[], None] = lambda: None) -> DeviceCall:
    """A call that says when it was enqueued."""

    def enqueue() -> None:
        cuda.called.append("enqueue")
        then()

    return DeviceCall(enqueue, STREAM)


def test_calls_are_enqueued_between_events_while_the_stream_is_held(cuda: FakeCuda) -> None:
    stopwatch = open_stopwatch(call_on(cuda))

    stopwatch.once(3, is_cold=False)

    timed = ["hold", "begin", *["enqueue"] * 3, "end", "release", "finish"]
    assert cuda.called == ["device 0", f"timer {STREAM} 1", *timed]
    assert stopwatch.timing == HELD


def test_a_cold_sample_flushes_twice_the_cache_before_the_first_event(cuda: FakeCuda) -> None:
    stopwatch = open_stopwatch(call_on(cuda))
    del cuda.called[:]

    stopwatch.once(1, is_cold=True)

    assert cuda.called == [f"flush {2 * L2_BYTES}", "hold", "begin", "enqueue", "end", "release", "finish"]


class Timer:
    """Every sample takes 1 µs, whatever is done in it."""

    def __init__(self, gave_up: bool) -> None:
        self.gave_up = gave_up

    def finish(self) -> tuple[float, bool]:
        return 1000.0, self.gave_up

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_time_is_given_per_call_also_by_a_timer_whose_hold_always_gives_up() -> None:
    steady, giving_up = (EventStopwatch(DeviceCall(lambda: None), Timer(gave_up), 1) for gave_up in (False, True))

    assert steady.once(4, is_cold=False) == 250.0
    assert giving_up.once(1, is_cold=False) == 1000.0
    assert giving_up.timing == WAITS


def test_a_call_that_waits_for_the_held_device_is_timed_again_without_a_hold(cuda: FakeCuda) -> None:
    stopwatch = open_stopwatch(call_on(cuda, lambda: cuda.synchronize(STREAM)))

    stopwatch.once(1, is_cold=True)
    stopwatch.once(1, is_cold=False)

    # The spoilt sample, the same without holding and as cold as before, and the next one.
    assert cuda.called.count("hold") == 1
    assert [word for word in cuda.called if word.startswith("flush")] == [f"flush {2 * L2_BYTES}"] * 2
    assert cuda.called.count("finish") == 3
    assert stopwatch.timing == WAITS


def test_calls_that_find_the_launch_queue_full_go_behind_holds_in_smaller_groups(cuda: FakeCuda) -> None:
    def wait_when_full() -> None:
        held = cuda.called[len(cuda.called) - cuda.called[::-1].index("hold") :]
        if held.count("enqueue") > 20:
            cuda.synchronize(STREAM)

    stopwatch = open_stopwatch(call_on(cuda, wait_when_full))

    stopwatch.once(MOST_CALLS, is_cold=False)

    assert stopwatch.holds
    assert stopwatch.timing == f"{HELD}, 6 calls at a time: more had to wait"
    assert cuda.called.count("enqueue") == 2 * MOST_CALLS  # the spoilt sample, and the whole of the next one
    assert cuda.called.count("hold") == 1 + 9


def test_a_group_whose_calls_wait_by_themselves_is_held_twice_and_no_more(cuda: FakeCuda) -> None:
    stopwatch = open_stopwatch(call_on(cuda, lambda: cuda.synchronize(STREAM)))

    stopwatch.once(MOST_CALLS, is_cold=False)

    assert cuda.called.count("hold") == 2
    assert (stopwatch.timing, stopwatch.dispatch_ns) == (WAITS, [])


def test_a_cache_of_unknown_size_is_emptied_all_the_same(cuda: FakeCuda) -> None:
    stopwatch = EventStopwatch(call_on(cuda), cuda.DeviceTimer(STREAM, 1.0), l2_bytes=0)

    stopwatch.once(1, is_cold=True)

    assert f"flush {256 << 20}" in cuda.called


def clock_with_stream(cuda: FakeCuda, waited_call: Callable[[], Any] = lambda: None) -> CallClock:
    """The clock of a framework that gives its stream."""
    clock = call_clock_of(Prepared(waited_call, lambda result: result, device=call_on(cuda)), "cuda")
    assert clock is not None
    return clock


def test_launching_and_a_whole_call_are_told_beside_the_devices_time(cuda: FakeCuda) -> None:
    answer = clock_with_stream(cuda, lambda: time.sleep(0.002)).sample(count=2, calls=3, warm_calls=1, is_cold=False)

    assert answer["dispatch_ns"] > 0
    assert answer["wall_ns"] >= 2e6
    assert len(answer["samples_ns"]) == 2


def test_frameworks_without_a_stream_have_nothing_beside_the_wall_clock(cuda: FakeCuda) -> None:
    answer = clock_without_stream(lambda: None).sample(count=1, calls=1, warm_calls=0, is_cold=False)

    assert (answer["dispatch_ns"], answer["wall_ns"]) == (None, None)


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_device_that_was_idle_is_warmed_before_samples_cold_or_not(cuda: FakeCuda, is_cold: bool) -> None:
    clock = clock_with_stream(cuda)
    del cuda.called[:]

    clock.sample(count=1, calls=1, warm_calls=0 if is_cold else 1, is_cold=is_cold)

    first_sample = cuda.called.index(f"flush {2 * L2_BYTES}" if is_cold else "hold")
    assert cuda.called[:5] == ["begin", "enqueue", "end", "release", "finish"]
    assert first_sample >= 5


def test_a_device_that_stays_throttled_is_rested_for_in_one_turn_only(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(reasons=[0x04]))
    clock = clock_with_stream(cuda)

    first, second = (clock.sample(count=1, calls=1, warm_calls=0, is_cold=False) for _ in range(2))

    assert first["device"]["samples_taken_again"] == second["device"]["samples_taken_again"] == str(RETAKES)
    assert first["throttled"] == second["throttled"] == [True]


def test_a_call_that_fails_leaves_no_held_device(cuda: FakeCuda) -> None:
    def fail() -> None:
        raise RuntimeError("no such kernel")

    stopwatch = open_stopwatch(call_on(cuda, fail))

    with pytest.raises(RuntimeError, match="no such kernel"):
        stopwatch.once(1, is_cold=False)

    assert cuda.called[-1] == "release"
    assert not cuda.is_held


def test_a_sample_has_no_more_calls_than_a_launch_queue_has_places() -> None:
    short = Contender("a", call_ns=10.0, most_calls=MOST_CALLS)

    assert short.calls_per_sample == MOST_CALLS
    assert Contender("a", call_ns=10.0).calls_per_sample > MOST_CALLS


def test_without_the_module_there_is_no_timer(no_cuda: None) -> None:
    with pytest.raises(UnavailableError, match="profkit was built without CUDA"):
        open_stopwatch(DeviceCall(lambda: None))


def test_rows_on_a_cpu_have_no_device_clock() -> None:
    assert call_clock_of(Prepared(lambda: None, lambda result: result), "cpu") is None


def clock_without_stream(call: Callable[[], Any]) -> CallClock:
    """The clock of a framework that only can be waited for."""
    clock = call_clock_of(Prepared(call, lambda result: result), "cuda")
    assert clock is not None
    return clock


def test_the_wall_clock_waits_for_every_call_and_empties_the_cache_before(cuda: FakeCuda) -> None:
    clock = clock_without_stream(lambda: cuda.called.append("call"))

    answer = clock.sample(count=2, calls=1, warm_calls=1, is_cold=True)

    flush = [f"flush {2 * L2_BYTES}", "wait 0"]
    warm = cuda.called.index("device 0")
    assert set(cuda.called[:warm]) == {"call"}
    assert cuda.called[warm:] == ["device 0", "timer 0 1", *flush, "call", *flush, "call"]
    assert len(answer["samples_ns"]) == 2
    assert answer["timing"] == "wall clock with waiting: the framework gives no stream to put events on"


def test_a_cache_that_cannot_be_emptied_is_said(no_cuda: None) -> None:
    stopwatch = WallStopwatch(lambda: None, flush=CacheFlush())

    stopwatch.once(1, is_cold=True)

    assert "the device's cache was not emptied: profkit was built without CUDA" in stopwatch.timing


def test_a_call_with_a_stream_but_no_timer_is_timed_by_the_wall_clock_with_the_reason(no_cuda: None) -> None:
    clock = call_clock_of(Prepared(lambda: None, lambda result: result, device=DeviceCall(lambda: None)), "cuda")

    assert clock is not None
    assert clock.timing.startswith("wall clock with waiting: profkit was built without CUDA")
    assert clock.limits(MatMul()) == {"most_calls": None, "peaks": {}}


def test_memory_of_a_call_is_what_the_framework_says_or_the_fall_of_free_memory(cuda: FakeCuda) -> None:
    assert device_peak_bytes(DeviceCall(lambda: None, peak_bytes=lambda run: 4096)) == 4096
    cuda.free_bytes = [10_000, 7_000]
    assert device_peak_bytes(call_on(cuda)) == 3_000
    assert cuda.called == [f"wait {STREAM}", "enqueue", f"wait {STREAM}"]
    with pytest.raises(UnavailableError):  # nobody gives a handle of the call
        clock_without_stream(lambda: None).peak_bytes()
