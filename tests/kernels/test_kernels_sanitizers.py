"""Every CPU kernel under the address and undefined-behaviour sanitizers, on arrays without a byte to spare."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from profkit import _core
from tests.support.places import SOURCES
from tests.support.processes import succeed
from tests.support.sanitized_programs import build_program, isa_units, operator_list

pytestmark = pytest.mark.full
PROGRAM = Path(__file__).parent / "native" / "run_every_row.cpp"
FLAGS = ("-ffp-contract=fast", "-fno-math-errno", "-g1")
ISA_FLAGS = {"generic": ("-O0", "-fno-sanitize=all"), "avx2": ("-mavx2", "-mfma")}
"""One set is run: all are compiled from the same text, and sanitizing two takes two minutes. The other is linked."""
SETS = "100"
"""Parameter sets per operator."""


def flags_of(source: Path) -> Sequence[str]:
    """Those of an instruction set for its own units."""
    return ISA_FLAGS.get(source.stem.rpartition("_")[2], ())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole registry, as the module has it."""
    if platform.machine() != "x86_64":
        pytest.skip("the sanitized build is of x86's instruction sets")
    kernels = SOURCES / "kernels"
    files = [kernels / f"{name}.cpp" for name in ("cpu/tuning", "shapes")]
    files += [SOURCES / "runtime" / f"{name}.cpp" for name in ("cpu_features", "threads")]
    files += [*sorted(kernels.glob("*/cpu/*.cpp")), *sorted(kernels.glob("*/arrays.cpp"))]
    # The slow ones first: two compilers work at a time.
    units = [unit for isa in reversed(ISA_FLAGS) for unit in isa_units(isa)]
    return build_program(
        tmp_path_factory.mktemp("kernels") / "run_every_row",
        [*units, PROGRAM, *files],
        "address,undefined",
        (*FLAGS, f"-I{operator_list()}", "-DPROFKIT_HAS_GENERIC=1", "-DPROFKIT_HAS_AVX2=1"),
        flags_of,
    )


def test_every_row_agrees_with_the_reference_without_a_finding(program: Path) -> None:
    if "avx2" not in _core.cpu_features()["simd_processor"]:
        pytest.skip("this processor has no avx2")

    output = succeed(
        [str(program), SETS], {**os.environ, "PROFKIT_SIMD": "avx2", "UBSAN_OPTIONS": "print_stacktrace=1"}
    )

    assert int(output) > 1000
