"""The user's own kernel: `my_conv.py[:function]`, `my_conv.cpp[:symbol]` or `my_conv.cu`, see docs/candidates.md.

The parent process reads the text that was typed and looks whether the file can be meant; the worker loads or
compiles it. Standard library and NumPy 1.23 only.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from profkit.errors import KernelError, UsageError, did_you_mean
from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation, Prepared
from profkit.frameworks.candidate.cuda import prepare_cuda, start_cuda
from profkit.frameworks.candidate.library import CandidateLibrary, compile_candidate, host_compiler
from profkit.frameworks.candidate.nvrtc import CandidateKernel, is_kernel, prepare_nvrtc, start_nvrtc
from profkit.frameworks.outputs import call_on_pooled, call_on_same, pool_note, unwritten
from profkit.ops.spec import Spec

PYTHON, NATIVE, CUDA = (".py",), (".cpp", ".cc", ".cxx", ".c"), (".cu",)
SUFFIXES = PYTHON + NATIVE + CUDA
DEFAULT_SYMBOL = "candidate"


def candidate_implementations(texts: list[str], op: str) -> list[Implementation]:
    """One implementation per text, keys made different; a text that cannot be meant is a UsageError."""
    parsed = [_parse(text, op) for text in texts]
    stems = Counter(path.stem for path, _, _ in parsed)
    names = [
        path.stem if stems[path.stem] == 1 else path.stem + (f".{function}" if explicit else path.suffix)
        for path, function, explicit in parsed
    ]
    devices = ["cuda" if path.suffix in CUDA else "cpu" for path, _, _ in parsed]
    keys = [f"{op}/candidate/{device}/{re.sub(r'[^A-Za-z0-9_.-]', '_', name)}" for device, name in zip(devices, names)]
    unique = [f"{key}-{keys[: i + 1].count(key)}" if key in keys[:i] else key for i, key in enumerate(keys)]
    return [
        Implementation(key, "candidate", options={"path": str(path), "function": function})
        for key, (path, function, _) in zip(unique, parsed)
    ]


def _parse(text: str, op: str) -> tuple[Path, str, bool]:
    """File, function or symbol, and whether that was typed."""
    name, colon, function = text.rpartition(":")
    if not colon or not function.isidentifier():
        name, function = text, ""
    path = Path(name).expanduser().absolute()
    if path.suffix not in SUFFIXES:
        raise UsageError(f"candidate {text!r}: expected a file that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        near = [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES]
        raise UsageError(f"candidate {text!r}: no file {path}; {did_you_mean(path.name, near)}".rstrip("; "))
    if path.suffix not in PYTHON:
        return path, function or DEFAULT_SYMBOL, bool(function)
    wanted = [function] if function else ["prepare", *function_names(op)]
    return path, _find_function(text, path, wanted), bool(function)


def function_names(op: str) -> list[str]:
    """Names that are looked for, in this order, when none was typed: the command's (conv), the operator's (conv2d)."""
    return list(dict.fromkeys((op.removesuffix("2d"), op)))


def _find_function(text: str, path: Path, wanted: Sequence[str]) -> str:
    """The first wanted name that the file defines, found without running it; the worker reports broken syntax."""
    try:
        names = _defined_names(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError):
        return wanted[-1]
    for name in wanted:
        if name in names or "*" in names:
            return name
    functions = ", ".join(sorted(names)) or "nothing"
    raise UsageError(f"candidate {text!r}: {path.name} has no function {' or '.join(wanted)}; it defines {functions}")


def _defined_names(module: ast.Module) -> set[str]:
    """Names of the module's own level; those inside functions and classes do not count."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(module.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        waiting += ast.iter_child_nodes(node)
    return names


