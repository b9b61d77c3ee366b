"""CPU time of other threads is read to the nanosecond from their own clocks."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from profkit.frameworks.events.helper_threads import cpu_clock, helper_threads, pool_notes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads have clocks of their own on Linux")


class Helper:
    """A thread that computes when told to, and says what its own clock counted meanwhile."""

    def __init__(self) -> None:
        self.own_ns = self.id = 0
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._done.acquire()

    def compute(self) -> None:
        self._go.release()
        self._done.acquire()

    def _run(self) -> None:
        self.id = threading.get_native_id()
        while True:
            self._done.release()
            self._go.acquire()
            begin = time.thread_time_ns()
            sum(number * number for number in range(20_000))
            self.own_ns = time.thread_time_ns() - begin


def test_a_helpers_work_is_counted_and_its_waiting_is_not() -> None:
    helper = Helper()
    clock = cpu_clock([helper.id])

    before = clock()
    helper.compute()
    after = clock()

    assert helper.id in helper_threads()
    assert threading.get_native_id() not in helper_threads()
    assert after - before >= helper.own_ns > 0


def test_several_helpers_are_added_up_and_none_are_zero() -> None:
    helpers = [Helper(), Helper()]
    clock = cpu_clock([helper.id for helper in helpers])

    before = clock()
    for helper in helpers:
        helper.compute()

    assert clock() - before >= sum(helper.own_ns for helper in helpers)
    assert cpu_clock([])() == 0


def test_threads_that_begin_later_are_told() -> None:
    known = helper_threads()

    late = Helper()

    assert late.id not in known
    assert "1 threads began" in pool_notes(known)[1]
    assert len(pool_notes(helper_threads())) == 1
