"""Where CUPTI is on this machine: installed packages in, what the tracer would use and whether it can out."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

_PLACES = "nvidia/*/lib/libcupti.so.*"  # of the packages nvidia-cuda-cupti (CUDA 13) and nvidia-cuda-cupti-cu12

_OF_11_8 = 18
_OLD_NAMES = {_OF_11_8: "11.8 to 12.1"}  # these call themselves by one number


@dataclass(frozen=True)
class CuptiFinding:
    """What the tracer finds when a program uses the GPU."""

    library: str  # path; empty when there is none
    version: str  # "13.0", "12 (CUPTI 27)"; empty when there is none
    is_usable: bool
    reason: str  # why not, and what to do; empty when it is usable


def installed_wheels() -> list[str]:
    """Libraries of installed packages, the latest CUDA first."""
    found = {
        str(path)
        for folder in sys.path
        for path in Path(folder or ".").glob(_PLACES)
        if path.suffix[1:].isdigit() and os.pathsep not in str(path)
    }
    return sorted(found, key=lambda path: (-int(path.rpartition(".")[2]), path))


def wheels_text() -> str:
    """The same as the tracer reads them from PROFKIT_CUPTI_WHEELS."""
    return os.pathsep.join(installed_wheels())


def find_cupti() -> CuptiFinding:
    """Load CUPTI into this process as the tracer would, and try whether it is free. Needs no driver to answer."""
    from profkit import _core

    found = _core.tracer_find_cupti(wheels_text())
    return CuptiFinding(found["library"], cupti_version(found["version"]), found["is_usable"], found["reason"])


def cupti_version(number: int) -> str:
    """What cuptiGetVersion gives, as people say it."""
    if number == 0:
        return ""
    if number < 10_000:
        return f"{_OLD_NAMES.get(number, '12' if number > _OF_11_8 else '11')} (CUPTI {number})"
    return f"{number // 10_000}.{number // 100 % 100}"