class CandidateAdapter:
    """Loads a Python file or compiles a C, C++ or CUDA file in the worker."""

    name = "candidate"

    def __init__(self) -> None:
        self._loaded: dict[str, CandidateLibrary | CandidateKernel | ModuleType] = {}

    def is_available(self) -> Availability:
        """Always; a missing compiler is reported by the row that needs it."""
        return Availability(True)

    def implementations(self, op: str) -> Sequence[Implementation]:
        """None of its own: `candidate_implementations` makes them from what was typed."""
        return []

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """Everything: only the candidate's author knows its limits."""
        return ""

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        """Compile or load the file; compiler and flags are the build facts."""
        path, symbol = Path(implementation.options["path"]), implementation.options["function"]
        if path.suffix in CUDA:
            start = start_nvrtc if is_kernel(path, symbol) else start_cuda
            self._loaded[implementation.key], facts = start(path, symbol)
            return {"candidate": path.name, **facts}
        if path.suffix in NATIVE:
            library = compile_candidate(path, symbol, host_compiler(path.suffix))
            self._loaded[implementation.key] = library
            return {"candidate": path.name, **library.facts}
        self._loaded[implementation.key] = load_python(path)
        return {"candidate": path.name, "python": sys.version.split()[0], "numpy": np.__version__}

    def prepare(
        self, implementation: Implementation, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
    ) -> Prepared:
        """A call of the user's function on these inputs; `start` has loaded it."""
        loaded = self._loaded[implementation.key]
        if isinstance(loaded, CandidateKernel):
            return prepare_nvrtc(loaded, spec, inputs)
        if isinstance(loaded, CandidateLibrary):
            if implementation.device == "cuda":
                return prepare_cuda(loaded, spec, inputs)
            return _prepare_native(loaded, spec, inputs, conditions)
        function = getattr(loaded, implementation.options["function"], None)
        name = f"{Path(implementation.options['path']).name}:{implementation.options['function']}"
        if not callable(function):
            raise KernelError(f"{name} is not a function")
        return _prepare_python(name, function, spec, inputs, conditions)


def _prepare_native(
    library: CandidateLibrary, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
) -> Prepared:
    arrays = list(inputs.values())
    run = library.bind(spec, [array.ctypes.data for array in arrays], conditions.threads, arrays)
    if conditions.output == "reused":
        output = unwritten(spec)
        return Prepared(call_on_same(partial(run, output.ctypes.data), output), _as_it_is, "reused")
    if spec.dtype_word == "bfloat16":  # which Python's buffers do not know
        call = call_on_pooled(lambda output: run(output.ctypes.data), spec)
        return Prepared(call, _as_it_is, "fresh", note=pool_note(spec))
    # Reading `ctypes.data` of an array takes over a microsecond; an empty view of its buffer a fifth of that.
    view: Callable[[Any], Any] = (ctypes.c_char * 0).from_buffer
    call = call_on_pooled(lambda output: run(view(output)), spec)
    return Prepared(call, _as_it_is, "fresh", note=pool_note(spec))


def _as_it_is(output: Array) -> Array:
    return output


def _prepare_python(
    name: str, function: Callable[..., Any], spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
) -> Prepared:
    arrays = tuple(inputs.values())
    if name.rpartition(":")[2].startswith("prepare"):
        call = function(spec, *arrays, threads=conditions.threads)
        if not callable(call):
            raise KernelError(f"{name} must return a function without arguments, got {type(call).__name__}")
    else:
        call = partial(function, spec, *arrays)

    def to_numpy(result: Any) -> Array:
        if result is None:
            raise KernelError(f"{name} returned None; it must return the output, shape {spec.output_shape()}")
        output = np.asarray(result)
        # Only a second result beside the first tells whether memory is reused. Not done in `prepare`: the first
        # call, which may compile, shall be the first. What adds to its own output is found out here, too.
        prepared.output = "reused" if np.may_share_memory(output, np.asarray(call())) else "fresh"
        return output

    prepared = Prepared(call, to_numpy)
    return prepared


def load_python(path: Path) -> ModuleType:
    """Run the file as a module; its own folder is on the path, so that it can import files beside it."""
    module = ModuleType(f"profkit_candidate_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    # Compiled here rather than by the import system, whose cache can miss an edit within the same second.
    with _first_on_path(path.parent):
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module


@contextlib.contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    """First while loading, as for a script; last afterwards, so that it cannot hide a package from later imports."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.path.append(str(folder))


ADAPTER = CandidateAdapter()
