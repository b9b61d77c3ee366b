"""The native adapters on memory whose every byte is known before a call: what a kernel leaves out is NaN, what it reads
unwritten gives NaN, and what it writes outside its output or workspace shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.errors import WrongResultError
from profkit.frameworks.adapter import Array, aligned_empty
from profkit.frameworks.device_arrays import cuda_module
from profkit.frameworks.native.cuda import NativeCudaAdapter
from profkit.frameworks.native.operators import NativeAdapter
from profkit.ops.spec import Spec

GUARD_BYTES = 256
GUARD = 0xA5
ALL_BITS = 0xFF
"""NaN in any float type."""


class HostMemory:
    def __init__(self, size_bytes: int) -> None:
        self.whole = aligned_empty((size_bytes + 2 * GUARD_BYTES,), np.uint8)
        self.inner: Array = self.whole[GUARD_BYTES : GUARD_BYTES + size_bytes]
        self.fill_with_nan()

    def fill_with_nan(self) -> None:
        """Guards anew, and NaN between them."""
        self.whole.fill(GUARD)
        self.inner.fill(ALL_BITS)

    def is_intact(self) -> bool:
        return bool(np.all(self.whole[:GUARD_BYTES] == GUARD) and np.all(self.whole[-GUARD_BYTES:] == GUARD))


class GuardedDeviceMemory:
    """A guard behind: a kernel is given the memory from its beginning."""

    def __init__(self, size_bytes: int) -> None:
        self._spoiled = np.full(size_bytes + GUARD_BYTES, ALL_BITS, np.uint8)
        self._spoiled[size_bytes:] = GUARD
        self.inner = cuda_module().DeviceMemory(self._spoiled.size)
        self.fill_with_nan()

    def fill_with_nan(self) -> None:
        """The guard anew, and NaN before it; the stream of a call does not wait for it by itself."""
        self.inner.upload(self._spoiled)
        cuda_module().synchronize(0)

    def is_intact(self) -> bool:
        found = np.empty_like(self._spoiled)
        self.inner.download(found)
        return bool(np.all(found[-GUARD_BYTES:] == GUARD))


class Guards:
    """The memory of one prepared call."""

    def __init__(self) -> None:
        self.memory: dict[str, HostMemory | GuardedDeviceMemory] = {}

    def fill_with_nan(self) -> None:
        for memory in self.memory.values():
            memory.fill_with_nan()

    def check(self) -> None:
        """After each call; WrongResultError when it wrote outside."""
        for role, memory in self.memory.items():
            if not memory.is_intact():
                raise WrongResultError(f"it wrote outside its {role}")


class GuardedNative(Guards, NativeAdapter):
    """CPU kernels; for one `prepare`."""

    def new_output(self, spec: Spec) -> Array:
        memory = self.memory["output"] = HostMemory(spec.output_bytes())
        output: Array = memory.inner.view(spec.numpy_dtype).reshape(spec.output_shape())
        return output

    def new_workspace(self, size_bytes: int) -> Array:
        memory = self.memory["workspace"] = HostMemory(size_bytes)
        return memory.inner


class GuardedNativeCuda(Guards, NativeCudaAdapter):
    """CUDA kernels; for one `prepare`."""

    def new_output(self, spec: Spec) -> Any:
        """Device memory that is larger than the output."""
        memory = self.memory["output"] = GuardedDeviceMemory(spec.output_bytes())
        return memory.inner

    def new_workspace(self, size_bytes: int) -> Any:
        """Device memory that is larger than the workspace; None where a kernel needs none."""
        if not size_bytes:
            return None
        memory = self.memory["workspace"] = GuardedDeviceMemory(size_bytes)
        return memory.inner


def guarded_adapter(name: str) -> GuardedNative | GuardedNativeCuda:
    return GuardedNativeCuda() if name == "native_cuda" else GuardedNative()
