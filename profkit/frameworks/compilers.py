"""The compilers of this machine, for candidates and for the recorder of torch's events."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence

from profkit.errors import UnavailableError


def find_compiler(suffix: str) -> list[str]:
    """The command that compiles this kind of file: $CXX or $CC, else the first usual name that exists."""
    variable, names = ("CC", ("cc", "gcc", "clang")) if suffix == ".c" else ("CXX", ("c++", "g++", "clang++"))
    command = first_command(variable, names, "compiler")
    if command:
        return command
    raise UnavailableError(
        f"no compiler for {suffix} files: none of {', '.join(names)} was found; "
        f"install one (for example apt install g++) or set ${variable}"
    )


def first_command(variable: str, names: Sequence[str], what: str) -> list[str]:
    """The command that the variable names, which must exist, else the first of these that does; empty if none."""
    command = shlex.split(os.environ.get(variable, ""))
    if command and shutil.which(command[0]) is None:
        raise UnavailableError(f"no {what}: ${variable} is {os.environ[variable]!r}, which was not found")
    return command or [name for name in names if shutil.which(name)][:1]


def compiler_version(compiler: Sequence[str]) -> str:
    done = subprocess.run([*compiler, "--version"], check=False, capture_output=True, text=True, errors="replace")
    # nvcc's first line is its makers', the last one its build.
    lines = [line for line in done.stdout.splitlines() if not line.startswith(("nvcc:", "Copyright", "Built on"))]
    return lines[0] if lines else compiler[0]
