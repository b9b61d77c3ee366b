"""Processor features, forced SIMD levels, build facts and measured peaks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profkit import _core
from profkit.errors import KernelError

RUN_ALL_KERNELS = """
import sys
from kernel_calls import OPERATORS, reference_of, run_kernel
from profkit import _core
from profkit.backends.native_params import native_params
from profkit.ops.odd_shapes import odd_specs
from profkit.ops.spec import max_error, tolerance

assert _core.cpu_features()["simd_active"] == sys.argv[1]
for op in OPERATORS:
    for key in _core.kernels(op):
        for spec in odd_specs(op):
            if not _core.supports(key, native_params(spec)):
                error = max_error(run_kernel(key, spec, 2), reference_of(spec))
                assert error <= tolerance(spec.numpy_dtype, spec.reduction_length()), (key, spec, error)
"""


def run_at(level: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process with PROFKIT_SIMD set: the level is chosen once per process."""
    environment = {**os.environ, "PROFKIT_SIMD": level, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(
        [sys.executable, "-c", code, level], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("level", _core.cpu_features()["simd_compiled"])
def test_every_kernel_is_right_at_every_simd_level(level: str) -> None:
    if level not in _core.cpu_features()["simd_supported"]:
        pytest.skip(f"this processor does not run {level}")

    done = run_at(level, RUN_ALL_KERNELS)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("level", ["sse9", "avx512", "neon"])
def test_a_level_that_cannot_run_is_refused_with_the_choices(level: str) -> None:
    if level in _core.cpu_features()["simd_supported"]:
        pytest.skip(f"this processor runs {level}")

    done = run_at(level, "from profkit import _core; _core.cpu_features()")

    assert f"KernelError: PROFKIT_SIMD={level} cannot be used: this processor runs generic" in done.stderr


def test_features_and_build_agree() -> None:
    features, build = _core.cpu_features(), _core.build_info()

    assert build["simd"].split() == features["simd_compiled"]
    assert set(features["simd_supported"]) <= set(features["simd_compiled"])
    assert features["simd_active"] in features["simd_supported"]
    assert all(f"[{level}]" in build["simd_flags"] for level in features["simd_compiled"])
    assert build["compiler"]
    assert "-O" in build["flags"]
    assert build["cuda"] == (importlib.util.find_spec("profkit._cuda") is not None)


def test_peaks_are_plausible_rates() -> None:
    flops, bandwidth = _core.peak_flops("float64", 2), _core.copy_bandwidth(2)

    # Any machine of this century, however loaded, and none of this decade.
    assert 1e8 < flops < 1e15
    assert 1e7 < bandwidth < 1e14


def test_a_peak_of_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(KernelError, match="dtype must be float32 or float64, got int8"):
        _core.peak_flops("int8", 1)
