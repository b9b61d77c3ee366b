"""profkit's kernels from CuPy: what RawModule is given compiles, structs lie as C++ has them, the example is right."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import profkit
from profkit import _core
from profkit.errors import UnavailableError, UsageError
from profkit.frameworks.compilers import find_compiler
from profkit.frameworks.cupy.kernels import struct_type
from profkit.frameworks.headers import include_flags, kernel_headers
from tests.cuda.nvrtc import compile_kernels, library_path, toolkit_headers
from tests.cuda.test_nvrtc import KERNELS
from tests.frameworks.cupy import emulated_cupy
from tests.support.places import DOCS
from tests.support.processes import finish

PAGE = DOCS / "cupy.md"
needs_nvrtc = pytest.mark.skipif(
    library_path() is None or toolkit_headers() is None, reason="needs nvidia-cuda-nvrtc and the toolkit's headers"
)


@pytest.fixture
def cupy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return emulated_cupy.install(tmp_path, monkeypatch)


def example() -> str:
    return PAGE.read_text().split("```python\n")[1].split("```")[0]


def taken_structs() -> dict[str, str]:
    """Structs that kernels take by value, each with a header that has it."""
    found = {}
    for header in kernel_headers():
        for signature in re.findall(r"__global__[^{]*?\w+\(([^{]*)\) {", (KERNELS / header).read_text()):
            for kind in re.findall(r"const (\w+) \w+(?=,|$)", signature):
                if re.search(rf"^struct {kind} {{", _everything(), re.MULTILINE):
                    found[kind] = header
    return found


def _everything() -> str:
    return "\n".join(path.read_text() for path in KERNELS.glob("**/*.cuh"))


def offsets(kind: str, dtype: np.dtype[Any]) -> list[str]:
    """One assertion about every field's place, and one about the size."""
    fields: Any = dtype.fields
    # The front end's own word for offsetof: NVRTC has no header that defines it.
    places = [f"__INTADDR__(&((profkit::cuda::{kind}*)0)->{name}) == {place}" for name, (_, place) in fields.items()]
    return [f"sizeof(profkit::cuda::{kind}) == {dtype.itemsize}", *places]


@needs_nvrtc
def test_structs_lie_in_memory_as_the_device_compiler_has_them() -> None:
    structs = taken_structs()
    source = "".join(f"#include <profkit/kernels/{header}>\n" for header in sorted(set(structs.values())))
    for kind in structs:
        source += "".join(f'static_assert({text}, "");\n' for text in offsets(kind, struct_type(kind)))

    compile_kernels(source, "sm_90", [*include_flags(), f"-I{toolkit_headers()}"], [])

    assert {"MatmulProblem", "PoolProblem", "LrnProblem"} <= set(structs)


def test_every_struct_that_a_kernel_takes_is_in_the_compiled_table() -> None:
    assert len(taken_structs()) >= 13
    assert set(taken_structs()) <= set(_core.cuda_structs())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("int m, n, k;", "int m, n, k;", ""),
        ("int m, n, k;", "int m, n, k, added;", "the table lacks a field of this struct"),
        ("int m, n, k;", "int m, n, renamed;", "k"),
    ],
)
def test_a_field_that_the_table_lacks_does_not_compile(tmp_path: Path, old: str, new: str, words: str) -> None:
    shutil.copytree(KERNELS, tmp_path / "kernels")
    header = tmp_path / "kernels" / "matmul" / "cuda/problem.cuh"
    assert old in header.read_text()
    header.write_text(header.read_text().replace(old, new))
    # Bodies of the methods may use what was renamed: an error about them proves nothing.
    command = [*find_compiler(".cpp"), "-std=c++17", "-fsyntax-only", f"-I{tmp_path}", "kernels/cuda/structs.cpp"]

    done = finish(command, cwd=tmp_path)

    assert (done.returncode == 0) == (not words), done.stderr
    errors = [line for line in done.stderr.splitlines() if "error:" in line and "cuda/structs.cpp" in line]
    assert bool(errors) == bool(words)
    assert all(words in line for line in errors)


