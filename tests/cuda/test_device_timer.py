"""The timer of GPU work as nvcc compiles its host side, on the double of the runtime, where its hold is emulated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cuda.cuda_double import run_on_double

BEGIN = """
import json
import numpy as np
from profkit import _cuda
from profkit.errors import KernelError

stream = _cuda.Stream()

def said(error, action):
    try:
        action()
    except error as caught:
        return str(caught)
    return ""
"""
# A product of some thousand multiplications: short, and its end can be seen in its output.
BOUND = """
from profkit.ops import MatMul

spec = MatMul(8, 8, 8)
inputs = [_cuda.DeviceMemory(256) for _ in "ab"]
for memory in inputs:
    memory.upload(np.ones(64, np.float32))
output = _cuda.DeviceMemory(256)
output.fill(0)
_cuda.synchronize(0)  # the fill went to the default stream, which the call's does not wait for
call = _cuda.bind("matmul/native/cuda/naive", spec.params(), inputs, output, None, stream.handle)

def result():
    array = np.zeros(64, np.float32)
    output.download(array)
    return float(array[0])
"""


def answers(text: str, **settings: object) -> Any:
    """What a program prints, read as JSON."""
    done = run_on_double(["-c", BEGIN + text], **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SAMPLE = """
import time

def sample(timer, holds=True, pause_s=0.0, waits=False):
    if holds:
        timer.hold()
    timer.begin()
    time.sleep(pause_s)
    call()
    if waits:
        _cuda.synchronize(stream.handle)
    timer.end()
    timer.release()
    return timer.finish()
"""


def test_a_pause_of_the_host_is_in_the_time_only_when_nothing_holds_the_device() -> None:
    text = """
timer = _cuda.DeviceTimer(stream.handle, 60.0)
print(json.dumps([sample(timer, holds, pause_s=1.0) for holds in (True, False)] + [result()]))
"""

    held, free, value = answers(BOUND + SAMPLE + text)

    # Half of the pause: on a busy machine the double's stream comes to its first event late.
    assert 0 < held[0] < 5e8 <= free[0]
    assert not held[1] and not free[1]
    assert value == 8.0


@pytest.mark.parametrize(
    "then", ["waits=False", "holds=False, waits=True"], ids=["nobody waits", "a sample without a hold"]
)
def test_a_hold_that_somebody_waits_for_ends_by_itself_and_leaves_nothing_for_the_next_sample(then: str) -> None:
    text = f"""
timer = _cuda.DeviceTimer(stream.handle, 0.1)
print(json.dumps([sample(timer, waits=True)[1], sample(timer, {then})[1]]))
"""

    assert answers(BOUND + SAMPLE + text) == [True, False]


def test_a_timer_that_is_dropped_while_it_holds_lets_the_device_go() -> None:
    text = """
timer = _cuda.DeviceTimer(stream.handle, 60.0)
timer.hold()
call()
del timer
_cuda.synchronize(stream.handle)
print(json.dumps(result()))
"""

    assert answers(BOUND + text) == 8.0


def test_a_flush_takes_memory_once_and_more_only_for_a_larger_one() -> None:
    free = answers(
        """
timer = _cuda.DeviceTimer(stream.handle, 1.0)
free = [_cuda.memory_info()[0]]
for size in (1 << 20, 1 << 20, 1 << 21):
    timer.flush(size)
    _cuda.synchronize(stream.handle)
    free.append(_cuda.memory_info()[0])
print(json.dumps([free[0] - each for each in free]))
"""
    )

    assert free == [0, 1 << 20, 1 << 20, 1 << 21]


def test_a_flush_for_which_there_is_no_memory_is_a_memory_error() -> None:
    text = answers(
        """
timer = _cuda.DeviceTimer(stream.handle, 1.0)
print(json.dumps(said(MemoryError, lambda: timer.flush(1 << 20))))
""",
        memory=1000,
    )

    assert "allocating 1048576 bytes on the device: out of memory" in text


def test_a_hold_without_end_is_refused() -> None:
    texts = answers(
        """
print(json.dumps([said(KernelError, lambda: _cuda.DeviceTimer(0, limit)) for limit in (0.0, -1.0, 61.0, float("nan"))]))
"""
    )

    assert all("give_up_after_s must be above 0 and at most 60" in text for text in texts)


def test_a_kernel_that_fails_between_the_events_shows_when_they_are_waited_for() -> None:
    text = """
print(json.dumps(said(KernelError, lambda: sample(_cuda.DeviceTimer(stream.handle, 1.0)))))
"""

    # The first execution is the hold.
    assert "cudaErrorIllegalAddress" in answers(BOUND + SAMPLE + text, fail="execution@2=700")
