"""From a traced program to the tables of its GPU: recorded through the doubles, conserved by every grouping."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from profkit.attribution.device.groups import GROUPINGS
from profkit.attribution.device.usage import device_usage
from profkit.capture.schema import Capture
from profkit.report import main
from tests.tracer.cupti.gpu_programs import device_of, run_gpu_program

PROGRAM = """
for _ in range(3):
    with profkit.scope("conv"):
        start = kernel("ampere_sgemm_128x64_nn", call(), lasts=90_000)
        kernel("beside_it", call(), at=start, after=10_000, lasts=200_000)
        time.sleep(0.001)
    copy(1, 1, 3, 4096, call(COPY))
"""


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Capture:
    return run_gpu_program(tmp_path_factory.mktemp("usage"), PROGRAM)[0]


@pytest.mark.parametrize("by", GROUPINGS)
def test_tables_of_a_recorded_gpu_add_up(by: str, capture: Capture) -> None:
    trace = device_of(capture)
    durations = (trace.activities["end_ns"] - trace.activities["start_ns"]).tolist()

    usage = device_usage(trace, by)

    assert sum(row.exclusive_ns for row in usage.rows) + usage.remainder_ns == usage.wall_ns
    assert usage.wall_ns == trace.end_ns - trace.start_ns
    assert sum(durations) == usage.device_ns
    assert (usage.parts or {})["copy_ns"] > 0
    for field, total in (("launches", 9), ("device_ns", sum(durations)), ("copy_bytes", 3 * 4096)):
        found = sum(value or 0 for value in usage.rows.column(field))
        assert found + sum(getattr(part, field) for part in usage.remainders) == total


def test_kernels_of_a_scope_are_its_own_and_copies_outside_are_not(capture: Capture) -> None:
    usage = device_usage(device_of(capture), "operator")

    (row,) = [row for row in usage.rows if row.name == "conv"]
    assert (row.calls, row.launches, row.copy_bytes) == (3, 6, None)
    # The two clocks are joined by a line, which rounds.
    assert row.device_ns == pytest.approx(3 * 290_000, abs=20)


def test_the_report_of_a_capture_has_the_tables_of_its_gpu(capture: Capture, tmp_path: Path) -> None:
    target = tmp_path / "usage.json"

    code = main([capture.path, "--by", "gemm", "--json", str(target)])

    data = json.loads(target.read_text(encoding="utf-8"))
    assert code == 0
    (row,) = data["rows"]
    assert (row["name"], row["calls"], row["device_ns"]) == ("128x64_nn f32", 3, pytest.approx(270_000, abs=20))
