"""CuPy on the host SIMT layer: NumPy's arrays, and RawModule's kernels compiled by g++ and run fiber by fiber."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cuda.emulation import EMULATED_FLAGS
from tests.support.fake_cupy import FakeCupy
from tests.support.places import CUDA_NATIVE
from tests.support.processes import finish
from tests.support.sanitized_programs import compiled_object

# Every argument as cudaLaunchKernel has it: the address of its value.
LAUNCH = """
#include "simt_launch.h"
extern "C" void start_emulated(const unsigned* grid, const unsigned* block, unsigned shared, void** arguments) {{
  simt::Emulated<&{kernel}>::bind({{grid[0], grid[1], grid[2]}}, {{block[0], block[1], block[2]}}, shared, arguments)();
}}
"""


class CompileException(Exception):  # noqa: N818  # CuPy's name
    """As CuPy's: its text is the compiler's."""


class RawModule:
    """As CuPy's; `made` is the last one."""

    made: RawModule | None = None
    folder: Path

    def __init__(
        self, *, code: str, options: Sequence[str], backend: str, name_expressions: Sequence[str] = ()
    ) -> None:
        self.code, self.options, self.backend, self.names = code, options, backend, name_expressions
        RawModule.made = self

    def get_function(self, name: str) -> Callable[..., None]:
        assert not self.names or name in self.names
        source, library = self.folder / f"kernel{id(self)}.cpp", self.folder / f"kernel{id(self)}.so"
        source.write_text(self.code + LAUNCH.format(kernel=name))
        objects = [compiled_object(CUDA_NATIVE / part, EMULATED_FLAGS) for part in ("simt.cpp", "simt_fiber.cpp")]
        flags = [*EMULATED_FLAGS, "-include", "simt.h", *self.options]
        command = ["g++", *flags, "-shared", str(source), *objects, "-o", str(library)]
        done = finish(command)
        if done.returncode:
            raise CompileException(done.stderr)
        loaded = ctypes.CDLL(str(library))
        return lambda grid, block, arguments, shared_mem=0: _launch(loaded, grid, block, shared_mem, arguments)


def _launch(
    library: ctypes.CDLL, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
) -> None:
    """A struct goes by value, an array by its address, a number as a pointer."""
    values = [
        item if isinstance(item, np.ndarray) and item.dtype.names else np.array(_address(item), np.uint64)
        for item in arguments
    ]
    places = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
    sizes = [(ctypes.c_uint * 3)(*size, *(1,) * (3 - len(size))) for size in (grid, block)]
    library.start_emulated(*sizes, shared, places)


def _address(item: Any) -> int:
    return int(item.ctypes.data) if isinstance(item, np.ndarray) else int(item)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    """Put it in CuPy's place; kernels are compiled in the folder."""
    fake = FakeCupy()
    RawModule.folder = folder
    fake.RawModule = RawModule  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake
