"""The NVTX and ITT doors under the thread, address and undefined-behaviour sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import RangeKind, Source
from tests.support.processes import succeed
from tests.tracer.programs import environment, rows, stress_program

pytestmark = pytest.mark.full


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_doors_used_by_threads_while_captures_start_and_stop_are_clean_and_complete(
    sanitizer: str, tmp_path: Path
) -> None:
    program = stress_program(tmp_path, "stress_doors", sanitizer)

    output = succeed([str(program), str(tmp_path), "4"], environment(None))

    expected_ranges, expected_marks = map(int, output.split())
    capture = read(str(tmp_path / "3.profkit"))
    found = rows(capture, Source.NVTX) + rows(capture, Source.ITT)
    marks = sum(row.kind == RangeKind.MARK for row in found)
    assert capture.losses.records == 0
    assert (len(found) - marks, marks) == (expected_ranges, expected_marks)
    assert capture.ranges.is_open.sum() == 1  # the span that nobody came to end
    assert capture.threads.unbalanced_pops.sum() == 0
