"""What kernels must decline or never meet: counts beyond 32 bits, more shared memory than a device has, code that was
compiled for a device without tensor cores."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import Pool2d
from profkit.ops.softmax import Softmax
from profkit.ops.spec import Array, Spec
from tests.cuda.emulation import Case, build, run
from tests.cuda.family_checks import cases_of, runs_by_kernel
from tests.support.places import SOURCES

TURING = 75
WITHOUT_TENSOR_CORES: dict[str, tuple[Spec, ...]] = {
    "bias_relu": (BiasRelu(1, 8, 3, 3),),
    "conv2d": (
        Conv2d(batch=1, in_channels=16, height=9, width=9, out_channels=16, kernel_size=3, padding=1, layout="NHWC"),
        Conv2d(batch=1, in_channels=4, height=9, width=9, out_channels=4, kernel_size=3, padding=1, groups=4),
    ),
    "lrn": (LocalResponseNorm(1, 9, 3, 3),),
    "matmul": (MatMul(12, 20, 40), MatMul(12, 20, 40, batch=2), MatMul(8, 8, 8, dtype="float16")),
    "pool2d": (Pool2d(1, 8, 6, 6, layout="NHWC"),),
    "softmax": (Softmax(3, 40), Softmax(2, 1100)),
}


class WidePool(Pool2d):
    """Parameters only: a kernel that took them would read from nowhere."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        return {}

    def output_shape(self) -> tuple[int, ...]:
        return (0,)


class DeepNorm(LocalResponseNorm):
    """Parameters only, as above."""

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        return {}

    def output_shape(self) -> tuple[int, ...]:
        return (0,)


def test_rows_of_results_that_are_longer_than_those_of_the_images(tmp_path: Path) -> None:
    """Channels times width are below 2^31 for the images, above it for the results: their padding makes them wider."""
    spec = WidePool(1, 2145338, 1, 1000, kernel_size=(3, 3), stride=(1, 1), padding=(2, 2, 2, 2), layout="NHWC")
    assert spec.channels * spec.width < 2**31 < spec.channels * spec.window.out_size[1]

    (outcome,) = run(build("pool2d"), [Case("pool2d/native/cuda/direct", spec)], tmp_path)

    assert outcome.error == ("unsupported: channels times width, of the images or the results, must be below 2^31")


def test_channels_beyond_a_32_bit_count(tmp_path: Path) -> None:
    spec = DeepNorm(1, 2**31, 1, 1, size=5)

    (outcome,) = run(build("lrn"), [Case("lrn/native/cuda/channel_walk", spec)], tmp_path)

    assert outcome.error == "unsupported: channels are limited to 2147483632, since they are 32-bit counts"


@pytest.mark.parametrize("op", WITHOUT_TENSOR_CORES)
def test_without_tensor_cores_every_other_kernel_runs_in_the_shared_memory_there_is(op: str, tmp_path: Path) -> None:
    program = build(op)
    cases = [replace(case, capability=TURING) for case in cases_of(program, WITHOUT_TENSOR_CORES[op])]

    outcomes = [outcome for outcome in run(program, cases, tmp_path) if not outcome.is_unsupported]

    assert [text for outcome in outcomes if (text := outcome.trouble())] == []
    declined = {case.key.rsplit("/", 1)[1] for case in cases} - set(runs_by_kernel(outcomes))
    assert declined == {name for name in declined if "tensor_core" in name}


@pytest.mark.full
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
@pytest.mark.parametrize(("architecture", "has_trap"), [("compute_75", True), ("compute_80", False)])
def test_tensor_core_code_for_an_older_device_stops_instead_of_computing_nothing(
    architecture: str, has_trap: bool, tmp_path: Path
) -> None:
    """A driver translates PTX of compute_75 for any newer device, whose capability then promises tensor cores."""
    source, ptx = tmp_path / "product.cu", tmp_path / "product.ptx"
    source.write_text(
        '#include "kernels/cuda/mma.cuh"\n'
        "using namespace profkit::cuda;\n"
        "__global__ void product(float* c, const uint32_t* a) {\n"
        "  float sums[4] = {};\n"
        "  const uint32_t left[4] = {a[0], a[1], a[2], a[3]}, right[2] = {a[4], a[5]};\n"
        "  mma_m16n8k16_f16(sums, left, right);\n"
        "  c[threadIdx.x] = sums[0];\n"
        "}\n"
    )

    subprocess.run(
        ["nvcc", "-std=c++17", f"-arch={architecture}", "-I", str(SOURCES), "-ptx", str(source), "-o", str(ptx)],
        check=True,
        capture_output=True,
    )

    text = ptx.read_text()
    assert ("trap;" in text, "mma.sync" in text) == (has_trap, not has_trap)
