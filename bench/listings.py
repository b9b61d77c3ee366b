"""What the readers of disassembled kernels have in common: instructions, names as people write them, binutils."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class ListingError(Exception):
    """The listing cannot be had; the message says what to do."""


@dataclass(frozen=True)
class ListedInstruction:
    """One machine instruction."""

    jump: ClassVar[str]
    """How the opcodes of jumps begin."""
    target_pattern: ClassVar[re.Pattern[str]]
    """In their operands; the first group is the address in hexadecimal digits."""

    address: int
    opcode: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where a jump within the function goes."""
        found = self.target_pattern.search(self.operands) if self.opcode.startswith(self.jump) else None
        return int(found[1], 16) if found else None


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
