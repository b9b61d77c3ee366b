"""Programs for the tests of the allocation door: C text in, a compiled program, its run under capture, and the
rows that one range owns out.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from profkit.capture.reading import read
from profkit.capture.schema import AllocationCall, Capture
from tests.support.processes import finish, succeed
from tests.tracer.programs import LIBRARY, Run, clean_environment, compile_c, skip_without_library

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
class Row:
    """One recorded allocation, in the order of time."""

    call: str
    bytes: int
    is_freed: bool


def compile_plainly(folder: Path, text: str, *flags: str, name: str = "program") -> Path:
    """Compile without optimisation, so that no call is removed, and without warnings: the misuse is on purpose."""
    return compile_c(folder, text, "-O0", "-fno-builtin", "-w", *flags, name=name)


def environment(capture_file: Path | None, options: str = "", preload: Sequence[Path] = ()) -> dict[str, str]:
    """The variables of a process that is captured, or of a plain one when there is no file."""
    variables = clean_environment()
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
    return finish(
        command,
        environment(capture_file, options, preload),
        input="int twice(int x) { return 2 * x; }\n",
        cwd=folder,
    )


def trace(
    folder: Path, body: str, *flags: str, options: str = "", preload: Sequence[Path] = (), declarations: str = ""
) -> Run:
    """Compile `body` as main, run it under capture, and read the capture; the program must return 0."""
    skip_without_library()
    text = f"{PRELUDE}\n{declarations}\nint main(void) {{\n{body}\nreturn 0;\n}}\n"
    program = compile_plainly(folder, text, *flags)
    capture_file = folder / "run.profkit"
    output = succeed([program], environment(capture_file, options, preload))
    return Run(output, read(capture_file))


def rows_in(capture: Capture, title: str) -> list[Row]:
    """Allocations whose innermost open range has this title."""
    table = capture.allocations
    return [
        Row(AllocationCall(int(table.call[i])).name.lower(), int(table.bytes[i]), bool(table.free_time_ns[i] >= 0))
        for i in range(len(table))
        if table.range[i] >= 0 and capture.range_title(int(table.range[i])) == title
    ]
