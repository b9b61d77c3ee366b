"""profkit's CUDA kernels for CuPy: a RawModule on the installed headers, and the structs that kernels take.

Compiled by NVRTC in the tests, as CuPy would; not run on a GPU. See docs/cupy.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from profkit.errors import UnavailableError, UsageError, unknown
from profkit.frameworks.adapter import Array
from profkit.frameworks.headers import include_flags, kernel_headers

FLAGS = ("-std=c++17",)
_NUMBERS = {
    "bool": np.bool_,
    "int": np.int32,
    "unsigned": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
    "float": np.float32,
    "double": np.float64,
    "pointer": np.uint64,
}


def cupy_module(header: str, kernels: Sequence[str]) -> Any:
    """A cupy.RawModule with these kernels: `cupy_module("matmul/cuda/naive.cuh", ["matmul_naive<float>"])`.

    Its `get_function` takes the names with their namespace, profkit::cuda::matmul_naive<float>; NVRTC compiles at the
    first call of it, for the device at hand.
    """
    if isinstance(kernels, str):
        raise UsageError(f"kernels is a list of names, as [{kernels!r}]")
    known = kernel_headers()
    if header not in known:
        raise UsageError(unknown("kernel header", header, known, most=1))
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise UnavailableError(f'cupy does not load: {error}; pip install "profkit[cupy]"') from error
    return cupy.RawModule(
        code=f"#include <profkit/kernels/{header}>\n",
        options=(*FLAGS, *include_flags()),
        backend="nvrtc",
        name_expressions=tuple(f"profkit::cuda::{name}" for name in kernels),
    )


def kernel_struct(name: str, /, **values: Any) -> Array:
    """A struct of the kernels' headers, to be given to a kernel; nested structs as dicts, pointers as addresses."""
    _, layout, defaults = _layout(name)
    kinds = {field: kind for field, kind, _ in layout}
    for word, fields in (
        ("needs", [field for field in kinds if field not in values and not defaults]),
        ("has no", [field for field in values if field not in kinds]),
    ):
        if fields:
            raise UsageError(f"{name} {word} {', '.join(fields)}; its fields are {', '.join(kinds)}")
    dtype = struct_type(name)
    result: Array = np.frombuffer(defaults or bytes(dtype.itemsize), dtype).copy().reshape(())
    for field, value in values.items():
        result[field] = _element(f"{name}.{field}", kinds[field], value)
    return result


def struct_type(name: str) -> np.dtype[Any]:
    """The NumPy type with the memory layout of the C++ struct."""
    size, fields, _ = _layout(name)
    names, kinds, offsets = zip(*fields)
    formats = [_type(kind) for kind in kinds]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})


def _layout(name: str) -> tuple[int, list[tuple[str, str, int]], bytes]:
    structs = _layouts()
    if name not in structs:
        raise UsageError(unknown("kernel struct", name, structs, most=1))
    return structs[name]


@cache
def _layouts() -> dict[str, tuple[int, list[tuple[str, str, int]], bytes]]:
    """As the compiler has them that built profkit."""
    from profkit import _core

    return _core.cuda_structs()


def _type(kind: str) -> Any:
    return _NUMBERS[kind] if kind in _NUMBERS else struct_type(kind)


def _element(place: str, kind: str, value: Any) -> Any:
    """The value as the field takes it; what NumPy would cut or spread out is refused."""
    dtype = np.dtype(_type(kind))
    if dtype.names:
        if isinstance(value, Mapping):
            return kernel_struct(kind, **value)
        if getattr(value, "dtype", None) == dtype:
            return value
        raise UsageError(f"{place} ({kind}): give its fields as a dict, got {value!r}")
    if dtype.kind == "f":
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise UsageError(f"{place} ({kind}): expected a number, got {value!r}")
        return value
    is_whole = isinstance(value, (int, np.integer, np.bool_))
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not is_whole or not least <= int(value) <= most:
        raise UsageError(f"{place} ({kind}): expected a whole number from {least} to {most}, got {value!r}")
    return value
