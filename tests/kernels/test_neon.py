"""NEON kernels on a processor without NEON: cross-compiled as they are, run by QEMU's user-mode emulator on every odd
shape, against the float64 reference."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.kernels.native_cases import assert_every_kernel_is_right, odd_cases, program_sources
from tests.support.places import SOURCES
from tests.support.processes import succeed
from tests.support.sanitized_programs import operator_list

pytestmark = pytest.mark.full

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
INSTALL = "apt-get install g++-aarch64-linux-gnu qemu-user-static"
# The generic kernels must be there to link; -O0 compiles them soonest. Those under test get what a build gives them,
# but -O1, which takes half the time.
FLAGS = ("-std=c++17", "-ffp-contract=fast", "-fno-math-errno", "-DPROFKIT_HAS_GENERIC=1", "-DPROFKIT_HAS_NEON=1")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver with all kernels, for aarch64."""
    for tool in (COMPILER, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}: {INSTALL}")
    folder = tmp_path_factory.mktemp("neon")

    def compile_one(source: Path) -> str:
        # Operators have files of the same name.
        target = folder / f"{'_'.join(source.parts[-3:])}.o"
        level = "-O0" if source.stem.endswith("_generic") else "-O1"
        folders = [f"-I{SOURCES}", f"-I{operator_list()}"]
        command = [COMPILER, *FLAGS, level, *folders, "-c", str(source), "-o", str(target)]
        succeed(command)
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, program_sources("neon", "generic")))
    linked = folder / "run_cases"
    subprocess.run([COMPILER, "-static", "-pthread", *objects, "-o", str(linked)], check=True)
    return linked


def test_every_kernel_is_right_on_neon(program: Path) -> None:
    assert_every_kernel_is_right([EMULATOR, str(program)], "neon", odd_cases())
