"""From a traced program to the tables of its GPU: recorded through the doubles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.passes import usage_of
from tests.support.typed import Typed
from tests.tracer.cupti.gpu_programs import GpuProgram, device_of

PROGRAM = """
for _ in range(3):
    with profkit.scope("conv"):
        first, second = call(), call()
        start = kernel("ampere_sgemm_128x64_nn", first, lasts=90_000)
        kernel("beside_it", second, at=start, after=10_000, lasts=200_000)
        time.sleep(0.001)
    with profkit.scope("pool"):
        kernel("max_pool", call(), lasts=7_000)
    copy(1, 1, 3, 4096, call(COPY))
gpu.double_memory(0, big(1), big(4096), 3, big(0))
"""


def test_kernels_of_a_scope_are_its_own_and_copies_outside_are_not(
    gpu: GpuProgram, typed: Typed, tmp_path: Path
) -> None:
    capture = device_of(gpu(PROGRAM)[0])

    usage = usage_of(capture, "operator", clock=DEVICES)
    typed.shows("report", capture.path, "--by", "gemm", "--json", tmp_path / "usage.json")

    rows = {row.name: row for row in usage.rows}
    # The two clocks are joined by a line, which rounds.
    for name, launches, device_ns in (("conv", 6, 3 * 290_000), ("pool", 3, 3 * 7_000)):
        row = rows[name]
        assert (row.calls, row.launches, row.copy_bytes) == (3, launches, None)
        assert row.device_ns == pytest.approx(device_ns, abs=20)
    assert usage.left("copy_bytes") == 3 * 4096
    (gemm,) = json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))["rows"]
    assert (gemm["name"], gemm["calls"], gemm["device_ns"]) == ("128x64_nn f32", 3, pytest.approx(270_000, abs=20))
