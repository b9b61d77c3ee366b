"""Which devices compiled CUDA code runs on: CMake's list of architectures and a device in, how it is covered out."""

from __future__ import annotations

import re
from enum import Enum

_WORD = re.compile(r"(\d+)([af]?)(-real|-virtual)?")


class Coverage(Enum):
    """How the code gets onto a device."""

    BINARY = "binary"
    PTX = "PTX"  # compiled by the driver at the first launch
    NOTHING = "nothing"
    UNKNOWN = "unknown"  # the list is in words that only the build machine understood: native, all


def coverage(architectures: str, capability: int) -> Coverage:
    """`architectures` as `75-real 80-real 120`, capability 8.6 as 86."""
    found = Coverage.NOTHING
    for word in architectures.split():
        match = _WORD.fullmatch(word)
        if match is None:
            return Coverage.UNKNOWN
        built, only, part = int(match[1]), match[2], match[3]
        if part != "-virtual" and _runs_binary(built, only, capability):
            return Coverage.BINARY
        # Code for one architecture's own features (90a) stays on it, as PTX too.
        if part != "-real" and not only and capability >= built:
            found = Coverage.PTX
    return found


def _runs_binary(built: int, only: str, capability: int) -> bool:
    """A binary runs on its architecture and on later ones of the same generation."""
    if only == "a":
        return capability == built
    return capability // 10 == built // 10 and capability >= built
