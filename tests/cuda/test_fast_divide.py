"""Division by multiplication, as the kernels' index arithmetic does it, against the processor's division."""

from __future__ import annotations

from pathlib import Path

from tests.support.places import CUDA_NATIVE
from tests.support.processes import succeed
from tests.support.sanitized_programs import build_program


def test_fast_division_is_exact_for_small_divisors_and_around_powers_of_two(tmp_path: Path) -> None:
    flags = ("-O2", "-DPROFKIT_EMULATED", "-I", str(CUDA_NATIVE))
    program = build_program(tmp_path / "check", [CUDA_NATIVE / "check_fast_divide.cpp"], "undefined", flags)

    output = succeed([str(program)])

    assert int(output.split()[-2]) > 2_000_000
