"""Kernel names out of CUPTI are the compiler's: the reader gives them as people write them, whatever stands there."""

from __future__ import annotations

import random

import pytest

from profkit import _core
from tests.tracer.cupti.gpu_programs import GpuProgram, device_of, kernel_ranges

DEMANGLED = {
    "_Z4gemmILi128EEvPf": "void gemm<128>(float*)",
    "_ZN7cutlass7Kernel2I42cutlass_80_simt_sgemm_128x64_8x5_nn_align1EEvNT_6ParamsE": (
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>"
        "(cutlass_80_simt_sgemm_128x64_8x5_nn_align1::Params)"
    ),
    "ampere_sgemm_128x64_tn": "ampere_sgemm_128x64_tn",
    "_Znot a name": "_Znot a name",
    "": "",
}


def test_names_are_demangled_and_others_stay() -> None:
    if _core.demangle_names(["_Z1fv"]) != ["f()"]:
        pytest.skip("this build's C++ library has no demangler that can be stopped")

    assert _core.demangle_names(list(DEMANGLED)) == list(DEMANGLED.values())


def test_a_short_name_that_stands_for_endless_text_stays() -> None:
    # Each pair holds the one before twice.
    name = "_Z1fSt4pairIiiE" + "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABCDEFGHIJKLMNOPQRSTUVW")

    assert _core.demangle_names([name, "x" * 100_000, "_Z" + "P" * 4000 + "i"])[0] == name


def test_any_text_is_survived() -> None:
    random_numbers = random.Random(5)
    names = ["_Z" + "".join(random_numbers.choices("_ZN1234560abcESTILKPFvifdJDpXRO", k=150)) for _ in range(20_000)]

    assert len(_core.demangle_names(names)) == len(names)


def test_a_traced_kernel_has_the_name_that_people_write(gpu: GpuProgram) -> None:
    capture, _ = gpu('with profkit.scope("conv"):\n    kernel("_Z4gemmILi128EEvPf", call())\n')

    assert set(kernel_ranges(device_of(capture))) <= {"void gemm<128>(float*)", "_Z4gemmILi128EEvPf"}
    assert list(kernel_ranges(device_of(capture))) == _core.demangle_names(["_Z4gemmILi128EEvPf"])
