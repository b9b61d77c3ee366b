"""Programs for the tests of the recorder: native sources in, a compiled program and its run under capture out."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from sanitized_programs import SOURCES, build_program

from profkit import _core
from profkit.capture.schema import Capture, RangeKind

PROGRAMS = Path(__file__).parent / "native"
LIBRARY = Path(_core.__file__).with_name("libprofkit_inject.so")

# The recorder without its doors and process hooks, which a sanitizer's own would fight.
RECORDER = (
    "core/api",
    "file/capture_file",
    "core/chunks",
    "core/clock",
    "file/crc32c",
    "core/demangling",
    "cupti/correlation",
    "cupti/queue",
    "core/names",
    "core/overhead",
    "process/description",
    "core/recorder",
    "core/session",
    "core/thread_names",
    "core/threads",
    "file/writer",
)


def compile_stress(folder: Path, sanitizers: str) -> Path:
    """The stress program with the recorder inside."""
    sources = [SOURCES / "tracer" / f"{name}.cpp" for name in RECORDER]
    sources += [PROGRAMS / "stress_recorder.cpp", PROGRAMS / "absent_doors.cpp"]
    return build_program(folder / "stress_recorder", sources, sanitizers)


def compile_recorded(folder: Path) -> Path:
    """The program that is recorded from outside."""
    if not LIBRARY.exists():
        pytest.skip("this build has no tracer library")
    return build_program(folder / "recorded_program", [PROGRAMS / "recorded_program.cpp"])


def environment(capture: Path, options: str = "", **variables: str) -> dict[str, str]:
    """A process started with this is recorded into `capture`."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PROFKIT_")}
    ours = {
        "LD_PRELOAD": str(LIBRARY),
        "PROFKIT_TRACE_FILE": str(capture),
        "PROFKIT_TRACE_OPTIONS": f"allocations=0,{options}",
    }
    return kept | ours | variables


def run_recorded(
    program: Path, capture: Path, *arguments: str, options: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end; the exit code is the caller's to judge."""
    return subprocess.run(
        [str(program), *arguments],
        env=environment(capture, options, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def names(capture: Capture, kind: RangeKind = RangeKind.RANGE) -> Counter[str]:
    """How often each name was recorded."""
    table = capture.ranges
    return Counter(capture.strings[name] for name in table.name[table.kind == kind])


def names_by_process(capture: Capture) -> list[Counter[str]]:
    """The same for each process, in the order of the capture."""
    table = capture.ranges
    owner = capture.threads.process[table.thread]
    return [
        Counter(capture.strings[name] for name in table.name[owner == process])
        for process in range(len(capture.processes))
    ]
