"""The native layout and both serialisers under the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.places import SOURCES
from tests.support.sanitized_programs import build_program

HERE = Path(__file__).parent
_SOURCES = ("chrome_trace", "perfetto_extensions", "perfetto_stages", "perfetto_trace", "trace_layout")


@pytest.mark.full
def test_random_contents_are_written_without_a_finding(tmp_path: Path) -> None:
    files = [SOURCES / "captures" / "export" / f"{name}.cpp" for name in _SOURCES]
    program = build_program(
        tmp_path / "stress", [HERE / "native" / "stress_trace_files.cpp", *files], "address,undefined"
    )

    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 1_000_000
