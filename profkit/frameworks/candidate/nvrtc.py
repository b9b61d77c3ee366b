"""A user's CUDA kernel without host code, compiled by NVRTC and started by CuPy, where there is no nvcc; in the worker.

Enters: a file with `extern "C" __global__ void candidate(params, inputs..., output)` and a line that says how it is
started (launch.py). Leaves: a call that events can time. Compiled by NVRTC and run in emulation by the tests;
not run on a GPU.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from profkit.errors import KernelError, UnavailableError
from profkit.frameworks.adapter import Array, DeviceCall, Prepared, waiting
from profkit.frameworks.candidate.launch import LaunchLine, read_launch_line
from profkit.frameworks.headers import include_flags, include_path
from profkit.ops.spec import Spec

FLAGS = ("-std=c++17",)
SHARED_UNASKED = 48 * 1024
"""Bytes of dynamic shared memory that every kernel may take; for more the driver wants to be asked."""
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# NVRTC has no standard headers; the kernels' own headers declare the same.
_INTEGERS = """#ifdef __CUDACC_RTC__
using int64_t = long long;
using uint64_t = unsigned long long;
using int32_t = int;
using uint32_t = unsigned;
#endif
"""


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
        raise KernelError(f"{path.name} does not compile (NVRTC):\n{error}") from error
    facts = {"compiler": "NVRTC", "flags": " ".join(FLAGS), "cupy": str(cupy.__version__)}
    return CandidateKernel(name, kernel, line), facts


def _source(path: Path) -> str:
    """Comments in other encodings are no reason to refuse a file."""
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
