"""The NVTX and ITT doors under the thread, address and undefined-behaviour sanitizers."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from door_programs import SOURCES, environment, rows

from profkit.capture.reading import read
from profkit.capture.tables import RangeKind, Source

NATIVE = Path(__file__).parent / "native"
# The allocation door takes malloc's place, and so does a sanitizer.
LEFT_OUT = {"door_allocations.cpp", "door_mappings.cpp", "next_allocator.cpp", "process_hooks.cpp"}


def tracer_sources() -> list[str]:
    """What CMake builds the library from, without LEFT_OUT."""
    listed = re.search(r"set\(TRACER_SOURCES(.*?)\)", (SOURCES.parent / "CMakeLists.txt").read_text(), re.DOTALL)
    assert listed is not None
    return [str(SOURCES.parent / path) for path in listed[1].split() if Path(path).name not in LEFT_OUT]


def build(folder: Path, sanitizer: str) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    program = folder / f"stress_{sanitizer}"
    flags = ["-std=c++17", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-pthread"]
    flags += ['-DPROFKIT_VERSION="0"', "-I", str(SOURCES)]
    sources = [str(NATIVE / "stress_doors.cpp"), *tracer_sources()]
    done = subprocess.run(
        [compiler, *flags, *sources, "-o", str(program), "-ldl"], capture_output=True, text=True, check=False
    )
    if f"cannot find -l{sanitizer[0]}" in done.stderr or "cannot find lib" in done.stderr:
        pytest.skip(f"the compiler has no {sanitizer} sanitizer")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.parametrize("sanitizer", ["thread", "address", "undefined"])
def test_doors_used_by_threads_while_captures_start_and_stop_are_clean_and_complete(
    sanitizer: str, tmp_path: Path
) -> None:
    program = build(tmp_path, sanitizer)

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
