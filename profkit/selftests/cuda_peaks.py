"""A CUDA device's rates against its peaks by clock and units: a product's arithmetic, and writing memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.frameworks.device_arrays import ORDINAL, cuda_module
from profkit.measurement.device.peaks import theoretical_peaks
from profkit.measurement.device.timing import GIVE_UP_AFTER_S
from profkit.selftests.cuda_timers import CALLS, long_call
from profkit.selftests.findings import NOT_PROVEN, CheckContext, CheckResult
from profkit.selftests.host_peaks import judge_peak, judge_rate

MOST_BYTES = 1 << 30
CACHES = 16
"""This multiple of the cache's size is written: what stays in the cache is a small part."""
SAMPLES = 5


def check(_: CheckContext) -> list[CheckResult]:
    cuda = cuda_module()
    peaks = theoretical_peaks(cuda.devices()[ORDINAL], "float32")
    return [*_arithmetic(peaks.get("flops_per_s")), *_bandwidth(cuda, peaks.get("bytes_per_s"))]


def _arithmetic(peak: float | None) -> list[CheckResult]:
    _, stopwatch, title, flops = long_call()
    fastest_ns = [min(stopwatch.once(CALLS, False) for _ in range(SAMPLES)) for _ in range(2)]
    return _judged("float32", "FLOP/s", [1e9 * flops / ns for ns in fastest_ns], peak, title)


def _bandwidth(cuda: Any, peak: float | None) -> list[CheckResult]:
    free_bytes, _ = cuda.memory_info()
    size = min(MOST_BYTES, free_bytes // 2, max(256 << 20, CACHES * int(cuda.devices()[ORDINAL]["l2_bytes"])))
    stream = cuda.Stream()
    timer = cuda.DeviceTimer(stream.handle, GIVE_UP_AFTER_S)

    def written_ns() -> float:
        timer.hold()
        try:
            timer.begin()
            timer.flush(size)
            timer.end()
        finally:
            timer.release()
        return float(timer.finish()[0])

    written_ns()  # takes the memory
    rates = [size / (1e-9 * float(np.min([written_ns() for _ in range(SAMPLES)]))) for _ in range(2)]
    return _judged("bandwidth", "B/s", rates, peak, f"writing {size >> 20} MiB")


def _judged(name: str, unit: str, rates: list[float], peak: float | None, of_what: str) -> list[CheckResult]:
    measured = judge_peak(f"{name} rate", unit, rates)
    if not peak:
        reason = "the driver does not report the clocks that the peak follows from"
        return [measured, CheckResult(f"{name} rate and peak", NOT_PROVEN, reason)]
    return [measured, judge_rate(f"{name} rate and peak", unit, max(rates), peak, of_what)]
