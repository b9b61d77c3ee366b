"""The user's own CUDA kernel: compiled by nvcc, and run in emulation through the same entry; reasons and messages."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from profkit import matmul
from profkit.errors import KernelError, UnavailableError, UnsupportedError
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.candidate.cuda import find_nvcc
from profkit.frameworks.candidate.operators import ADAPTER, candidate_implementations
from profkit.ops import BiasRelu, MatMul
from profkit.ops.spec import max_error, tolerance
from tests.frameworks.candidate import emulated_nvcc as nvcc
from tests.frameworks.candidate.test_operators import example, write
from tests.support import fake_cuda_module
from tests.support.places import CUDA_NATIVE
from tests.support.sanitized_programs import compiled_object

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
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
def emulated(monkeypatch: pytest.MonkeyPatch) -> fake_cuda_module.FakeCuda:
    """A device of host memory, and an nvcc for it."""
    objects = [compiled_object(CUDA_NATIVE / name, nvcc.FLAGS) for name in ("simt.cpp", "simt_fiber.cpp")]
    monkeypatch.setenv("NVCC", shlex.join([sys.executable, nvcc.__file__, *objects]))
    return fake_cuda_module.install(monkeypatch)


@needs_compiler
def test_the_example_of_the_documentation_is_right_in_emulation(
    tmp_path: Path, emulated: fake_cuda_module.FakeCuda
) -> None:
    [candidate] = candidate_implementations([write(tmp_path / "my_matmul.cu", example("my_matmul.cu"))], "matmul")
    facts = ADAPTER.start(candidate, Conditions())

    for spec in (MatMul(1, 1, 1), MatMul(37, 21, 19), MatMul(16, 48, 33)):
        prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())
        error = max_error(prepared.to_numpy(prepared.call()), spec.reference(spec.make_inputs()))

        assert error <= tolerance(spec.numpy_dtype, spec.reduction_length())
        assert prepared.output == "reused"
        assert prepared.device is not None and prepared.device.stream == fake_cuda_module.STREAM
    assert candidate.key == "matmul/candidate/cuda/my_matmul"
    assert emulated.waited == [0, fake_cuda_module.STREAM] * 3
    assert facts["device"] == fake_cuda_module.DEVICE["name"]
    assert "-arch=sm_90" in facts["flags"]


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_what_the_example_does_not_offer_is_unsupported(tmp_path: Path) -> None:
    [candidate] = candidate_implementations([write(tmp_path / "my_matmul.cu", example("my_matmul.cu"))], "matmul")
    ADAPTER.start(candidate, Conditions())
    spec = MatMul(3, 4, 5, bias=True)
    prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

    with pytest.raises(UnsupportedError, match="does not offer this spec"):
        prepared.call()


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_a_dropped_barrier_makes_the_example_wrong(tmp_path: Path) -> None:
    text = example("my_matmul.cu").replace("__syncthreads();", "", 1)
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", text)], "matmul")
    ADAPTER.start(candidate, Conditions())
    spec = MatMul(37, 21, 19)
    prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

    error = max_error(prepared.to_numpy(prepared.call()), spec.reference(spec.make_inputs()))

    assert not error <= tolerance(spec.numpy_dtype, spec.reduction_length())


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_the_entry_gets_the_stream_and_its_code_is_the_message(tmp_path: Path) -> None:
    text = ENTRY.replace("BODY", "return static_cast<int>(reinterpret_cast<intptr_t>(stream));")
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", text)], "bias_relu")
    ADAPTER.start(candidate, Conditions())
    spec = BiasRelu(1, 2, 3, 4)
    prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

    words = f"mine.cu:candidate returned {fake_cuda_module.STREAM} for 2 inputs of bias_relu: error 77 "
    with pytest.raises(KernelError, match=words):
        prepared.call()


@needs_compiler
@pytest.mark.usefixtures("emulated")
def test_device_memory_that_a_candidate_does_not_get_is_missing_memory(tmp_path: Path) -> None:
    text = ENTRY.replace("BODY", "return 2;  // cudaErrorMemoryAllocation")
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", text)], "bias_relu")
    ADAPTER.start(candidate, Conditions())
    spec = BiasRelu(1, 2, 3, 4)
    prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

    with pytest.raises(MemoryError, match=r"mine.cu:candidate returned 2 .*: error 2 "):
        prepared.call()


@needs_compiler
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_arrays_cross_unchanged(tmp_path: Path, dtype: str) -> None:
    text = ENTRY.replace("BODY", COPIES_ITS_INPUT)
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", text)], "bias_relu")
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
    [candidate] = candidate_implementations(
        [write(tmp_path / "mine.cu", ENTRY.replace("BODY", "return 0;"))], "bias_relu"
    )
    ADAPTER.start(candidate, Conditions())
    spec = BiasRelu(1, 2, 3, 4)
    prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

    assert np.isnan(prepared.to_numpy(prepared.call())).all()


@needs_nvcc
def test_nvcc_compiles_the_example_and_the_missing_driver_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_cuda_module.install(monkeypatch, has_driver=False)
    [candidate] = candidate_implementations([write(tmp_path / "my_matmul.cu", example("my_matmul.cu"))], "matmul")

    with pytest.raises(UnavailableError, match=r"^my_matmul.cu compiles, but cannot run here: CUDA driver version is"):
        ADAPTER.start(candidate, Conditions())


@needs_nvcc
def test_nvccs_own_words_are_the_message_also_without_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda_module.install(monkeypatch, has_driver=False)
    text = "__global__ void kernel(float* y) {\n  y[0] = no_such_name;\n}\n"
    [candidate] = candidate_implementations([write(tmp_path / "broken.cu", text)], "conv2d")

    with pytest.raises(KernelError, match=r'broken.cu does not compile(.|\n)*broken.cu\(2\).*"no_such_name"'):
        ADAPTER.start(candidate, Conditions())


@needs_nvcc
def test_a_kernel_is_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda_module.install(monkeypatch, has_driver=False)
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", "__global__ void candidate() {}")], "conv2d")

    with pytest.raises(KernelError, match=r'mine.cu has no function candidate declared extern "C"'):
        ADAPTER.start(candidate, Conditions())


@needs_nvcc
def test_profkits_own_kernels_can_be_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_cuda_module.install(monkeypatch, has_driver=False)
    text = (
        "#include <profkit/kernels/matmul/cuda/naive.cuh>\n"
        "template __global__ void profkit::cuda::matmul_naive<float>(\n"
        "    const MatmulProblem, const float*, const float*, const float*, float*);\n"
        'extern "C" int candidate() { return 0; }\n'
    )
    [candidate] = candidate_implementations([write(tmp_path / "mine.cu", text)], "matmul")

    with pytest.raises(UnavailableError, match=r"^mine.cu compiles"):
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NVCC", "no-such-nvcc")
    file = write(tmp_path / "my_matmul.cu", example("my_matmul.cu"))

    code = matmul.main(["--m", "6", "--n", "7", "--k", "8", "--only", "numpy", "--candidate", file, "--budget", "0.2s"])

    shown = capsys.readouterr().out
    assert code == 0
    assert re.search(r"^numpy .*baseline", shown, re.MULTILINE)
    assert re.search(r"^candidate/cuda/my_matmul +unavailable +no CUDA compiler: \$NVCC is 'no-such-nvcc'", shown, re.M)
