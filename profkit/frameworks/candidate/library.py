"""A user's C, C++ or CUDA file, compiled, as a function to call; runs in the worker.

Input: the file, its symbol and the compiler (for .cu: cuda.py). Output: a call on raw addresses through
ctypes, which releases the GIL.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.errors import CompileError, KernelError, LoadError, UnsupportedError
from profkit.frameworks.compilers import compiler_version, find_compiler
from profkit.frameworks.headers import include_path
from profkit.frameworks.scratch import temporary_folder
from profkit.ops.spec import Spec

FLAGS = ("-O3", "-march=native", "-shared", "-fPIC", "-pthread")
COMPILE_SECONDS = 300


def host_failure(code: int, returned: str) -> Exception:
    """What a kernel's own error code becomes: all that is known of it is that it is not 0."""
    return KernelError(f"{returned}; 0 means success")


@dataclass(frozen=True)
class Compiler:
    """A command that makes a shared library of a source file; what its kernels are given last, and may return."""

    command: Sequence[str]
    flags: Sequence[str]
    last_argument: Any = ctypes.c_int
    """The number of threads, or the stream."""
    failure: Callable[[int, str], Exception] = host_failure
    """The error for a positive code and the sentence that it ends."""


@dataclass(frozen=True)
class CandidateLibrary:
    """A loaded library and what it was built with."""

    name: str
    function: Callable[..., int]
    facts: dict[str, str]
    failure: Callable[[int, str], Exception]

    def bind(self, spec: Spec, addresses: Sequence[int], last: int, kept: Sequence[Any]) -> Callable[[Any], None]:
        """The kernel on inputs at these addresses, valid as long as `kept` live, and its last argument.

        The returned function takes the output: its address or a ctypes array. The kernel returns 0 for success, a
        negative number for a spec that it does not offer.
        """
        params = params_struct(spec)
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        reference, function, name, failure = ctypes.byref(params), self.function, self.name, self.failure

        def run(output: Any) -> None:
            code = function(reference, pointers, output, last)
            if not code:
                return
            if code < 0:
                raise UnsupportedError(f"{name} does not offer this spec (it returned {code})")
            raise failure(code, f"{name} returned {code} for {len(kept)} inputs of {spec.op}")

        return run


def host_compiler(suffix: str) -> Compiler:
    """For .c and C++ files; PROFKIT_CXXFLAGS come last."""
    own = shlex.split(os.environ.get("PROFKIT_CXXFLAGS", ""))
    return Compiler(find_compiler(suffix), [*FLAGS, "-std=c11" if suffix == ".c" else "-std=c++17", *own])


def compile_candidate(path: Path, symbol: str, compiler: Compiler) -> CandidateLibrary:
    """Compile and load; the compiler's own words are the message when that fails."""
    with temporary_folder("candidate") as folder:
        library = Path(folder) / "candidate.so"
        # Libraries named in the flags (-lopenblas) must follow the file that uses them.
        command = [*compiler.command, f"-I{include_path()}", "-o", str(library), str(path), *compiler.flags]
        _run_compiler(command, path, folder)
        # The file may go once it is mapped: nothing is left behind even if the kernel crashes later.
        loaded = _load(library, path)
    try:
        function = loaded[symbol]
    except AttributeError:
        language = "" if path.suffix == ".c" else ' declared extern "C"'
        raise LoadError(f"{path.name} has no function {symbol}{language}") from None
    function.restype = ctypes.c_int
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, compiler.last_argument]
    facts = {"compiler": compiler_version(compiler.command), "flags": " ".join(compiler.flags)}
    return CandidateLibrary(f"{path.name}:{symbol}", function, facts, compiler.failure)


def _load(library: Path, path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library), mode=os.RTLD_NOW)
    except OSError as error:
        reason = str(error).replace(f"{library}: ", "")
        raise LoadError(f"{path.name} was compiled but cannot be loaded: {reason}") from error


def params_struct(spec: Spec) -> ctypes.Structure:
    """The C struct of the spec's parameters, which has the fields of `Spec.params` in their order."""
    numbers = spec.params()
    types = [ctypes.c_double if isinstance(number, float) else ctypes.c_int64 for number in numbers.values()]
    kind = type(f"profkit_{spec.op}_params", (ctypes.Structure,), {"_fields_": list(zip(numbers, types))})
    struct: ctypes.Structure = kind(**numbers)
    return struct


def _run_compiler(command: Sequence[str], path: Path, folder: str) -> None:
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
            env={**os.environ, "TMPDIR": folder},
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{path.name}: the compiler did not end within {COMPILE_SECONDS} s") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip() or f"the compiler ended with code {done.returncode}"
        raise CompileError(f"{path.name} does not compile ({command[0]}):\n{words}")
