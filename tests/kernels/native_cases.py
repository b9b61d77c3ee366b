"""Every kernel in a program without Python, native/run_cases.cpp: its sources, and what it reads and prints."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from profkit.frameworks.candidate.library import params_struct
from profkit.ops import odd_specs
from profkit.ops.dtypes import is_narrow
from profkit.ops.spec import Spec, tolerance
from tests.kernels.kernel_calls import FEWEST, OPERATORS, all_keys, inputs_of, reference_of
from tests.support.places import SOURCES
from tests.support.sanitized_programs import isa_units


def program_sources(*isas: str) -> list[Path]:
    """The whole registry with these instruction sets; those that compile slowly come first."""
    kernels = SOURCES / "kernels"
    return [
        *(unit for isa in isas for unit in isa_units(isa)),
        Path(__file__).parent / "native" / "run_cases.cpp",
        *sorted(kernels.glob("*/cpu/*.cpp")),
        *sorted(kernels.glob("*/arrays.cpp")),
        *(kernels / name for name in ("cpu/tuning.cpp", "shapes.cpp")),
        *(SOURCES / "runtime" / name for name in ("cpu_features.cpp", "threads.cpp")),
    ]


def odd_cases() -> list[Spec]:
    """Every odd shape in a type that CPU kernels are written for."""
    return [spec for op in OPERATORS for spec in odd_specs(op) if not is_narrow(spec.dtype_word)]


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


def assert_every_kernel_is_right(
    command: Sequence[str], level: str, specs: Iterable[Spec], environment: Mapping[str, str] | None = None
) -> None:
    """Run the cases, `odd_cases` among them, at that level."""
    done = subprocess.run(
        command, input=b"".join(map(case_of, specs)), capture_output=True, timeout=240, check=False, env=environment
    )
    printed = done.stdout.decode()
    assert done.returncode == 0, printed + done.stderr.decode()
    found, *lines = printed.splitlines()
    assert found == f"level {level}"
    ran = {key: int(count) for key, count in map(str.split, lines)}
    assert not {key: ran.get(key, 0) for key in all_keys() if ran.get(key, 0) < FEWEST[key].odd}
