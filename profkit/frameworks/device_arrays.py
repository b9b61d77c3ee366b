"""profkit._cuda as adapters use it: the module, the device, and a call's arrays in the memory of that device."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array
from profkit.ops.spec import Spec

ORDINAL = 0
"""The device that is used; CUDA_VISIBLE_DEVICES chooses another one."""
NOT_BUILT = "profkit was built without CUDA: there was no nvcc"
REBUILD = "pip install -e . where nvcc is on the PATH"
# A float of any width is NaN when all its bits are set: what a kernel leaves out must not look right by chance.
_ALL_BITS = 0xFF


def cuda_module() -> Any:
    """The compiled module, which loads without a driver too; UnavailableError where it is missing or does not load."""
    try:
        return importlib.import_module("profkit._cuda")
    except ModuleNotFoundError as error:
        raise UnavailableError(f"{NOT_BUILT}; {REBUILD}") from error
    except ImportError as error:
        raise UnavailableError(f"profkit._cuda does not load: {error}; {REBUILD}") from error


@cache
def cuda_device() -> dict[str, Any]:
    """Facts of the device; UnavailableError with the driver's reason without one."""
    devices = cuda_module().devices()
    if len(devices) <= ORDINAL:
        raise UnavailableError("the CUDA driver reports no device")
    facts: dict[str, Any] = devices[ORDINAL]
    return facts


def uploaded(array: Array) -> Any:
    memory = cuda_module().DeviceMemory(array.nbytes)
    memory.upload(np.ascontiguousarray(array).reshape(-1).view(np.uint8))  # Python's buffers do not know bfloat16
    return memory


def unwritten_output(spec: Spec) -> Any:
    """Device memory for the output, full of NaN."""
    memory = cuda_module().DeviceMemory(spec.output_bytes())
    memory.fill(_ALL_BITS)
    return memory


def downloaded(memory: Any, spec: Spec) -> Array:
    """The output as an array of the host; the memory may be larger."""
    data = np.empty(memory.nbytes, np.uint8)
    memory.download(data)
    return data[: spec.output_bytes()].view(spec.numpy_dtype).reshape(spec.output_shape())
