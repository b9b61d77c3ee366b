"""One capture of a program that uses several libraries: their ranges nest, their allocations are attributed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import NONE, Capture
from tests.commands.traced_programs import titles, traced


@pytest.mark.full
def test_torch_is_left_alone_on_request_and_ends_cleanly_otherwise(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = """
    import sys, threading, torch, profkit
    x = torch.ones(4, 4)

    def multiply(name):
        with profkit.scope(name):
            x @ x

    multiply("main")
    thread = threading.Thread(target=multiply, args=("thread",))
    thread.start()
    thread.join()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        x @ x
    assert any(event.key == "aten::mm" for event in own.key_averages())
    multiply("after")
    sys.exit(3)
    """

    on = traced(tmp_path, code, "--quiet")
    with_torch = read(tmp_path / "run.profkit")
    off = traced(tmp_path, code, "--quiet", "--no-torch")
    without = read(tmp_path / "run.profkit")

    assert (on.returncode, off.returncode) == (3, 3)
    assert "Leaked" not in on.stderr and "profkit" not in on.stderr
    assert parents_of(with_torch, "aten::matmul") == {"main", "thread", "after"}
    assert not any("aten::" in title for title in titles(without))


def parents_of(capture: Capture, name: str) -> set[str]:
    """Titles of the ranges that stand directly around those of this name."""
    rows = [row for row in range(len(capture.ranges)) if capture.strings[capture.ranges.name[row]] == name]
    parents = [int(capture.ranges.parent[row]) for row in rows]
    return {capture.range_title(parent) if parent != NONE else "" for parent in parents}


DONE_WHEN = """
import numpy as np, nvtx, torch, profkit
from profkit import _core
from profkit.ops import BiasRelu

spec = BiasRelu(batch=4, channels=16, height=16, width=16)
inputs = list(spec.make_inputs().values())
output = np.empty(spec.output_shape(), np.float32)
layer = torch.nn.Linear(64, 64)

@profkit.scope("step")
def step():
    with nvtx.annotate("load", domain="data"):
        batch = np.ones((512, 64), np.float32)          # 128 KiB
    with nvtx.annotate("forward", domain="model"):
        loss = layer(torch.from_numpy(batch)).sum()
    loss.backward()
    _core.run("bias_relu/native/cpu/reference", spec.params(), inputs, output, None, 1)

for _ in range(3):
    step()
"""


def test_one_capture_holds_nvtx_numpy_torch_and_kernels_nested_on_one_clock(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("nvtx")

    done = traced(tmp_path, DONE_WHEN, "--chrome", "run.json", "--perfetto", "run.pftrace")
    capture = read(tmp_path / "run.profkit")

    assert done.returncode == 0, done.stderr
    assert parents_of(capture, "load") == parents_of(capture, "forward") == {"step"}
    assert parents_of(capture, "bias_relu/native/cpu/reference") == {"step"}
    assert "model:forward" in ancestors_of(capture, "aten::addmm")
    assert capture.losses.records == 0 and (tmp_path / "run.json").exists() and (tmp_path / "run.pftrace").exists()
    check_nesting(capture)
    loads = [row for row in range(len(capture.ranges)) if capture.range_title(row) == "data:load"]
    loaded = [int(capture.allocations.bytes[capture.allocations.range == row].astype(object).sum()) for row in loads]
    assert len(loads) == 3 and all(size >= 512 * 64 * 4 for size in loaded)
    assert "data:load" in done.stdout and "step" in done.stdout


def ancestors_of(capture: Capture, name: str) -> set[str]:
    """Titles of all ranges around those of this name."""
    found: set[str] = set()
    for row in range(len(capture.ranges)):
        if capture.strings[capture.ranges.name[row]] != name:
            continue
        parent = int(capture.ranges.parent[row])
        while parent != NONE:
            found.add(capture.range_title(parent))
            parent = int(capture.ranges.parent[parent])
    return found


def check_nesting(capture: Capture) -> None:
    """Every range lies within its parent's time."""
    ranges: Any = capture.ranges
    inner = [row for row in range(len(ranges)) if ranges.parent[row] != NONE]

    assert inner
    for row in inner:
        parent = ranges.parent[row]
        assert ranges.start_ns[parent] <= ranges.start_ns[row] <= ranges.end_ns[row] <= ranges.end_ns[parent]
