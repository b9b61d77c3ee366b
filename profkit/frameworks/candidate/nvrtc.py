"""A user's CUDA kernel without host code, compiled by NVRTC and started by CuPy, where there is no nvcc; in the worker.

Input: a file with `extern "C" __global__ void candidate(params, inputs..., output)` and a line that says how it is
started. Its expressions are made of whole numbers, the fields of the operator's params struct, + - * / and parentheses:

    // profkit: grid (n + 15) / 16, (m + 15) / 16; block 16, 16; shared 4096; only dtype float32

Leaves: a call that events can time. Compiled by NVRTC and run in emulation by the tests; not run on a GPU.
"""

from __future__ import annotations

import ast
import importlib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from profkit.errors import CompileError, LoadError, UnavailableError, UnsupportedError
from profkit.frameworks.adapter import Array, DeviceCall, Prepared, waiting
from profkit.frameworks.headers import include_flags, include_path
from profkit.ops.spec import Spec

FLAGS = ("-std=c++17",)
SHARED_UNASKED = 48 * 1024
"""Bytes of dynamic shared memory that every kernel may take; more must be requested from the driver."""
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# NVRTC has no standard headers; the kernels' own headers declare the same.
_INTEGERS = """#ifdef __CUDACC_RTC__
using int64_t = long long;
using uint64_t = unsigned long long;
using int32_t = int;
using uint32_t = unsigned;
#endif
"""
EXAMPLE = "// profkit: grid (n + 15) / 16, (m + 15) / 16; block 16, 16"
_MOST_NUMBERS = {"grid": 3, "block": 3, "shared": 1}
_LINE = re.compile(r"^[ \t]*//[ \t]*profkit:(.*)$", re.MULTILINE)
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class LaunchGeometry:
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int


@dataclass(frozen=True)
class LaunchLine:
    """Expressions of the line; `only` names fields of the spec and the words they must have."""

    grid: Sequence[str]
    block: Sequence[str]
    shared: str = "0"
    only: Mapping[str, str] = field(default_factory=dict)

    def geometry(self, params: Mapping[str, int | float]) -> LaunchGeometry:
        grid, block = (tuple(evaluate(text, params) for text in texts) for texts in (self.grid, self.block))
        for name, sizes in (("grid", grid), ("block", block)):
            if min(sizes) < 1:
                raise LoadError(f"{name} {', '.join(map(str, sizes))}: every number must be at least 1")
        shared_bytes = evaluate(self.shared, params)
        if shared_bytes < 0:
            raise LoadError(f"shared {self.shared}: {shared_bytes} bytes cannot be requested")
        return LaunchGeometry(grid, block, shared_bytes)

    def check(self, spec: Spec, name: str) -> None:
        """UnsupportedError for a spec that the line excludes."""
        words = spec.words()
        for key, word in self.only.items():
            if key not in words:
                raise LoadError(f"{name}: only {key} {word}: {spec.op} has no field {key}, but {', '.join(words)}")
            if words[key] != word:
                raise UnsupportedError(f"{name} is for {key} {word} only")


def read_launch_line(text: str, name: str) -> LaunchLine:
    """The first line of a source that begins with `// profkit:`."""
    found = _LINE.search(text)
    if found is None:
        raise LoadError(f"{name}: a kernel needs a line that says how it is started, as\n  {EXAMPLE}")
    parts = [part.strip().partition(" ") for part in found.group(1).split(";") if part.strip()]
    given = {word: _split(rest) for word, _, rest in parts}
    wrong = _trouble([word for word, _, _ in parts], given)
    if wrong:
        raise LoadError(
            f"{name}: {found.group(0).strip()}\n  {wrong}; it is grid, block, shared, only, as\n  {EXAMPLE}"
        )
    only = dict(part.split(maxsplit=1) for part in given.get("only", []))
    return LaunchLine(given["grid"], given["block"], given.get("shared", ["0"])[0], only)


def _trouble(words: Sequence[str], given: Mapping[str, Sequence[str]]) -> str:
    """What is wrong with the line; empty when nothing is."""
    unknown = [word for word in words if word not in (*_MOST_NUMBERS, "only")]
    repeated = [word for word in words if words.count(word) > 1]
    if unknown or repeated:
        return f"{unknown[0]!r} is not known" if unknown else f"{repeated[0]} appears twice"
    if not given.get("grid") or not given.get("block"):
        return "grid and block are needed"
    for word, parts in given.items():
        if word == "only" and not all(len(part.split()) > 1 for part in parts):
            return "only takes fields with the word that each must have, as dtype float32"
        if word != "only" and (not 1 <= len(parts) <= _MOST_NUMBERS[word] or "" in parts):
            return f"{word} takes {'one number' if word == 'shared' else 'one to three numbers'}"
    return ""


