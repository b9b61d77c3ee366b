"""Every CPU kernel under the address and undefined-behaviour sanitizers, on arrays without a byte to spare."""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import pytest

from profkit import _core
from profkit.ops.matmul import MatMul
from profkit.ops.softmax import Softmax
from profkit.ops.spec import Spec
from tests.cuda.conv_shapes import conv_specs
from tests.kernels.native_cases import assert_every_kernel_is_right, odd_cases, program_sources
from tests.support.sanitized_programs import build_program, operator_list

pytestmark = pytest.mark.full

FLAGS = ("-ffp-contract=fast", "-fno-math-errno", "-g1")
ISA_FLAGS = {"avx2": ("-mavx2", "-mfma"), "generic": ("-O0", "-fno-sanitize=all")}
"""One set is run: all are compiled from the same text, and sanitizing two takes two minutes. The other is linked."""


def flags_of(source: Path) -> Sequence[str]:
    """Those of an instruction set for its own units."""
    return ISA_FLAGS.get(source.stem.rpartition("_")[2], ())


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole registry, as the module has it."""
    if platform.machine() != "x86_64":
        pytest.skip("the sanitized build is of x86's instruction sets")
    return build_program(
        tmp_path_factory.mktemp("kernels") / "run_cases",
        program_sources(*ISA_FLAGS),
        "address,undefined",
        (*FLAGS, f"-I{operator_list()}", "-DPROFKIT_HAS_GENERIC=1", "-DPROFKIT_HAS_AVX2=1"),
        flags_of,
    )


def specs() -> list[Spec]:
    """The odd shapes and those around the edges of tiles and vectors."""
    sides = itertools.product((1, 2, 5, 6, 7, 13, 48, 97), (1, 3, 8, 15, 16, 17, 33, 130), range(4))
    products = [
        MatMul(m, n, (1, 7, 64, 129, 515)[place % 5], transpose_a=turn % 2 == 1, transpose_b=turn > 1, bias=True)
        for place, (m, n, turn) in enumerate(sides)
    ]
    return [*odd_cases(), *conv_specs(), *products, *(Softmax(3, columns) for columns in range(1, 40))]


def test_every_kernel_is_right_without_a_finding(program: Path) -> None:
    if "avx2" not in _core.cpu_features()["simd_processor"]:
        pytest.skip("this processor has no avx2")
    environment = {**os.environ, "PROFKIT_SIMD": "avx2", "UBSAN_OPTIONS": "print_stacktrace=1"}
    assert_every_kernel_is_right([str(program)], "avx2", specs(), environment)
