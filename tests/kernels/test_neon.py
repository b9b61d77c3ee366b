"""NEON kernels on a processor without NEON: cross-compiled as they are, run by QEMU's user-mode emulator on every odd
shape, against the float64 reference."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from profkit.frameworks.candidate.library import params_struct
from profkit.ops import odd_specs
from profkit.ops.dtypes import is_narrow
from profkit.ops.spec import Spec, tolerance
from tests.kernels.kernel_calls import FEWEST_ODD_SPECS, OPERATORS, all_keys, inputs_of, reference_of
from tests.support.places import SOURCES
from tests.support.processes import succeed
from tests.support.sanitized_programs import isa_units, operator_list

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
    kernels = SOURCES / "kernels"
    sources = [
        *isa_units("neon"),
        *isa_units("generic"),
        *sorted(kernels.glob("*/cpu/*.cpp")),
        *sorted(kernels.glob("*/arrays.cpp")),
        *(kernels / name for name in ("cpu/tuning.cpp", "shapes.cpp")),
        *(SOURCES / "runtime" / name for name in ("cpu_features.cpp", "threads.cpp")),
        Path(__file__).parent / "native" / "run_cases.cpp",
    ]

    def compile_one(source: Path) -> str:
        target = folder / f"{source.parent.name}_{source.stem}.o"
        level = "-O0" if source.stem.endswith("_generic") else "-O1"
        folders = [f"-I{SOURCES}", f"-I{operator_list()}"]
        command = [COMPILER, *FLAGS, level, *folders, "-c", str(source), "-o", str(target)]
        succeed(command)
        return str(target)

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile_one, sources))
    linked = folder / "run_cases"
    subprocess.run([COMPILER, "-static", "-pthread", *objects, "-o", str(linked)], check=True)
    return linked


def specs() -> Iterator[Spec]:
    """Every odd shape in a type that CPU kernels are written for."""
    for op in OPERATORS:
        yield from (spec for spec in odd_specs(op) if not is_narrow(spec.dtype_word))


def case_of(spec: Spec) -> bytes:
    """A case as run_cases.cpp reads it."""
    inputs = [np.ascontiguousarray(array).tobytes() for array in inputs_of(spec).values()]
    wanted = np.ascontiguousarray(reference_of(spec), np.float64)
    accepted = tolerance(spec.numpy_dtype, spec.reduction_length())
    return b"".join(
        (
            struct.pack("<q", sorted(OPERATORS).index(spec.op)),
            bytes(params_struct(spec)),
            struct.pack("<q", len(inputs)),
            *(struct.pack("<q", len(data)) + data for data in inputs),
            struct.pack("<qd", wanted.size, accepted),
            wanted.tobytes(),
        )
    )


def test_every_kernel_is_right_on_neon(program: Path) -> None:
    done = subprocess.run(
        [EMULATOR, str(program)], input=b"".join(map(case_of, specs())), capture_output=True, timeout=120, check=False
    )

    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    level, *lines = printed.splitlines()
    assert level == "level neon"
    ran = {key: int(count) for key, count in map(str.split, lines)}
    assert not {key: ran.get(key, 0) for key in all_keys() if ran.get(key, 0) < FEWEST_ODD_SPECS[key]}
