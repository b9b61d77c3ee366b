"""Programs for the tests of the recorder: native sources in, a compiled program and its run under capture out."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from profkit.capture.reading import read
from profkit.capture.schema import Capture, RangeKind
from tests.support.places import SOURCES, TRACER_NATIVE
from tests.support.processes import finish
from tests.support.sanitized_programs import build_program
from tests.tracer.programs import LIBRARY, clean_environment

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
    sources += [TRACER_NATIVE / "stress_recorder.cpp", TRACER_NATIVE / "absent_doors.cpp"]
    return build_program(folder / "stress_recorder", sources, sanitizers)


def environment(capture: Path, options: str = "", **variables: str) -> dict[str, str]:
    """A process started with this is recorded into `capture`."""
    ours = {
        "LD_PRELOAD": str(LIBRARY),
        "PROFKIT_TRACE_FILE": str(capture),
        "PROFKIT_TRACE_OPTIONS": f"allocations=0,{options}",
    }
    return clean_environment() | ours | variables


def run_recorded(
    program: Path, capture: Path, *arguments: str, options: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end; the exit code is the caller's to judge."""
    return finish([program, *arguments], environment(capture, options, **variables))


Record = Callable[..., tuple[subprocess.CompletedProcess[str], Capture]]


def recorded(
    program: Path, folder: Path, *arguments: str, options: str = "", **variables: str
) -> tuple[subprocess.CompletedProcess[str], Capture]:
    """The same, and its capture."""
    path = folder / "run.profkit"
    return run_recorded(program, path, *arguments, options=options, **variables), read(path)


def names(capture: Capture, kind: RangeKind = RangeKind.RANGE) -> Counter[str]:
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
