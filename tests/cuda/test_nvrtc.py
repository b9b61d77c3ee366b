"""NVRTC takes every kernel header, as CuPy's RawModule gives it: no standard headers, no host code, no driver.

What is compiled is what the launchers start: the instances are read from their objects for the host SIMT layer.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from profkit.frameworks.headers import include_flags, kernel_headers
from tests.cuda.emulation import EMULATED_FLAGS
from tests.cuda.nvrtc import NvrtcError, compile_kernels, library_path, toolkit_headers
from tests.support.places import SOURCES
from tests.support.processes import succeed
from tests.support.sanitized_programs import compiled_object

KERNELS = SOURCES / "kernels"
ARCHITECTURE, OTHERS = "sm_90", ("sm_80", "sm_120")
pytestmark = [
    pytest.mark.skipif(library_path() is None, reason="nvidia-cuda-nvrtc is not installed"),
    pytest.mark.skipif(toolkit_headers() is None, reason="no nvcc on this machine, hence no cuda_fp16.h"),
]


def kernel_names(text: str) -> list[str]:
    """Of every __global__ function that a source defines."""
    plain = re.sub(r"__launch_bounds__\((?:[^()]|\([^()]*\))*\)", "", text)
    return re.findall(r"__global__\s+void\s+(\w+)\s*\(", plain)


def template_id(symbol: str) -> str:
    """`profkit::cuda::naive<float>` of a demangled `void profkit::cuda::naive<float>(Problem, float const*)`."""
    text, depth = symbol.removeprefix("void "), 0
    for place, letter in enumerate(text):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            return text[:place]
    raise AssertionError(f"no function: {symbol}")


@cache
def started_kernels(op: str) -> frozenset[str]:
    """Every function in the objects of an operator's launchers that could be a kernel, as C++ names it."""
    sources = sorted((KERNELS / op).glob("cuda/*.cu"))
    objects = [compiled_object(path, (*EMULATED_FLAGS, "-x", "c++")) for path in sources]
    listed = succeed(["nm", "-C", "--defined-only", *objects])
    symbols = re.findall(r"^[0-9a-f]+ [WTtu] ((?:void )?profkit::cuda::.*\))$", listed, re.M)
    return frozenset(template_id(symbol) for symbol in symbols)


def started(header: str) -> list[str]:
    """The instances of a header's kernels that some launcher starts."""
    names = kernel_names((KERNELS / header).read_text())
    # A kernel of one operator may be started by another (a product by im2col).
    ops = [header.split("/")[0], *(folder.name for folder in sorted(KERNELS.iterdir()) if folder.is_dir())]
    for op in dict.fromkeys(ops):
        found = [f"profkit::cuda::{name}" for name in names]
        instances = sorted(item for item in started_kernels(op) if item.partition("<")[0] in found)
        if instances:
            return instances
    return []


def one_of_each(instances: list[str]) -> list[str]:
    return list({item.partition("<")[0]: item for item in reversed(instances)}.values())


IN_QUICK_TIER = ("matmul/cuda/naive.cuh", "softmax/cuda/warp_rows.cuh")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(header, marks=() if header in IN_QUICK_TIER else pytest.mark.full)
        for header in kernel_headers(KERNELS)
    ],
)
def test_every_kernel_of_a_header_compiles(header: str) -> None:
    # nvcc compiles every instance for every architecture; what NVRTC lacks shows in one instance as well.
    asked = one_of_each(started(header))
    flags = [f"-I{KERNELS.parent}", f"-I{toolkit_headers()}"]
    # Tensor cores are another instruction on each architecture, all else is the same source.
    architectures = (ARCHITECTURE, *OTHERS) if "tensor_core" in header else (ARCHITECTURE,)

    compiled = [compile_kernels(f'#include "kernels/{header}"\n', name, flags, asked) for name in architectures]

    assert asked, "nobody starts a kernel of this header"
    for cubin, lowered in compiled:
        assert cubin[:4] == b"\x7fELF"
        assert len(set(lowered)) == len(asked)
        assert all(name.encode() in cubin for name in lowered)


def test_the_installed_headers_compile_as_a_user_includes_them() -> None:
    header, name = "matmul/cuda/naive.cuh", "profkit::cuda::matmul_naive<float>"
    flags = [*include_flags(), f"-I{toolkit_headers()}"]

    cubin, _ = compile_kernels(f"#include <profkit/kernels/{header}>\n", "sm_90", flags, [name])

    assert cubin[:4] == b"\x7fELF"


def test_a_kernel_that_does_not_compile_is_told_in_the_compilers_words() -> None:
    with pytest.raises(NvrtcError, match=r'kernels.cu\(1\): error: identifier "y" is undefined'):
        compile_kernels("__global__ void kernel(float* x) { x[0] = y; }", "sm_90", [], ["kernel"])
