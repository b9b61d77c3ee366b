"""The user's own CUDA kernel: compiled by nvcc, and run in emulation through the same entry; reasons and messages."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import CompileError, KernelError, LoadError, UnavailableError, UnsupportedError
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.candidate.cuda import find_nvcc
from profkit.frameworks.candidate.operators import ADAPTER
from profkit.ops import BiasRelu, MatMul
from tests.frameworks.candidate import emulated_nvcc as nvcc
from tests.frameworks.candidate.candidate_files import example, is_right, made, needs_compiler, prepare, write
from tests.support import host_cuda
from tests.support.places import CUDA_NATIVE
from tests.support.sanitized_programs import compiled_object
from tests.support.typed import Typed

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
# The host's side alone: what arrives, without a kernel.
ENTRY = """
#include <cuda_runtime.h>
#include <profkit/params.h>
#include <cstring>
extern "C" int candidate(const profkit_bias_relu_params* p, const void* const* in, void* out, cudaStream_t stream) {
  BODY
}
"""
COPIES_ITS_INPUT = "std::memcpy(out, in[0], 2 * p->batch * p->channels * p->height * p->width); return 0;"


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> host_cuda.HostCuda:
    """A device of host memory, and an nvcc for it."""
    objects = [compiled_object(CUDA_NATIVE / name, nvcc.FLAGS) for name in ("simt.cpp", "simt_fiber.cpp")]
    monkeypatch.setenv("NVCC", shlex.join([sys.executable, nvcc.__file__, *objects]))
    return host_cuda.install(monkeypatch)


@needs_compiler
def test_the_example_of_the_documentation_is_right_in_emulation(tmp_path: Path, emulated: host_cuda.HostCuda) -> None:
    candidate = made(tmp_path / "my_matmul.cu", example("my_matmul.cu"), "matmul")
    facts = ADAPTER.start(candidate, Conditions())

    for spec in (MatMul(1, 1, 1), MatMul(37, 21, 19), MatMul(16, 48, 33)):
        prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

        assert is_right(prepared.to_numpy(prepared.call()), spec)
        assert prepared.output == "reused"
        assert prepared.device is not None and prepared.device.stream == host_cuda.STREAM
    assert candidate.key == "matmul/candidate/cuda/my_matmul"
    assert emulated.waited == [0, host_cuda.STREAM] * 3
    assert facts["device"] == host_cuda.DEVICE["name"]
    assert "-arch=sm_90" in facts["flags"]


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_what_the_example_does_not_offer_is_unsupported(tmp_path: Path) -> None:
    spec = MatMul(3, 4, 5, bias=True)
    prepared = prepare(made(tmp_path / "my_matmul.cu", example("my_matmul.cu"), "matmul"), spec)

    with pytest.raises(UnsupportedError, match="does not offer this spec"):
        prepared.call()


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_a_dropped_barrier_makes_the_example_wrong(tmp_path: Path) -> None:
    text = example("my_matmul.cu").replace("__syncthreads();", "", 1)
    spec = MatMul(37, 21, 19)
    prepared = prepare(made(tmp_path / "mine.cu", text, "matmul"), spec)

    assert not is_right(prepared.to_numpy(prepared.call()), spec)


@needs_compiler
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (
            "return static_cast<int>(reinterpret_cast<intptr_t>(stream));",
            KernelError,
            f"mine.cu:candidate returned {host_cuda.STREAM} for 2 inputs of bias_relu: error 77 ",
        ),
        ("return 2;  // cudaErrorMemoryAllocation", MemoryError, r"mine.cu:candidate returned 2 .*: error 2 "),
    ],
    ids=["the stream as a code", "no memory"],
)
def test_the_code_of_the_entry_is_the_message(body: str, error: type[Exception], words: str, tmp_path: Path) -> None:
    prepared = prepare(made(tmp_path / "mine.cu", ENTRY.replace("BODY", body), "bias_relu"), BiasRelu(1, 2, 3, 4))

    with pytest.raises(error, match=words):
        prepared.call()


@needs_compiler
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_arrays_cross_unchanged(tmp_path: Path, dtype: str) -> None:
    text = ENTRY.replace("BODY", COPIES_ITS_INPUT)
    candidate = made(tmp_path / "mine.cu", text, "bias_relu")
    ADAPTER.start(candidate, Conditions())
    spec = BiasRelu(1, 2, 3, 4, dtype=dtype)
    inputs = spec.make_inputs()
    prepared = ADAPTER.prepare(candidate, spec, inputs, Conditions())

    result = prepared.to_numpy(prepared.call())

    assert result.dtype == spec.numpy_dtype
    np.testing.assert_array_equal(result, inputs["x"])


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_what_a_kernel_leaves_unwritten_is_nan(tmp_path: Path) -> None:
    spec = BiasRelu(1, 2, 3, 4)
    prepared = prepare(made(tmp_path / "mine.cu", ENTRY.replace("BODY", "return 0;"), "bias_relu"), spec)

    assert np.isnan(prepared.to_numpy(prepared.call())).all()


INCLUDES_OURS = """
#include <profkit/kernels/matmul/cuda/naive.cuh>
template __global__ void profkit::cuda::matmul_naive<float>(
    const MatmulProblem, const float*, const float*, const float*, float*);
extern "C" int candidate() { return 0; }
"""


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (example("my_matmul.cu"), UnavailableError, r"^mine.cu compiles, but cannot run here: CUDA driver version is"),
        (INCLUDES_OURS, UnavailableError, r"^mine.cu compiles"),
        (
            "__global__ void kernel(float* y) {\n  y[0] = no_such_name;\n}\n",
            CompileError,
            r'mine.cu does not compile(.|\n)*mine.cu\(2\).*"no_such_name"',
        ),
        ("__global__ void candidate() {}", LoadError, r'mine.cu has no function candidate declared extern "C"'),
    ],
    ids=["example", "our kernels", "broken", "no entry"],
)
def test_nvcc_compiles_without_a_driver_and_its_own_words_are_the_message(
    text: str, error: type[Exception], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_cuda.install(monkeypatch, has_driver=False)
    candidate = made(tmp_path / "mine.cu", text, "matmul")

    with pytest.raises(error, match=words):
        ADAPTER.start(candidate, Conditions())


@pytest.mark.parametrize("named", ["", "no-such-nvcc"])
def test_a_missing_nvcc_is_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NVCC", named)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("profkit.frameworks.candidate.cuda.DEFAULT_HOME", str(tmp_path))

    with pytest.raises(UnavailableError, match=r"no CUDA compiler.*\$NVCC"):
        find_nvcc()


def test_a_candidate_that_cannot_run_costs_its_own_row_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    file = write(tmp_path / "my_matmul.cu", example("my_matmul.cu"))

    sizes = ["--m", "6", "--n", "7", "--k", "8"]

    code, shown, _ = typed("matmul", *sizes, "--only", "numpy", "--candidate", file, "--budget", "0.2s")

    assert code == 1
    assert re.search(r"^numpy .*baseline", shown, re.MULTILINE)
    assert re.search(r"^candidate/cuda/my_matmul +unavailable +no CUDA compiler: \$NVCC is 'no-such-nvcc'", shown, re.M)
