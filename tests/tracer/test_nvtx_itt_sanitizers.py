"""The NVTX and ITT doors under the thread, address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from door_programs import environment, rows
from sanitized_programs import SOURCES, build_program

from profkit.capture.reading import read
from profkit.capture.schema import RangeKind, Source

NATIVE = Path(__file__).parent / "native"
pytestmark = pytest.mark.full
# The allocation door takes malloc's place, and so does a sanitizer.
LEFT_OUT = {
    "tracer/doors/allocations.cpp",
    "tracer/doors/mappings.cpp",
    "tracer/doors/next_allocator.cpp",
    "tracer/process/hooks.cpp",
}


def tracer_sources() -> list[Path]:
    """What CMake builds the library from, without LEFT_OUT."""
    listed = re.search(r"set\(TRACER_SOURCES(.*?)\)", (SOURCES / "CMakeLists.txt").read_text(), re.DOTALL)
    assert listed is not None
    return [SOURCES / path for path in listed[1].split() if path not in LEFT_OUT]


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_doors_used_by_threads_while_captures_start_and_stop_are_clean_and_complete(
    sanitizer: str, tmp_path: Path
) -> None:
    program = build_program(tmp_path / "stress_doors", [NATIVE / "stress_doors.cpp", *tracer_sources()], sanitizer)

    done = subprocess.run(
        [str(program), str(tmp_path), "4"], env=environment(None), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    expected_ranges, expected_marks = map(int, done.stdout.split())
    capture = read(str(tmp_path / "3.profkit"))
    found = rows(capture, Source.NVTX) + rows(capture, Source.ITT)
    marks = sum(row.kind == RangeKind.MARK for row in found)
    assert capture.losses.records == 0
    assert (len(found) - marks, marks) == (expected_ranges, expected_marks)
    assert capture.ranges.is_open.sum() == 1  # the span that nobody came to end
    assert capture.threads.unbalanced_pops.sum() == 0
