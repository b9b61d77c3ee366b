"""A user's .cu file through the real worker: nvcc's object of it, linked to the double of the CUDA runtime.

The double runs emulated kernels, and those are profkit's: the candidate's own entry launches one of them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.cuda_double import double_environment, run_on_double

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
KEY, NUMPY = "matmul/candidate/cuda/mine", "matmul/numpy/cpu"
SOURCE = """
#include <cuda_runtime.h>
#include <profkit/kernels/matmul/cuda/naive.cuh>
#include <profkit/params.h>

extern "C" int candidate(const profkit_matmul_params* p, const void* const* inputs, void* output, cudaStream_t stream) {
  if (p->dtype != PROFKIT_FLOAT32 || p->transpose_a || p->transpose_b || p->bias || p->batch != 1) return -1;
  profkit::cuda::MatmulProblem problem{};
  problem.m = p->m;
  problem.n = p->n;
  problem.k = p->k;
  problem.a_row = p->k;
  problem.b_row = problem.c_row = p->n;
  const dim3 grid((p->m + 15) / 16, (p->n + 15) / 16), block(16, 16);
  profkit::cuda::matmul_naive<float><<<grid, block, 0, stream>>>(
      problem, static_cast<const float*>(inputs[0]), static_cast<const float*>(inputs[1]), nullptr,
      static_cast<float*>(output));
  return cudaGetLastError();
}
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file; nvcc links the double where its own runtime would be."""
    folder = double_environment()["PYTHONPATH"].split(":")[0]
    linked = f"-cudart none -L{folder} -l:libcudart_double.so -Xlinker -rpath={folder}"
    monkeypatch.setenv("PROFKIT_NVCCFLAGS", linked)
    monkeypatch.setenv("PROFKIT_CUDA_DOUBLE_CAPABILITY", "80")
    path = tmp_path / "mine.cu"
    path.write_text(SOURCE)
    return path


def rows(source: Path, *flags: str, **settings: object) -> dict[str, dict[str, Any]]:
    """Rows of one command by key."""
    path = source.with_name("result.json")
    words = ["-m", "profkit.matmul", "--m", "33", "--n", "18", "--k", "5", "--budget", "0.1s", "--threads", "1", *flags]
    done = run_on_double([*words, "--candidate", str(source), "--only", NUMPY, "--json", str(path)], **settings)
    assert path.exists(), done.stdout + done.stderr
    (cell,) = json.loads(path.read_text())["cells"]
    return {row["key"]: row for row in cell["rows"]}


def test_a_candidate_is_compiled_launched_verified_and_timed_by_events(source: Path) -> None:
    log = source.with_name("launches")

    row = rows(source, log=log)[KEY]

    assert row["status"] == "ok", row["reason"]
    assert 0 <= row["max_error"] <= row["tolerance"]
    assert row["timing"] == "CUDA events behind a holding kernel" and row["samples_ns"]
    launches = [json.loads(line) for line in log.read_text().splitlines()]
    own = [launch for launch in launches if "matmul_naive" in launch["kernel"]]
    assert own and all(launch["grid"] == [3, 2, 1] and not launch["default_stream"] for launch in own)


@pytest.mark.parametrize(
    ("flags", "settings", "status", "words"),
    [
        (["--bias"], {}, "unsupported", "mine.cu:candidate does not offer this spec (it returned -1)"),
        pytest.param(
            [],
            {"fail": "launch@1=701"},
            "crashed",
            "returned 701 for 2 inputs of matmul: too many resources requested",
            marks=pytest.mark.full,
        ),
        pytest.param(
            [],
            {"fail": "launch@1=2"},
            "oom",
            "returned 2 for 2 inputs of matmul: out of memory",
            marks=pytest.mark.full,
        ),
        ([], {"manner": "idle@matmul_naive"}, "wrong", ""),
    ],
)
def test_a_candidate_that_fails_costs_its_own_row(
    source: Path, flags: list[str], settings: dict[str, str], status: str, words: str
) -> None:
    found = rows(source, *flags, **settings)

    assert found[KEY]["status"] == status and words in found[KEY]["reason"]
    assert found[NUMPY]["status"] == "ok"


def test_a_typing_error_in_a_candidate_costs_neither_the_device_nor_a_worker(source: Path) -> None:
    source.write_text(SOURCE.replace("problem.n = p->n;", "problem.n = q->n;"))
    log = source.with_name("launches")

    found = rows(source, "--only", "native/cuda/naive", log=log)

    row = found[KEY]
    assert (row["status"], 'identifier "q" is undefined' in row["reason"]) == ("not compiled", True), row["reason"]
    assert found["matmul/native/cuda/naive"]["status"] == "ok"
    assert "lost" not in {other["status"] for other in found.values()}
