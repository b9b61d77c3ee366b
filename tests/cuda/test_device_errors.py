"""What a CUDA row says when the driver, the device or its memory fails: the commands on the double of the runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.cuda_double import run_on_double

MATMUL = ["-m", "profkit.matmul", "--m", "6", "--n", "5", "--k", "4", "--budget", "0.1s", "--threads", "1"]
NAIVE, COALESCED, REFERENCE = "matmul/native/cuda/naive", "matmul/native/cuda/coalesced", "matmul/native/cpu/reference"


def rows_of(tmp_path: Path, *only: str, **settings: object) -> dict[str, dict[str, Any]]:
    """Rows of one command by key."""
    path = tmp_path / "result.json"
    command = [*MATMUL, "--device", "all", "--only", ",".join(only), "--json", str(path)]
    done = run_on_double(command, **settings)
    assert path.exists(), done.stdout + done.stderr
    (cell,) = json.loads(path.read_text())["cells"]
    return {row["key"]: row for row in cell["rows"]}


def test_a_row_on_the_device_is_measured_by_events(tmp_path: Path) -> None:
    row = rows_of(tmp_path, NAIVE)[NAIVE]
    assert row["status"] == "ok", row["reason"]
    assert row["timing"] == "CUDA events behind a holding kernel"
    assert row["samples_ns"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        pytest.param({"driver": 0}, ("no CUDA driver here",), marks=pytest.mark.full),
        ({"driver": 12020}, ("the driver is for CUDA 12.2", "update the driver")),
        pytest.param(
            {"devices": 0}, ("no CUDA-capable device is detected", "cudaErrorNoDevice"), marks=pytest.mark.full
        ),
    ],
)
def test_without_a_device_rows_are_unavailable(
    settings: dict[str, int], words: tuple[str, ...], tmp_path: Path
) -> None:
    rows = rows_of(tmp_path, NAIVE, REFERENCE, **settings)
    assert rows[NAIVE]["status"] == "unavailable"
    for word in words:
        assert word in rows[NAIVE]["reason"]
    assert rows[REFERENCE]["status"] == "ok"


def test_device_memory_that_is_missing(tmp_path: Path) -> None:
    row = rows_of(tmp_path, NAIVE, memory=100)[NAIVE]
    assert row["status"] == "oom"
    assert "bytes on the device: out of memory" in row["reason"]


def test_no_binary_and_no_ptx_for_the_device(tmp_path: Path) -> None:
    row = rows_of(tmp_path, NAIVE, fail="launch@1=209")[NAIVE]
    assert row["status"] == "unavailable"
    assert "no kernel image is available" in row["reason"]
    assert "PROFKIT_CUDA_ARCHITECTURES=native" in row["reason"]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        pytest.param("launch@1=701", "too many resources requested for launch", marks=pytest.mark.full),
        pytest.param("execution@1=719", "unspecified launch failure", marks=pytest.mark.full),
        pytest.param("execution@1=700", "an illegal memory access was encountered", marks=pytest.mark.full),
        # In the middle of the samples: the first call, whose result is checked, was right.
        ("execution@20=214", "uncorrectable ECC error encountered"),
    ],
)
def test_a_failure_costs_the_row_and_no_other(failure: str, words: str, tmp_path: Path) -> None:
    rows = rows_of(tmp_path, NAIVE, REFERENCE, fail=failure)
    assert rows[NAIVE]["status"] not in ("ok", "unavailable")
    assert words in rows[NAIVE]["reason"]
    assert rows[REFERENCE]["status"] == "ok"


@pytest.mark.parametrize(
    "when", [pytest.param(1, marks=pytest.mark.full, id="first call"), pytest.param(20, id="samples")]
)
def test_a_device_that_is_lost_ends_every_cuda_row_and_no_other(when: int, tmp_path: Path) -> None:
    lost = tmp_path / "lost"

    rows = rows_of(tmp_path, NAIVE, COALESCED, REFERENCE, fail=f"execution@{when}=999", lost=lost)

    assert lost.exists()
    for key in (NAIVE, COALESCED):
        assert rows[key]["status"] == "lost", rows[key]["reason"]
        assert "the CUDA device was lost while" in rows[key]["reason"]
        assert "cudaErrorUnknown" in rows[key]["reason"]
        assert "a new process says: counting devices: no CUDA-capable device is detected" in rows[key]["reason"]
        assert rows[key]["median_ns"] is None
    assert rows[REFERENCE]["status"] == "ok"
    assert rows[REFERENCE]["samples_ns"]


def test_an_error_of_the_device_sticks(tmp_path: Path) -> None:
    """After a failed kernel every call returns its error, as the real runtime does: nothing may look measured."""
    program = """
from profkit import _cuda
from profkit.errors import KernelError
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.ops import MatMul
spec = MatMul(4, 4, 4)
row = Implementation("matmul/native/cuda/naive", "native_cuda")
prepared = load_adapter("native_cuda").prepare(row, spec, spec.make_inputs(), Conditions())
for attempt in (prepared.call, prepared.call, lambda: _cuda.DeviceMemory(1)):
    try:
        attempt()
    except KernelError as error:
        print(error)
"""
    done = run_on_double(["-c", program], fail="execution@1=700")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert all("cudaErrorIllegalAddress" in line for line in done.stdout.splitlines())