@needs_nvrtc
@pytest.mark.usefixtures("cupy")
def test_nvrtc_takes_what_raw_module_is_given() -> None:
    profkit.cupy_module("matmul/cuda/naive.cuh", ["matmul_naive<float>", "matmul_naive<__half>"])

    made = emulated_cupy.RawModule.made
    assert made is not None and made.backend == "nvrtc"
    _, lowered = compile_kernels(made.code, "sm_90", [*made.options, f"-I{toolkit_headers()}"], made.names)
    assert len(set(lowered)) == 2


def test_the_example_of_the_documentation_is_right_in_emulation(cupy: ModuleType) -> None:
    names: dict[str, Any] = {}

    exec(compile(example(), "naive_matmul.py", "exec"), names)

    np.testing.assert_allclose(names["c"], names["a"] @ names["b"], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("cupy")
def test_what_does_not_exist_is_told_with_what_is_near() -> None:
    with pytest.raises(
        UsageError, match=r"unknown kernel header 'matmul/cuda_naiv.cuh'; did you mean matmul/cuda/naive.cuh\?"
    ):
        profkit.cupy_module("matmul/cuda_naiv.cuh", ["matmul_naive<float>"])
    with pytest.raises(UsageError, match=r"unknown kernel struct 'MatmulProblm'; did you mean MatmulProblem\?"):
        profkit.kernel_struct("MatmulProblm")


def test_missing_and_unknown_fields_are_told() -> None:
    fields = dict.fromkeys((struct_type("RowBlocks").names or ()), 1)

    assert profkit.kernel_struct("RowBlocks", **fields)["extent"] == 1
    with pytest.raises(UsageError, match="RowBlocks needs extent; its fields are rows, extent"):
        profkit.kernel_struct("RowBlocks", **{name: 1 for name in fields if name != "extent"})
    with pytest.raises(UsageError, match="RowBlocks has no columns; its fields are rows, extent"):
        profkit.kernel_struct("RowBlocks", **fields, columns=1)


@pytest.mark.parametrize("value", [3.7, "3", None, 2**31, {"rows": 1}])
def test_a_value_that_would_be_cut_is_refused(value: object) -> None:
    fields = dict.fromkeys((struct_type("MatmulProblem").names or ()), 1)

    with pytest.raises(UsageError, match=r"MatmulProblem.m \(int\): expected a whole number from -2147483648 to"):
        profkit.kernel_struct("MatmulProblem", **{**fields, "m": value})


def test_a_number_in_the_place_of_a_struct_is_refused() -> None:
    fields = dict.fromkeys((struct_type("LrnProblem").names or ()), 1)

    with pytest.raises(UsageError, match=r"LrnProblem.blocks \(RowBlocks\): give its fields as a dict, got 1"):
        profkit.kernel_struct("LrnProblem", **fields)


def test_one_name_is_no_list_of_kernels() -> None:
    with pytest.raises(UsageError, match=r"kernels is a list of names, as \['matmul_naive<float>'\]"):
        profkit.cupy_module("matmul/cuda/naive.cuh", "matmul_naive<float>")


def test_nested_structs_are_given_as_dicts() -> None:
    blocks = dict.fromkeys((struct_type("RowBlocks").names or ()), 3)
    numbers = {name: 1 for name in (struct_type("LrnProblem").names or ()) if name != "blocks"}

    problem = profkit.kernel_struct("LrnProblem", blocks=blocks, **numbers)

    assert problem["blocks"]["rows"] == 3 and problem["channels"] == 1


def test_fields_with_a_default_may_be_left_out() -> None:
    work = profkit.kernel_struct("BlockWork", slice_terms=8)

    assert work.tolist() == (1, 8, 0, 0, 0)


def test_a_missing_cupy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)

    with pytest.raises(UnavailableError, match=r'cupy does not load: .* pip install "profkit\[cupy\]"'):
        profkit.cupy_module("matmul/cuda/naive.cuh", ["matmul_naive<float>"])
