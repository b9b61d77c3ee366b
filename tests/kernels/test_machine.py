"""Processor features, forced SIMD levels, build facts and measured peaks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time

import pytest

from profkit import _core
from profkit.errors import KernelError
from tests.support.places import ROOT
from tests.support.processes import finish

RUN_ALL_KERNELS = """
import sys
from tests.kernels.kernel_calls import all_keys, assert_right, taken_odd_specs
from profkit import _core

assert _core.cpu_features()["simd_active"] == sys.argv[1]
found = []
for key in all_keys():
    try:
        assert_right(key, taken_odd_specs(key), [2])
    except AssertionError as error:
        found.append(str(error))
sys.exit("\\n".join(found) or None)
"""


def run_at(level: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process with PROFKIT_SIMD set: the level is chosen once per process."""
    environment = {**os.environ, "PROFKIT_SIMD": level, "PYTHONPATH": str(ROOT)}
    return finish([sys.executable, "-c", code, level], environment)


@pytest.mark.parametrize("level", _core.cpu_features()["simd_processor"])
def test_every_kernel_is_right_at_every_simd_level(level: str) -> None:
    if level not in _core.cpu_features()["simd_compiled"]:
        pytest.skip(f"this build has no code for {level}; one with PROFKIT_ALL=ON has")

    done = run_at(level, RUN_ALL_KERNELS)

    assert done.returncode == 0, done.stderr


PORTABLE = """
from profkit import _core
from profkit.frameworks.native.policy import choose_kernel
from profkit.ops.conv2d import Conv2d

spec = Conv2d(batch=1, in_channels=32, height=16, width=16, out_channels=32, kernel_size=(3, 3), padding=(1, 1, 1, 1))
reasons = {key.rpartition("/")[2]: _core.supports(key, spec.params()) for key in _core.kernels("conv2d")}
print(*sorted(name for name, reason in reasons.items() if not reason))
print(choose_kernel(spec, 1, tuned=False).key)
print(reasons["direct"])
try:
    _core.workspace_bytes("conv2d/native/cpu/direct", spec.params(), 1)
except Exception as error:
    print(type(error).__name__)
"""


def test_the_portable_code_has_one_convolution_beside_the_reference_and_says_so() -> None:
    done = run_at("generic", PORTABLE)

    assert done.returncode == 0, done.stderr
    supported, chosen, reason, refusal = done.stdout.splitlines()
    assert supported == "implicit_gemm reference"
    assert chosen == "conv2d/native/cpu/implicit_gemm"
    features = _core.cpu_features()
    assert reason.startswith(
        "it has no portable code, as implicit_gemm and reference have; generic is in use, this build"
    )
    assert reason.endswith(": build profkit on this machine") == (features["simd_supported"] == ["generic"])
    assert refusal == "UnsupportedError"


@pytest.mark.parametrize("level", ["sse9", "avx512", "neon"])
def test_a_level_that_cannot_run_is_refused_with_the_choices(level: str) -> None:
    if level in _core.cpu_features()["simd_supported"]:
        pytest.skip(f"this processor and this build run {level}")

    done = run_at(level, "from profkit import _core; _core.cpu_features()")

    assert f"KernelError: PROFKIT_SIMD={level} cannot be used: this processor runs generic" in done.stderr


def test_features_and_build_agree() -> None:
    features, build = _core.cpu_features(), _core.build_info()

    assert build["simd"].split() == features["simd_compiled"]
    assert features["simd_supported"] == [one for one in features["simd_processor"] if one in features["simd_compiled"]]
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


def test_a_round_trip_needs_two_processors_that_exist_and_leaves_the_thread_where_it_may_run() -> None:
    before = os.sched_getaffinity(0)

    assert _core.round_trip_ns(-1, 0) == _core.round_trip_ns(min(before), 10**6) == 0.0
    if len(before) > 1:
        # Both must run at once: where other tests compute, that takes some tries.
        deadline = time.monotonic() + 60.0
        while not 10.0 < _core.round_trip_ns(*sorted(before)[:2]) < 1e6:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert os.sched_getaffinity(0) == before
