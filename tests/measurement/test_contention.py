"""Who else used the processors: shares from readings, and that a neighbour is seen while oneself is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from profkit.measurement.contention import ProcessorUse, others_share, processor_use
from profkit.measurement.cores import usable_cpus

GRAIN_S = 0.05
"""Ticks of a hundredth of a second, of several clocks read one after another."""


def test_what_is_not_ones_own_is_the_others() -> None:
    before, after = ProcessorUse(10.0, 2, 100.0, 5.0), ProcessorUse(14.0, 2, 106.0, 9.0)

    assert others_share(before, after) == pytest.approx(2.0 / 8.0)


def test_readings_that_say_nothing_give_no_share() -> None:
    before = ProcessorUse(10.0, 2, 100.0, 5.0)

    assert others_share(before, ProcessorUse(10.4, 2, 100.5, 5.3)) is None  # too short
    assert others_share(before, ProcessorUse(14.0, 2, 106.0, 5.0)) is None  # nobody counted
    assert others_share(None, before) is None
    assert others_share(before, ProcessorUse(14.0, 2, 103.0, 9.0)) == 0.0  # clocks of different grain


def test_there_is_no_reading_of_what_does_not_exist() -> None:
    assert processor_use(2**30, usable_cpus()) is None
    assert processor_use(os.getpid(), [10_000]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the clocks are Linux's")
def test_a_neighbour_is_seen_and_oneself_is_not() -> None:
    cpu = usable_cpus()[0]
    spin = f"import os\nos.sched_setaffinity(0, [{cpu}])\nprint(flush=True)\nwhile True: pass"
    everywhere = os.sched_getaffinity(0)
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as neighbour:
        try:
            os.sched_setaffinity(0, [cpu])  # what this process does elsewhere is no time of that processor
            assert neighbour.stdout is not None
            neighbour.stdout.readline()
            first = [processor_use(pid, [cpu]) for pid in (os.getpid(), neighbour.pid)]
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                pass  # so that this process has used some time, too
            last = [processor_use(pid, [cpu]) for pid in (os.getpid(), neighbour.pid)]
        finally:
            neighbour.kill()
            os.sched_setaffinity(0, everywhere)

    mine, theirs = zip(first, last)
    assert theirs[0] is not None and theirs[1] is not None
    used_s = theirs[1].own_s - theirs[0].own_s  # on a full machine only a part of the second
    share = others_share(*mine)
    assert used_s > 0.0
    assert share is not None and share * (theirs[1].at_s - theirs[0].at_s) >= used_s - GRAIN_S
    alone = others_share(*theirs)
    assert alone is not None and alone <= 1.0 - used_s / (theirs[1].at_s - theirs[0].at_s) + GRAIN_S
