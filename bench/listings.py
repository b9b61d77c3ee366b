"""What the readers of disassembled kernels have in common: instructions, names as people write them, binutils."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass


class ListingError(Exception):
    """The listing cannot be had; the message says what to do."""


@dataclass(frozen=True)
class ListedInstruction:
    """One machine instruction."""

    address: int
    opcode: str
    operands: str


def tool(name: str) -> str:
    """The path of a program of binutils or LLVM."""
    path = shutil.which(name)
    if path is None:
        raise ListingError(f"{name} is not installed: the packages binutils and llvm have it")
    return path


def output_of(*command: str, given: str | None = None) -> str:
    """What a program prints."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ListingError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def demangled(names: Sequence[str]) -> dict[str, str]:
    """C++ names as people write them."""
    return dict(zip(names, output_of(tool("c++filt"), given="\n".join(names)).splitlines())) if names else {}
