"""The user's own kernel: `my_conv.py[:function]`, `my_conv.cpp[:symbol]` or `my_conv.cu`, see docs/candidates.md.

The parent process reads the text that was typed and checks whether the file can be a candidate; the worker loads or
compiles it. Standard library and NumPy 1.23 only.
"""

from __future__ import annotations

import ast
import ctypes
import re
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from profkit.errors import LoadError, ProfkitError, UsageError, WrongResultError, did_you_mean
from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation, Prepared
from profkit.frameworks.candidate.cuda import prepare_cuda, start_cuda
from profkit.frameworks.candidate.library import CandidateLibrary, compile_candidate, host_compiler
from profkit.frameworks.candidate.nvrtc import CandidateKernel, is_kernel, prepare_nvrtc, start_nvrtc
from profkit.frameworks.outputs import call_on_pooled, call_on_same, pool_note, unwritten
from profkit.ops.spec import Spec

PYTHON, NATIVE, CUDA = (".py",), (".cpp", ".cc", ".cxx", ".c"), (".cu",)
SUFFIXES = PYTHON + NATIVE + CUDA
DEFAULT_SYMBOL = "candidate"
LONGEST_SOURCE = 1 << 20
"""Bytes of a candidate; a parser takes some hundred times that."""


def candidate_implementations(texts: Sequence[str], op: str) -> list[Implementation]:
    """One implementation per text, keys made different; a text that cannot be a candidate is a UsageError."""
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
        near = [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES and other.is_file()]
        raise UsageError(f"candidate {text!r}: no file {path}; {did_you_mean(path.name, near)}".rstrip("; "))
    if path.stat().st_size > LONGEST_SOURCE:
        raise UsageError(f"candidate {text!r}: {path} has more than {LONGEST_SOURCE:,} bytes: it is not a source file")
    if path.suffix not in PYTHON:
        return path, function or DEFAULT_SYMBOL, bool(function)
    # Without a name the command's (conv) is looked for, then the operator's (conv2d).
    wanted = [function] if function else list(dict.fromkeys(("prepare", op.removesuffix("2d"), op)))
    return path, _find_function(text, path, wanted), bool(function)


def _find_function(text: str, path: Path, wanted: Sequence[str]) -> str:
    """The first wanted name that the file defines, found without running it; the worker reports broken syntax."""
    try:
        names = _defined_names(ast.parse(path.read_bytes()))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what is nested too deep
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
        """Empty: `candidate_implementations` makes them from the command line."""
        return []

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """Everything: only the candidate's author knows its limits."""
        return ""

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        """Compile or load the file; compiler and flags are the build facts."""
        path, symbol = Path(implementation.options["path"]), implementation.options["function"]
        loaded: CandidateLibrary | CandidateKernel | ModuleType
        if path.suffix in CUDA:
            loaded, facts = (start_nvrtc if is_kernel(path, symbol) else start_cuda)(path, symbol)
        elif path.suffix in NATIVE:
            loaded = compile_candidate(path, symbol, host_compiler(path.suffix))
            facts = loaded.facts
        else:
            loaded, facts = _imported(path), {"python": sys.version.split()[0], "numpy": np.__version__}
        self._loaded[implementation.key] = loaded
        return {"candidate": path.name, **facts}

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
            raise LoadError(f"{name} is not a function")
        return _prepare_python(name, function, spec, inputs, conditions)


def _prepare_native(
    library: CandidateLibrary, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
) -> Prepared:
    arrays = list(inputs.values())
    run = library.bind(spec, [array.ctypes.data for array in arrays], conditions.threads, arrays)
    if conditions.output == "reused":
        output = unwritten(spec)
        return Prepared(call_on_same(partial(run, output.ctypes.data), output), output="reused")
    # Reading `ctypes.data` of an array takes over a microsecond; an empty view of its buffer a fifth of that.
    address: Callable[[Any], Any] = (ctypes.c_char * 0).from_buffer
    if spec.dtype_word == "bfloat16":  # which Python's buffers do not know
        address = attrgetter("ctypes.data")
    return Prepared(call_on_pooled(lambda output: run(address(output)), spec), note=pool_note(spec))


def _prepare_python(
    name: str, function: Callable[..., Any], spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
) -> Prepared:
    arrays = tuple(inputs.values())
    if name.rpartition(":")[2].startswith("prepare"):
        call = function(spec, *arrays, threads=conditions.threads)
        if not callable(call):
            raise LoadError(f"{name} must return a function without arguments, got {type(call).__name__}")
    else:
        call = partial(function, spec, *arrays)

    def to_numpy(result: Any) -> Array:
        if result is None:
            raise WrongResultError(f"{name} returned None; it must return the output, shape {spec.output_shape()}")
        output = np.asarray(result)
        # Only a second result beside the first shows whether memory is reused. Not done in `prepare`: the first
        # call, which may compile, shall be the first. What adds to its own output is found out here, too.
        prepared.output = "reused" if np.may_share_memory(output, np.asarray(call())) else "fresh"
        return output

    prepared = Prepared(call, to_numpy)
    return prepared


def _imported(path: Path) -> ModuleType:
    """The file, run as a module; any exception meanwhile is the file's fault, except lack of memory."""
    module = ModuleType(f"profkit_candidate_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    # Its own folder is first on the path while loading, as for a script, so that it can import files beside it; last
    # afterwards, so that it cannot hide a package from later imports.
    sys.path.insert(0, str(path.parent))
    try:
        # Compiled here rather than by the import system, whose cache can miss an edit within the same second.
        exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except (ProfkitError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        where = f" ({path.name}:{lines[-1]})" if lines else ""
        raise LoadError(f"{path.name} cannot be loaded: {type(error).__name__}: {error}{where}") from error
    finally:
        sys.path.remove(str(path.parent))
        sys.path.append(str(path.parent))
    return module


ADAPTER = CandidateAdapter()
