"""A user's CUDA file, compiled by nvcc, as a call on device memory; runs in the worker.

Enters: the file and its C entry, which enqueues its kernels on a stream. Leaves: a call that events can time. Memory,
stream and device come from profkit._cuda; what was compiled has a CUDA runtime of its own, and both share the device's
primary context. Compiled, and run in the emulation of the tests; not run on a GPU.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from profkit.backends.adapter import Array, DeviceCall, Prepared
from profkit.backends.candidate_library import CandidateLibrary, Compiler, compile_candidate
from profkit.backends.headers import include_flags
from profkit.errors import KernelError, UnavailableError
from profkit.ops.spec import Spec

FLAGS = ("-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC")
WITHOUT_DEVICE = 80
"""Where there is no device the file is still compiled, for this architecture: its author sees what is wrong with it."""
DEFAULT_HOME = "/usr/local/cuda"
# A float of any width is NaN when all its bits are set: what a kernel leaves out must not look right by chance.
ALL_BITS = 255
OUT_OF_MEMORY = 2
"""cudaErrorMemoryAllocation."""


def start_cuda(path: Path, symbol: str, op: str) -> tuple[CandidateLibrary, dict[str, str]]:
    """Compile for the device; without one as well, since a file that does not compile is its author's first trouble."""
    missing: UnavailableError | KernelError | None = None
    facts: dict[str, Any] = {}
    try:
        facts = device_facts()
    except (UnavailableError, KernelError) as error:
        missing = error
    library = compile_candidate(path, symbol, op, cuda_compiler(int(facts.get("capability", WITHOUT_DEVICE))))
    if missing is not None:
        raise type(missing)(f"{path.name} compiles, but cannot run here: {missing}")
    return library, {**library.facts, "device": str(facts["name"])}


def device_facts() -> dict[str, Any]:
    """The device that candidates run on; UnavailableError in the driver's words where there is none."""
    found: list[dict[str, Any]] = _cuda().devices()
    if not found:
        raise UnavailableError("the CUDA driver reports no device")
    return found[0]


def cuda_compiler(capability: int) -> Compiler:
    """nvcc for this architecture; PROFKIT_NVCCFLAGS stand last."""
    own = shlex.split(os.environ.get("PROFKIT_NVCCFLAGS", ""))
    flags = [*FLAGS, f"-arch=sm_{capability}", *own]
    return Compiler([*find_nvcc(), *include_flags()], flags, ctypes.c_void_p, device_failure)


def device_failure(code: int, returned: str) -> Exception:
    """A cudaError_t in the runtime's words."""
    text = f"{returned}: {_cuda().error_text(code)}"
    return MemoryError(text) if code == OUT_OF_MEMORY else KernelError(text)


def find_nvcc() -> list[str]:
    """$NVCC, nvcc on the path, or that of $CUDA_HOME or /usr/local/cuda."""
    if os.environ.get("NVCC"):
        command = shlex.split(os.environ["NVCC"])
        if shutil.which(command[0]) is None:
            raise UnavailableError(f"no CUDA compiler: $NVCC is {os.environ['NVCC']!r}, which was not found")
        return command
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    for name in ("nvcc", *(str(Path(home) / "bin" / "nvcc") for home in (*homes, DEFAULT_HOME))):
        if shutil.which(name):
            return [name]
    raise UnavailableError(
        "no CUDA compiler for .cu files: nvcc was not found; install the CUDA toolkit, or set $NVCC or $CUDA_HOME"
    )


def prepare_cuda(library: CandidateLibrary, spec: Spec, inputs: Mapping[str, Array]) -> Prepared:
    """Inputs and output on the device ahead of the call, which waits for the stream."""
    cuda = _cuda()
    cuda.use_device(0)
    memories = [_uploaded(cuda, array) for array in inputs.values()]
    size = int(np.prod(spec.output_shape(), dtype=np.int64)) * spec.numpy_dtype.itemsize
    output = cuda.DeviceMemory(size)
    output.fill(ALL_BITS)
    cuda.synchronize(0)  # the copies went to another stream, which the kernel's does not wait for
    stream = cuda.Stream()
    run = library.bind(spec, [memory.pointer for memory in memories], stream.handle, memories)

    def enqueue() -> Any:
        run(output.pointer)
        return output

    def call() -> Any:
        result = enqueue()
        cuda.synchronize(stream.handle)
        return result

    def to_numpy(result: Any) -> Array:
        host = np.empty(size, np.uint8)
        result.download(host)
        return host.view(spec.numpy_dtype).reshape(spec.output_shape())

    return Prepared(call, to_numpy, "reused", device=DeviceCall(enqueue, stream.handle))


def _uploaded(cuda: Any, array: Array) -> Any:
    bytes_of = np.ascontiguousarray(array).view(np.uint8)
    memory = cuda.DeviceMemory(bytes_of.nbytes)
    memory.upload(bytes_of)
    return memory


def _cuda() -> Any:
    if importlib.util.find_spec("profkit._cuda") is None:
        raise UnavailableError("profkit was built without CUDA; build it where nvcc is: pip install -e .")
    try:
        return importlib.import_module("profkit._cuda")
    except ImportError as error:
        raise UnavailableError(f"profkit._cuda does not load: {error}") from error
