"""Theoretical peaks of GPUs, against their data sheets, and the bounds that follow from peaks."""

from __future__ import annotations

import pytest

from profkit.measurement.bounds import binding, least_seconds
from profkit.measurement.device.peaks import theoretical_peaks
from profkit.ops import MatMul
from tests.support.fake_cuda import DEVICE

H100 = {
    **DEVICE,
    "capability": 90,
    "multiprocessors": 132,
    "clock_khz": 1_980_000,
    "memory_clock_khz": 2_619_000,
    "memory_bus_bits": 5120,
}


@pytest.mark.parametrize(
    ("device", "tera_flops", "giga_bytes"), [(DEVICE, 19.5, 1555.0), (H100, 66.9, 3352.0)], ids=["A100", "H100"]
)
def test_peaks_are_those_of_the_data_sheet(device: dict[str, object], tera_flops: float, giga_bytes: float) -> None:
    peaks = theoretical_peaks(device, "float32")

    assert peaks["flops_per_s"] == pytest.approx(tera_flops * 1e12, rel=0.01)
    assert peaks["bytes_per_s"] == pytest.approx(giga_bytes * 1e9, rel=0.01)


def test_types_that_tensor_cores_multiply_have_no_arithmetic_peak() -> None:
    peaks = theoretical_peaks(DEVICE, "float16")

    assert "flops_per_s" not in peaks
    assert "bytes_per_s" in peaks


def test_what_a_driver_does_not_tell_is_left_out() -> None:
    assert theoretical_peaks({**DEVICE, "clock_khz": 0, "memory_clock_khz": 0, "l2_bytes": 0}, "float32") == {}


def test_hot_arrays_that_fit_the_cache_are_not_bound_by_memory() -> None:
    spec, peaks = MatMul(64, 64, 64), {"flops_per_s": 1e12, "bytes_per_s": 1e9}

    hot = least_seconds(spec, peaks, is_cold=False, cache_bytes=1 << 20)
    cold = least_seconds(spec, peaks, is_cold=True, cache_bytes=1 << 20)

    assert hot == {"compute": pytest.approx(2 * 64**3 / 1e12)}
    assert cold["memory"] == pytest.approx(3 * 64 * 64 * 4 / 1e9)
    assert (binding(hot), binding(cold), binding({})) == ("compute", "memory", "")
