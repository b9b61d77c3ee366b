"""The timers of a CUDA device against each other: events, the wall clock, and CUPTI's time of kernels.

The bounds hold on any device: kernels run between the events, and events between the readings of the wall clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Prepared
from profkit.measurement.contention import ProcessorUse, others_share, processor_use
from profkit.measurement.cores import usable_cpus
from profkit.measurement.device.kernel_time import kernel_ns_per_call
from profkit.measurement.device.timing import EventStopwatch, open_stopwatch
from profkit.ops.matmul import MatMul
from profkit.rendering.quantities import time_text
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, CheckResult
from profkit.selftests.host_peaks import BUSY

LONG_NS = 1e6
"""A call so long that the microseconds of a launch do not matter."""
LARGEST = 8192
SAMPLES, CALLS = 7, 10
TRIES = 3
LEAST_S = 1.0
"""Of a comparison: in a shorter time, load by other programs cannot be detected."""
PAUSE_S = 0.05
NEAR, FAR = 1.1, 1.5
"""Two clocks agree to the first, disagree beyond the second; between them nothing is decided."""
LAUNCH_NS = 20_000.0
"""Between two kernels of a stream there is less than this."""
WAIT_NS = 50_000.0
"""Launching a kernel and waiting for it add less than this to its time."""


def check(setting: CheckContext) -> list[CheckResult]:
    prepared, stopwatch, title, _ = long_call()
    path = os.path.join(setting.folder, "timers.profkit")
    return [
        _repeated(partial(_hold, stopwatch)),
        _repeated(partial(_linear, stopwatch)),
        _repeated(partial(_wall, prepared, stopwatch, title)),
        # Last: CUPTI may slow every later launch.
        _repeated(partial(_kernels, prepared, stopwatch, title, path)),
    ]


def _repeated(look: Callable[[], CheckResult]) -> CheckResult:
    """A disturbed comparison is made again; clocks that disagree do so every time."""
    found: list[CheckResult] = []
    while len(found) < TRIES and PROVEN not in [finding.status for finding in found]:
        found.append(look())
    return min(found, key=lambda finding: (PROVEN, NOT_PROVEN, WRONG).index(finding.status))


def long_call() -> tuple[Prepared, EventStopwatch, str, int]:
    """A product that takes a millisecond, its stopwatch, its name and its floating-point operations."""
    size = 32
    while True:
        prepared, title = _product(size)
        assert prepared.device is not None
        stopwatch = open_stopwatch(prepared.device)
        stopwatch.warm(1)
        if stopwatch.once(1, False) >= LONG_NS or size == LARGEST:
            return prepared, stopwatch, title, MatMul(size, size, size).flops()
        size *= 2


def _product(size: int) -> tuple[Prepared, str]:
    adapter, spec = load_adapter("native_cuda"), MatMul(size, size, size)
    row = next(row for row in adapter.implementations("matmul") if not row.rounding and not adapter.supports(row, spec))
    adapter.start(row, Conditions())
    inputs = {name: np.ones(shape, np.float32) for name, shape in spec.input_shapes().items()}
    return adapter.prepare(row, spec, inputs, Conditions(tuned=False)), f"{row.key} of {size} x {size} x {size}"


def _hold(stopwatch: EventStopwatch) -> CheckResult:
    """A pause of the host is between the events only when nothing holds the stream."""
    held_ns, gave_up = _paused(stopwatch, is_held=True)
    free_ns, _ = _paused(stopwatch, is_held=False)
    numbers = {"held_ns": held_ns, "free_ns": free_ns, "pause_ns": PAUSE_S * 1e9, "gave_up": gave_up}
    seen = f"{time_text(free_ns)} between events, {time_text(held_ns)} behind a holding kernel"
    text = f"a pause of {1e3 * PAUSE_S:g} ms: {seen}"
    is_right = free_ns * NEAR >= PAUSE_S * 1e9 and held_ns <= free_ns - PAUSE_S * 1e9 / 2 and not gave_up
    return CheckResult("holding kernel", PROVEN if is_right else WRONG, text, numbers)


def _paused(stopwatch: EventStopwatch, is_held: bool) -> tuple[float, bool]:
    timer = stopwatch.timer
    stopwatch.warm(1)
    if is_held:
        timer.hold()
    try:
        timer.begin()
        time.sleep(PAUSE_S)
        stopwatch.call.enqueue()
        timer.end()
    finally:
        timer.release()
    return timer.finish()


def _linear(stopwatch: EventStopwatch) -> CheckResult:
    before = _processors()
    single_ns, double_ns = _in_turns(lambda: stopwatch.once(CALLS, False), lambda: stopwatch.once(2 * CALLS, False))
    numbers = {"calls": CALLS, "ns": CALLS * single_ns, "of_twice_as_many_ns": 2 * CALLS * double_ns}
    ratio = double_ns / single_ns if single_ns > 0 else float("inf")
    text = f"{2 * CALLS} calls take {2 * ratio:.2f} times as long as {CALLS}"
    apart = max(ratio, 1 / ratio) if ratio > 0 else float("inf")
    return judge_clocks("events of more calls", text, apart, numbers, _is_busy(before))


def _wall(prepared: Prepared, stopwatch: EventStopwatch, title: str) -> CheckResult:
    before = _processors()
    call_ns, wall_ns = _in_turns(lambda: stopwatch.once(1, False), lambda: stopwatch.waited(prepared.call, False))
    numbers = {"events_ns": call_ns, "wall_ns": wall_ns}
    text = f"{title}: {time_text(call_ns)} by events, {time_text(wall_ns)} by the wall clock with waiting"
    ratio = _without(WAIT_NS, wall_ns, call_ns)
    return judge_clocks("events and wall clock", text, ratio, numbers, _is_busy(before))


def _kernels(prepared: Prepared, stopwatch: EventStopwatch, title: str, path: str) -> CheckResult:
    name, before = "events and CUPTI", _processors()
    try:
        (first_ns,) = _in_turns(lambda: stopwatch.once(1, False))
        # A recording each: some are enough.
        later_ns, kernel_ns = _in_turns(
            lambda: stopwatch.once(1, False), lambda: kernel_ns_per_call(prepared.call, path, calls=1), least_s=0.0
        )
    except UnavailableError as error:
        return CheckResult(name, NOT_PROVEN, str(error))
    call_ns = min(first_ns, later_ns)
    numbers = {"events_ns": call_ns, "kernel_ns": kernel_ns}
    text = f"{title}: {time_text(call_ns)} by events, {time_text(kernel_ns)} in kernels by CUPTI"
    return judge_clocks(name, text, _without(LAUNCH_NS, call_ns, kernel_ns), numbers, _is_busy(before))


def judge_clocks(name: str, text: str, ratio: float, numbers: dict[str, float], is_busy: bool) -> CheckResult:
    """Two times of the same work; `ratio`: of the one around to the one inside, which a busy host only makes larger."""
    if 1 / NEAR <= ratio <= NEAR:
        return CheckResult(name, PROVEN, text, numbers)
    if ratio < 1 / FAR:
        return CheckResult(name, WRONG, f"{text}: the part is longer than the whole", numbers)
    if is_busy:
        return CheckResult(name, NOT_PROVEN, f"{text}: the host was too busy to compare", numbers)
    if ratio > FAR:
        return CheckResult(name, WRONG, f"{text}: these clocks disagree", numbers)
    return CheckResult(name, NOT_PROVEN, f"{text}: more than noise, less than a wrong clock", numbers)


def _in_turns(*looks: Callable[[], float], least_s: float | None = None) -> list[float]:
    """The least of each; in turns, so that a change of the device's clock meets all of them."""
    end = time.monotonic() + (LEAST_S if least_s is None else least_s)
    rounds: list[list[float]] = []
    while len(rounds) < SAMPLES or time.monotonic() < end:
        rounds.append([look() for look in looks])
    return [min(times) for times in zip(*rounds)]


def _without(added_ns: float, around_ns: float, inside_ns: float) -> float:
    """Of the one time to the other, where the first may have so much more."""
    if not (around_ns > 0 and inside_ns > 0):
        return 0.0  # a clock that stands still is wrong
    return max(min(around_ns, inside_ns), around_ns - added_ns) / inside_ns


def _processors() -> ProcessorUse | None:
    return processor_use(os.getpid(), usable_cpus())


def _is_busy(before: ProcessorUse | None) -> bool:
    return (others_share(before, _processors()) or 0.0) > BUSY
