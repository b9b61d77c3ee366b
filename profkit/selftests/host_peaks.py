"""The host's peaks: measured twice each, and against what kernels of this build reach.

Devices' peaks are judged alike: only what no machine could do is wrong. What others who used the machine meanwhile may
explain is not proven.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from profkit import _core
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Prepared
from profkit.measurement.contention import others_share, processor_use
from profkit.measurement.cores import usable_cpus
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec
from profkit.rendering.quantities import rate_text
from profkit.selftests.findings import NOT_PROVEN, PROVEN, WRONG, CheckContext, CheckResult

ALIKE = 1.25
"""Two measurements of one peak differ by less where nothing disturbs them."""
ABOVE = 1.1
"""A rate may be above a peak by so much: both are measured, and clocks vary."""
EXPLAINED = 3.0
"""Beyond this a disturbance cannot explain it."""


def judge_peak(name: str, unit: str, measured: list[float], excuse: str = "") -> CheckResult:
    """Several measurements of one peak; `excuse`: why they may be too low."""
    numbers = {"measured": measured}
    shown = " and ".join(rate_text(value, unit) for value in measured)
    if not all(0.0 < value < float("inf") for value in measured):
        return CheckResult(name, WRONG, f"no rate: {shown}", numbers)
    text = f"measured twice: {shown}"
    if not excuse and max(measured) > ALIKE * min(measured):
        excuse = "they differ by more than noise"
    if excuse:
        return CheckResult(name, NOT_PROVEN, f"{text}; {excuse}", numbers)
    return CheckResult(name, PROVEN, text, numbers)


def judge_rate(name: str, unit: str, rate: float, peak: float, of_what: str, excuse: str = "") -> CheckResult:
    """What a kernel reaches cannot be above what the machine can do; `excuse`: why the peak may be too low."""
    numbers = {"rate": rate, "peak": peak}
    share = f"{100 * rate / peak:.3g} %" if peak > 0.0 else "more"
    text = f"{of_what} reaches {rate_text(rate, unit)}, {share} of the peak {rate_text(peak, unit)}"
    if rate <= ABOVE * peak:
        return CheckResult(name, PROVEN, text, numbers)
    if excuse and rate <= EXPLAINED * peak:
        return CheckResult(name, NOT_PROVEN, f"{text}; {excuse}", numbers)
    return CheckResult(name, WRONG, f"{text}: impossible", numbers)


RATE_S = 1.0
"""How long a kernel is called; its fastest call counts."""
LEAST_BYTES, MOST_BYTES = 512 << 20, 1 << 30
FAR_MORE = 8
CACHED = "its data may be cached"
SHARED = "in a virtual machine, other guests share the memory's bandwidth"
REPEATS = 3
BUSY = 0.25
"""Share of the processors' time that others may have: a peak is the best of many short loops."""


def check(setting: CheckContext) -> list[CheckResult]:
    threads, products, copy = setting.threads, {"float32": 768, "float64": 512}, _large_copy()
    findings = []
    for dtype, size in products.items():
        spec = MatMul(size, size, size, dtype=dtype)
        peak = partial(_core.peak_flops, dtype, threads)
        findings += _pair(dtype, "FLOP/s", peak, spec, spec.flops(), threads)
    bandwidth = partial(_core.copy_bandwidth, threads)
    size, l3_bytes = copy.min_bytes(), _core.cpu_features()["l3_bytes"]
    excuse = cached_data_note(size, l3_bytes) or (SHARED if is_virtual(Path("/proc/cpuinfo")) else "")
    return [*findings, *_pair("bandwidth", "B/s", bandwidth, copy, size, threads, excuse)]


def cached_data_note(size_bytes: int, l3_bytes: int) -> str:
    """Why a copy may be faster than memory; empty where its data is far more than the caches hold."""
    return CACHED if not l3_bytes or size_bytes < FAR_MORE * l3_bytes else ""


def is_virtual(cpuinfo: Path) -> bool:
    """Whether a hypervisor says so; its other guests are not seen in this machine's load."""
    try:
        return re.search(r"^flags\b.*\bhypervisor\b", cpuinfo.read_text(), re.M) is not None
    except OSError:
        return False


def _pair(
    name: str,
    unit: str,
    measure: Callable[[], float],
    spec: Spec,
    amount: int,
    threads: int,
    other_excuse: str = "",
) -> list[CheckResult]:
    """A peak, and a kernel's rate against it; a peak that was disturbed is measured again."""
    before = processor_use(os.getpid(), usable_cpus())
    measured = [measure(), measure()]
    key, seconds = _fastest_call(spec, threads)
    while amount / seconds > ABOVE * max(measured) and len(measured) < 2 + REPEATS:
        measured.append(measure())
    share = others_share(before, processor_use(os.getpid(), usable_cpus())) or 0.0
    excuse = f"other programs used {100 * share:.0f} % of the processors meanwhile" if share > BUSY else ""
    return [
        judge_peak(f"{name} peak", unit, sorted(measured)[-2:], excuse),
        judge_rate(f"{name} rate", unit, amount / seconds, max(measured), key, excuse or other_excuse),
    ]


def _fastest_call(spec: Spec, threads: int) -> tuple[str, float]:
    """The first kernel of the registry that takes the spec, and the seconds of its fastest call."""
    adapter = load_adapter("native")
    row = next(row for row in adapter.implementations(spec.op) if not row.forms and not adapter.supports(row, spec))
    prepared = adapter.prepare(row, spec, spec.make_inputs(), Conditions(threads, "reused", tuned=False))
    return row.key, min(_seconds(prepared))


def _seconds(prepared: Prepared) -> list[float]:
    found: list[float] = []
    end = time.perf_counter() + RATE_S
    while not found or time.perf_counter() < end:
        begin = time.perf_counter()
        prepared.call()
        found.append(time.perf_counter() - begin)
    return found


def _large_copy() -> BiasRelu:
    """Reads and writes far more than the caches hold, and hardly computes."""
    wanted = min(MOST_BYTES, max(LEAST_BYTES, 16 * _core.cpu_features()["l3_bytes"]))
    image = BiasRelu(1, 64, 64, 64)
    return BiasRelu(max(1, wanted // image.min_bytes()), 64, 64, 64)
