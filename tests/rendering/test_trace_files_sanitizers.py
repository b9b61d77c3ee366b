"""The native layout and both serialisers under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "csrc"


def test_random_contents_are_written_without_a_finding(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    program = tmp_path / "stress"
    files = [SOURCES / "captures" / f"{name}.cpp" for name in ("chrome_trace", "perfetto_trace", "trace_layout")]
    flags = ["-std=c++17", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{SOURCES}"]
    sources = [str(HERE / "native" / "stress_trace_files.cpp"), *map(str, files)]
    built = subprocess.run(
        [compiler, *flags, *sources, "-o", str(program)], capture_output=True, text=True, check=False
    )
    if "cannot find -l" in built.stderr or "cannot find lib" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr

    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 1_000_000
