"""Native test programs: sources of csrc in, a program out. Two compilers work at a time, and an object is kept for the
session, since several programs hold the same sources under the same sanitizer."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import SOURCES
from tests.support.shared_work import locked, shared_folder

FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-pthread",
    "-ftls-model=initial-exec",
    '-DPROFKIT_VERSION="0"',
    "-I",
    str(SOURCES),
)


def build_program(
    program: Path,
    sources: Sequence[Path],
    sanitizers: str = "",
    flags: Sequence[str] = (),
    more_flags: Callable[[Path], Sequence[str]] = lambda _: (),
) -> Path:
    """`program`, made of these sources; the test is skipped without a compiler or without the sanitizers.

    `more_flags` are those of one source alone, as an instruction set's.
    """
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler (g++)")
    asked = (*FLAGS, *flags)
    if sanitizers:
        asked = (*asked, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all")
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda source: compiled_object(source, (*asked, *more_flags(source))), sources))
    linked = _run(["g++", *asked, *objects, "-o", str(program), "-ldl"])
    if "cannot find -l" in linked.stderr or "cannot find lib" in linked.stderr:
        pytest.skip(f"the compiler has no sanitizer {sanitizers}")
    assert linked.returncode == 0, linked.stderr
    return program


def isa_units(isa: str) -> list[Path]:
    """The translation units of one instruction set, as csrc/CMakeLists.txt generates them."""
    folder, found = shared_folder() / "units", []
    lines = [line for path in sorted(SOURCES.glob("**/isa_units.txt")) for line in path.read_text().splitlines()]
    for name, sets, *files in (line.split() for line in lines if not line.startswith("#")):
        if isa in sets.split(","):
            found.append(folder / f"{name}_{isa}.cpp")
            with locked("units"):
                folder.mkdir(exist_ok=True)
                found[-1].write_text("".join(f'#include "{file}"\n' for file in (f"kernels/cpu/isa_{isa}.h", *files)))
    return found


def operator_list() -> Path:
    """A folder with operator_list.h, as csrc/CMakeLists.txt generates it."""
    folder = shared_folder() / "operators"
    paths = sorted(path.relative_to(SOURCES) for path in SOURCES.glob("kernels/*/params.h"))
    includes = "".join(f'#include "{path}"\n' for path in paths)
    with locked("operators"):
        folder.mkdir(exist_ok=True)
        names = " ".join(f"DO({path.parent.name})" for path in paths)
        (folder / "operator_list.h").write_text(f"#pragma once\n{includes}#define PROFKIT_OPERATORS(DO) {names}\n")
    return folder


@cache
def compiled_object(source: Path, flags: tuple[str, ...]) -> str:
    """The object of a source under these flags, compiled once per session."""
    name = hashlib.sha256(repr((str(source), flags)).encode()).hexdigest()[:16]
    target = shared_folder() / f"{source.stem}-{name}.o"
    with locked(target.stem):
        if not target.exists():
            # A compiler that is killed must not leave half an object.
            unfinished = target.with_suffix(".unfinished")
            done = _run(["g++", *flags, "-c", str(source), "-o", str(unfinished)])
            assert done.returncode == 0, done.stderr
            unfinished.replace(target)
    return str(target)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)
