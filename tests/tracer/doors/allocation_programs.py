"""Programs for the tests of the allocation door: C text in, a compiled program, its run under capture, and the
rows that one range owns out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from profkit import _core
from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall, Capture
from tests.support.places import SOURCES

LIBRARY = Path(_core.__file__).with_name("libprofkit_inject.so")

# begin(), end() and the includes that every program here needs.
PRELUDE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tracer/core/api.h"

static const profkit_tracer_api* tracer(void) {
  static const profkit_tracer_api* table;
  if (table == NULL) {
    const profkit_tracer_api* (*find)(uint32_t) = dlsym(RTLD_DEFAULT, "profkit_tracer");
    if (find != NULL) table = find(PROFKIT_TRACER_API_VERSION);
    if (table == NULL) exit(99);
  }
  return table;
}
static uint64_t begin(const char* name) {
  return tracer()->begin(tracer()->label(name, strlen(name), NULL, 0));
}
static void end(uint64_t token) { tracer()->end(token); }
#define CHECK(condition) \
  do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); _exit(98); } } while (0)
"""


@dataclass(frozen=True)
class Run:
    """A finished program and what was captured of it."""

    output: str
    capture: Capture


@dataclass(frozen=True)
class Row:
    """One recorded allocation, in the order of time."""

    call: AllocationCall
    bytes: int
    is_freed: bool


def skip_without_library() -> None:
    if not LIBRARY.exists():
        pytest.skip("this build has no tracer library")


def compile_c(folder: Path, text: str, *flags: str, name: str = "program") -> Path:
    """Compile without optimisation, so that no call is removed, and without warnings: the misuse is on purpose."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, program = folder / f"{name}.c", folder / name
    source.write_text(text)
    command = [compiler, "-O0", "-g", "-fno-builtin", "-w", "-I", str(SOURCES), str(source)]
    command += ["-o", str(program), "-pthread", *flags, "-ldl"]
    subprocess.run(command, check=True, timeout=120)
    return program


def environment(capture_file: Path | None, options: str = "", preload: Sequence[Path] = ()) -> dict[str, str]:
    """The variables of a process that is captured, or of a plain one when there is no file."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("PROFKIT_")}
    libraries = [*([LIBRARY] if capture_file is not None else []), *preload]
    if libraries:
        variables["LD_PRELOAD"] = ":".join(map(str, libraries))
    if capture_file is not None:
        variables |= {"PROFKIT_TRACE_FILE": str(capture_file), "PROFKIT_TRACE_OPTIONS": options}
    return variables


def run(
    command: Sequence[str | Path],
    capture_file: Path | None,
    options: str = "",
    preload: Sequence[Path] = (),
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; a deadlock becomes a timeout. A little C text comes in, for compilers."""
    return subprocess.run(
        [str(part) for part in command],
        env=environment(capture_file, options, preload),
        input="int twice(int x) { return 2 * x; }\n",
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=folder,
    )


def trace(
    folder: Path, body: str, *flags: str, options: str = "", preload: Sequence[Path] = (), declarations: str = ""
) -> Run:
    """Compile `body` as main, run it under capture, and read the capture; the program must return 0."""
    skip_without_library()
    text = f"{PRELUDE}\n{declarations}\nint main(void) {{\n{body}\nreturn 0;\n}}\n"
    program = compile_c(folder, text, *flags)
    capture_file = folder / "run.profkit"
    done = run([program], capture_file, options, preload)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr}"
    return Run(done.stdout, read(capture_file))


def rows_in(capture: Capture, title: str) -> list[Row]:
    """Allocations whose innermost open range has this title."""
    table = capture.allocations
    return [
        Row(AllocationCall(int(table.call[i])), int(table.bytes[i]), bool(table.free_time_ns[i] >= 0))
        for i in range(len(table))
        if table.range[i] >= 0 and capture.range_title(int(table.range[i])) == title
    ]
