"""profkit's CUDA kernels for CuPy: a RawModule on the installed headers, and the structs that kernels take.

Compiled by NVRTC in the tests, as CuPy would; not run on a GPU. See docs/cupy.md.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from profkit.backends.adapter import Array
from profkit.backends.headers import include_flags, include_path, kernel_headers
from profkit.errors import UnavailableError, UsageError

FLAGS = ("-std=c++17",)
_NUMBERS = {
    "bool": np.bool_,
    "int": np.int32,
    "unsigned": np.uint32,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
    "float": np.float32,
    "double": np.float64,
}


def cupy_module(header: str, kernels: Sequence[str]) -> Any:
    """A cupy.RawModule with these kernels: `cupy_module("matmul/cuda_naive.cuh", ["matmul_naive<float>"])`.

    Its `get_function` takes the names with their namespace, profkit::cuda::matmul_naive<float>; NVRTC compiles at the
    first call of it, for the device at hand.
    """
    if isinstance(kernels, str):
        raise UsageError(f"kernels is a list of names, as [{kernels!r}]")
    known = kernel_headers()
    if header not in known:
        near = difflib.get_close_matches(header, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"
        raise UsageError(f"no header {header!r} with kernels; {hint}")
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


def kernel_struct(name: str, **values: Any) -> Array:
    """A struct of the kernels' headers, to be given to a kernel; nested structs as dicts, pointers as addresses."""
    return _filled(name, values)


def struct_type(name: str) -> np.dtype[Any]:
    """The NumPy type that lies in memory as the C++ struct does."""
    return np.dtype([(field, _type(kind)) for field, kind in struct_fields(name).items()], align=True)


def struct_fields(name: str) -> dict[str, str]:
    """Names and C++ types of a struct's fields, in order, read from the headers themselves."""
    return {field: kind for field, (kind, _) in _declared(name).items()}


@cache
def _declared(name: str) -> dict[str, tuple[str, int | None]]:
    """Of every field its C++ type, and its value where it has one by default."""
    text = _all_headers()
    found = re.search(rf"^struct {re.escape(name)} {{$(.*?)^}};", text, re.MULTILINE | re.DOTALL)
    if found is None:
        structs = re.findall(r"^struct (\w+) {$", text, re.MULTILINE)
        near = difflib.get_close_matches(name, structs, n=1)
        raise UsageError(f"profkit's kernels have no struct {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    body = re.sub(r"//.*", "", found.group(1))
    # Fields are indented once and have no parentheses; bodies of functions are indented more.
    field = r"\w+(?: = \w+)?"
    declared = re.findall(rf"^  ((?:const )?\w+(?:\*| const\*)*) ({field}(?:, {field})*);", body, re.MULTILINE)
    parts = [(kind, *part.split(" = ")) for kind, fields in declared for part in fields.split(", ")]
    return {part[1]: (part[0], _default(part[2]) if len(part) > 2 else None) for part in parts}


def _default(word: str) -> int | None:
    return 0 if word in ("nullptr", "false") else int(word) if word.isdecimal() else None


def _type(kind: str) -> Any:
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if kind.endswith("*"):
        return np.uint64
    enumeration = re.search(rf"^enum class {kind}(?: : (\w+))? {{", _all_headers(), re.MULTILINE)
    return _NUMBERS[enumeration.group(1) or "int"] if enumeration else struct_type(kind)


def _filled(name: str, values: Mapping[str, Any]) -> Array:
    declared = _declared(name)
    defaults = {field: default for field, (_, default) in declared.items() if default is not None}
    for word, fields in (
        ("needs", [field for field in declared if field not in values and field not in defaults]),
        ("has no", [field for field in values if field not in declared]),
    ):
        if fields:
            raise UsageError(f"{name} {word} {', '.join(fields)}; its fields are {', '.join(declared)}")
    result = np.zeros((), struct_type(name))
    for field, (kind, _) in declared.items():
        value = values.get(field, defaults.get(field))
        result[field] = _element(f"{name}.{field}", kind, value)
    return result


def _element(place: str, kind: str, value: Any) -> Any:
    """The value as the field takes it; what NumPy would cut or spread out is refused."""
    dtype = np.dtype(_type(kind))
    if dtype.names:
        if isinstance(value, Mapping):
            return _filled(kind, value)
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


@cache
def _all_headers() -> str:
    folder = include_path() / "profkit" / "kernels"
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/*.cuh")))
