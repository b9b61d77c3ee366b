"""Programs for the tests of the tracer: C or Python text in, its run under capture, and what the capture holds as plain
tuples out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from profkit import _core
from profkit.capture.reading import read
from profkit.capture.schema import NONE, Capture, PayloadType, RangeKind, Source
from tests.capture.tables import payload_values
from tests.support.places import SOURCES, TRACER_NATIVE
from tests.support.processes import succeed
from tests.support.sanitized_programs import build_program

LIBRARY = Path(_core.__file__).with_name("libprofkit_inject.so")
# The allocation door takes malloc's place, and so does a sanitizer.
LEFT_OUT = {
    "tracer/doors/allocations.cpp",
    "tracer/doors/mappings.cpp",
    "tracer/doors/next_allocator.cpp",
    "tracer/core/process_hooks.cpp",
}


def skip_without_library() -> None:
    if not LIBRARY.exists():
        pytest.skip("this build has no tracer library")


def clean_environment() -> dict[str, str]:
    """Without what this machine or this test run says to profkit and to other tools."""
    tools = ("PROFKIT_", "NVTX_", "INTEL_", "CUDA_", "CUPTI_")
    return {key: value for key, value in os.environ.items() if not key.startswith(tools)}


def nvtx_headers() -> Path:
    """The folder that holds nvtx3/; the test is skipped where there is none."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    pip = [str(Path(folder) / "nvidia" / part) for folder in sys.path for part in ("nvtx", "cu13")]
    for home in [*homes, *pip, "/usr/local/cuda"]:
        folder = Path(home) / "include"
        if (folder / "nvtx3" / "nvToolsExt.h").exists():
            return folder
    pytest.skip("no NVTX headers (nvtx3/nvToolsExt.h) on this machine")


def compile_c(folder: Path, text: str, *flags: str, name: str = "program", suffix: str = ".c") -> Path:
    """A program, or whatever the flags ask for; C++ when the suffix says so."""
    compiler = shutil.which("g++" if suffix == ".cpp" else "gcc")
    if compiler is None:
        pytest.skip("no C compiler (gcc)")
    source, program = folder / f"{name}{suffix}", folder / name
    source.write_text(text)
    command = [compiler, "-O1", "-g", "-Wall", "-I", str(SOURCES), str(source), "-o", str(program), "-pthread"]
    succeed([*command, *flags, "-ldl"])
    return program


def stress_program(folder: Path, name: str, sanitizer: str) -> Path:
    """A program of native/ with what CMake builds the library from, but for LEFT_OUT."""
    listed = re.search(r"set\(TRACER_SOURCES(.*?)\)", (SOURCES / "CMakeLists.txt").read_text(), re.DOTALL)
    assert listed is not None
    sources = [SOURCES / path for path in listed[1].split() if path not in LEFT_OUT]
    return build_program(folder / name, [TRACER_NATIVE / f"{name}.cpp", *sources], sanitizer)


def environment(capture_file: Path | None, **variables: str) -> dict[str, str]:
    """The doors' variables without those of the machine; no allocation door, which has its own tests."""
    kept = clean_environment()
    if capture_file is not None:
        kept |= {
            "NVTX_INJECTION64_PATH": str(LIBRARY),
            "INTEL_LIBITTNOTIFY64": str(LIBRARY),
            "PROFKIT_TRACE_FILE": str(capture_file),
        }
    return kept | variables


@dataclass(frozen=True)
class Run:
    output: str
    capture: Capture


Traced = Callable[..., Run]
"""Runs a program's text."""


def trace(folder: Path, command: Sequence[str | Path], variables: Mapping[str, str] | None = None) -> Run:
    """Run to the end with both doors open; the program must return 0."""
    skip_without_library()
    capture_file = folder / "run.profkit"
    output = succeed(command, environment(capture_file, **(variables or {})))
    return Run(output, read(str(capture_file)))


def trace_python(folder: Path, text: str, variables: Mapping[str, str] | None = None) -> Run:
    """Run Python text in a fresh interpreter with both doors open."""
    script = folder / "script.py"
    script.write_text(text)
    return trace(folder, [sys.executable, script], variables)


@dataclass(frozen=True)
class Row:
    """A range, span or mark without its times."""

    kind: RangeKind
    title: str  # domain:name
    parent: str | None = None  # its title
    category: str | None = None
    colour: int = 0
    payload_type: PayloadType = PayloadType.NONE
    payload: float | int | None = None


def rows(capture: Capture, source: Source) -> list[Row]:
    """Everything that came through one door, thread by thread and in order of begin."""
    table = capture.ranges
    values = payload_values(table)
    result = []
    for i in range(len(table)):
        if table.source[i] != source:
            continue
        parent, category = int(table.parent[i]), int(table.category[i])
        result.append(
            Row(
                RangeKind(int(table.kind[i])),
                capture.range_title(i),
                None if parent == NONE else capture.range_title(parent),
                None if category == NONE else capture.strings[category],
                int(table.colour[i]),
                PayloadType(int(table.payload_type[i])),
                values[i],
            )
        )
    return result
