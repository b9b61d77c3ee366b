"""nvcc's host code on the double of the CUDA runtime: every kernel is launched as on a GPU, and its result is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.cuda_double import run_on_double
from tests.cuda.emulation import note_proof
from tests.support.places import ROOT, SOURCES

OPERATORS = sorted(path.parents[1].name for path in SOURCES.glob("kernels/*/cuda/rows.cpp"))
KEYS = "import json; from profkit import _cuda; print(json.dumps(_cuda.kernels({op!r})))"


def launches_of(log: Path) -> list[dict[str, Any]]:
    """What the double recorded."""
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("op", OPERATORS)
def test_every_kernel_is_launched_and_right(op: str, tmp_path: Path) -> None:
    done = run_on_double([str(ROOT / "tests" / "cuda" / "launch_runner.py"), op], log=tmp_path / "launches")
    assert done.returncode == 0, done.stderr[-3000:]
    runs = json.loads(done.stdout.splitlines()[-1])
    wrong = [run for run in runs if run[3]]
    assert not wrong, f"{len(wrong)} of {len(runs)}: {wrong[:5]}"
    keys = json.loads(run_on_double(["-c", KEYS.format(op=op)]).stdout)
    assert {run[0] for run in runs} == set(keys), "kernels that no odd spec reaches"
    launches = launches_of(tmp_path / "launches")
    assert len(launches) >= len(runs)
    assert all(run[4] for run in runs), "a row was right without a kernel"
    started = {key: sorted({name for run in runs if run[0] == key for name in run[4]}) for key in keys}
    note_proof("launched", ((run[0], run[2]) for run in runs), launches=launches, kernels=started)
    # Calls are timed on a stream of their own: what went to the default stream would escape the events.
    assert not [launch for launch in launches if launch["default_stream"]]


REFUSED = """
from profkit import _cuda
from profkit.ops import MatMul
spec = MatMul(4, 4, 4)
arrays = [_cuda.DeviceMemory(64) for _ in range(3)]
stream = _cuda.Stream()
def bind(inputs=arrays[:2], output=arrays[2], configuration=-1, key="matmul/native/cuda/naive"):
    return _cuda.bind(key, spec.params(), inputs, output, None, stream.handle, configuration)
"""


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("bind(inputs=arrays[:1])", "expected 2 inputs, got 1"),
        ("bind(output=_cuda.DeviceMemory(60))", "output: the device memory has 60 bytes, 64 are needed"),
        ("bind(configuration=999)", "there is no number 999"),
        ("bind(key='matmul/native/cuda/none')", "unknown CUDA kernel matmul/native/cuda/none; known:"),
        ("arrays[0].upload(bytes(3))", "the array has 3 bytes, the device memory 64"),
    ],
)
def test_wrong_arguments_are_refused_before_a_launch(call: str, message: str, tmp_path: Path) -> None:
    log = tmp_path / "launches"
    log.touch()
    done = run_on_double(["-c", REFUSED + call], log=log)
    assert done.returncode == 1
    assert f"KernelError: {message}" in done.stderr or message in done.stderr.splitlines()[-1]
    assert not launches_of(log)