def evaluate(text: str, values: Mapping[str, int | float]) -> int:
    """A whole number; division rounds down."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, values)
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        names = ", ".join(name for name, value in values.items() if isinstance(value, int))
        raise LoadError(f"{text.strip()!r}: {error}; it may hold whole numbers, + - * / ( ) and {names}") from None


def _value(node: ast.expr, values: Mapping[str, int | float]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name) and isinstance(values.get(node.id), int):
        return int(values[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    raise ValueError(f"{ast.unparse(node)} is not known")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text.strip() else []


@dataclass(frozen=True)
class CandidateKernel:
    """A compiled kernel, how it is started, and what it takes first."""

    name: str
    kernel: Any
    line: LaunchLine


def is_kernel(path: Path, symbol: str) -> bool:
    """Whether the symbol is a kernel itself and not a host function that starts one."""
    text = _COMMENTS.sub(" ", _source(path))
    return re.search(rf'extern\s+"C"\s*({{.*)?\b__global__\s[^;{{]*\b{symbol}\s*\(', text, re.DOTALL) is not None


def start_nvrtc(path: Path, symbol: str) -> tuple[CandidateKernel, dict[str, str]]:
    """Compile; the compiler's own words are the message when that fails."""
    text, name = _source(path), f"{path.name}:{symbol}"
    line = read_launch_line(text, name)
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise UnavailableError(
            f'{name} is a kernel, which CuPy compiles and starts: {error}; pip install "profkit[cupy]", '
            "or write a host function and let nvcc compile it (docs/candidates.md)"
        ) from error
    module = cupy.RawModule(code=source_of(text, path.name), options=(*FLAGS, *include_flags()), backend="nvrtc")
    try:
        kernel = module.get_function(symbol)
    except Exception as error:  # CuPy's own types; that of a compile error has the log as its text
        if type(error).__name__ != "CompileException":
            raise
        raise CompileError(f"{path.name} does not compile (NVRTC):\n{error}") from error
    facts = {"compiler": "NVRTC", "flags": " ".join(FLAGS), "cupy": str(cupy.__version__)}
    return CandidateKernel(name, kernel, line), facts


def _source(path: Path) -> str:
    """Comments in other encodings do not invalidate a file."""
    return path.read_text(encoding="utf-8", errors="replace")


def source_of(text: str, name: str) -> str:
    """The file with params.h before it, whose own include NVRTC could not follow."""
    header = (include_path() / "profkit" / "params.h").read_text(encoding="utf-8")
    header = header.replace("#include <stdint.h>\n", "")
    return f'{_INTEGERS}{header}#line 1 "{name}"\n{text}'


def prepare_nvrtc(candidate: CandidateKernel, spec: Spec, inputs: Mapping[str, Array]) -> Prepared:
    """Inputs and output on the device ahead of the call, which waits for CuPy's current stream."""
    candidate.line.check(spec, candidate.name)
    numbers = spec.params()
    launch = candidate.line.geometry(numbers)
    if launch.shared_bytes > SHARED_UNASKED:
        candidate.kernel.max_dynamic_shared_size_bytes = launch.shared_bytes
    cupy = importlib.import_module("cupy")
    kinds = [(name, np.float64 if isinstance(number, float) else np.int64) for name, number in numbers.items()]
    params = np.array(tuple(numbers.values()), kinds)
    # As bytes: CuPy does not know all types, and the kernel gets addresses only.
    arrays = [cupy.asarray(np.ascontiguousarray(array).reshape(-1).view(np.uint8)) for array in inputs.values()]
    output = cupy.full(spec.output_bytes(), 255, np.uint8)  # NaN in every format
    stream = cupy.cuda.get_current_stream()

    def enqueue() -> Any:
        candidate.kernel(launch.grid, launch.block, (params, *arrays, output), shared_mem=launch.shared_bytes)
        return output

    def to_numpy(result: Any) -> Array:
        array: Array = cupy.asnumpy(result)
        return array.view(spec.numpy_dtype).reshape(spec.output_shape())

    return Prepared(
        waiting(enqueue, stream.synchronize), to_numpy, "reused", device=DeviceCall(enqueue, int(stream.ptr))
    )
