"""A user's CUDA file, compiled by nvcc, as a call on device memory; runs in the worker.

Input: the file and its C entry, which enqueues its kernels on a stream. Output: a call that events can time. Memory,
stream and device come from profkit._cuda; the compiled library has its own CUDA runtime, and both share the device's
primary context. Compiled, and run in the emulation of the tests; not run on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profkit.errors import KernelError, UnavailableError
from profkit.frameworks.adapter import Array, DeviceCall, Prepared, waiting
from profkit.frameworks.candidate.library import CandidateLibrary, Compiler, compile_candidate
from profkit.frameworks.compilers import first_command
from profkit.frameworks.device_arrays import ORDINAL, cuda_device, cuda_module, downloaded, unwritten_output, uploaded
from profkit.frameworks.headers import include_flags
from profkit.ops.spec import Spec

FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")
WITHOUT_DEVICE = 80
"""Where there is no device the file is still compiled, for this architecture: its author sees what is wrong with it."""
DEFAULT_HOME = "/usr/local/cuda"
OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation."""


def start_cuda(path: Path, symbol: str) -> tuple[CandidateLibrary, dict[str, str]]:
    """Compile for the device; without one as well, since a file that does not compile is its author's first trouble."""
    missing: UnavailableError | KernelError | None = None
    facts: dict[str, Any] = {}
    try:
        facts = cuda_device()
    except (UnavailableError, KernelError) as error:
        missing = error
    library = compile_candidate(path, symbol, cuda_compiler(int(facts.get("capability", WITHOUT_DEVICE))))
    if missing is not None:
        raise type(missing)(f"{path.name} compiles, but cannot run here: {missing}")
    return library, {**library.facts, "device": str(facts["name"])}


def cuda_compiler(capability: int) -> Compiler:
    """nvcc for this architecture; PROFKIT_NVCCFLAGS come last."""
    own = shlex.split(os.environ.get("PROFKIT_NVCCFLAGS", ""))
    flags = [*FLAGS, f"-arch=sm_{capability}", *own]
    return Compiler([*find_nvcc(), *include_flags()], flags, ctypes.c_void_p, device_failure)


def device_failure(code: int, returned: str) -> Exception:
    """A cudaError_t in the runtime's words."""
    text = f"{returned}: {cuda_module().error_text(code)}"
    return MemoryError(text) if code == OUT_OF_MEMORY else KernelError(text)


def find_nvcc() -> list[str]:
    """$NVCC, nvcc on the path, or that of $CUDA_HOME or /usr/local/cuda."""
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    names = ("nvcc", *(str(Path(home) / "bin" / "nvcc") for home in (*homes, DEFAULT_HOME)))
    command = first_command("NVCC", names, "CUDA compiler")
    if command:
        return command
    raise UnavailableError(
        "no CUDA compiler for .cu files: nvcc was not found; install the CUDA toolkit, or set $NVCC or $CUDA_HOME"
    )


def prepare_cuda(library: CandidateLibrary, spec: Spec, inputs: Mapping[str, Array]) -> Prepared:
    """Inputs and output on the device ahead of the call, which waits for the stream."""
    cuda = cuda_module()
    cuda.use_device(ORDINAL)
    memories = [uploaded(array) for array in inputs.values()]
    output = unwritten_output(spec)
    cuda.synchronize(0)  # the copies went to another stream, which the kernel's does not wait for
    stream = cuda.Stream()
    run = library.bind(spec, [memory.pointer for memory in memories], stream.handle, memories)

    def enqueue() -> Any:
        run(output.pointer)
        return output

    return Prepared(
        waiting(enqueue, lambda: cuda.synchronize(stream.handle)),
        lambda memory: downloaded(memory, spec),
        "reused",
        device=DeviceCall(enqueue, stream.handle, ORDINAL),
    )
