"""NumPy in CuPy's place, with a fake device: what was called, in order; a memory hook is told of products."""

from __future__ import annotations

import types
from typing import Any, ClassVar

import numpy as np


class MemoryHook:
    """As CuPy's: active inside `with`."""

    active: ClassVar[list[MemoryHook]] = []

    def __enter__(self) -> MemoryHook:
        self.active.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.active.remove(self)

    def malloc_postprocess(self, **block: int) -> None:
        """A block was handed out."""

    def free_postprocess(self, **block: int) -> None:
        """A block came back."""


class FakeCupy(types.ModuleType):
    """Everything that is not written here is NumPy's."""

    def __init__(self) -> None:
        super().__init__("cupy")
        self.called: list[str] = []
        stream = types.SimpleNamespace(ptr=7, synchronize=lambda: self.called.append("wait"))
        self.cuda = types.SimpleNamespace(
            get_current_stream=lambda: stream,
            memory_hook=types.SimpleNamespace(MemoryHook=MemoryHook),
            nvtx=types.SimpleNamespace(RangePush=self.called.append, RangePop=lambda: self.called.append("pop")),
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def asnumpy(self, array: Any) -> Any:
        return np.array(array)

    def matmul(self, a: Any, b: Any) -> Any:
        """Takes a workspace of 1000 bytes, which the pool rounds to 1024, and gives it back."""
        result = np.matmul(a, b)
        for hook in MemoryHook.active:
            hook.malloc_postprocess(device_id=0, size=1000, mem_size=1024, mem_ptr=64, pmem_id=1)
            hook.malloc_postprocess(
                device_id=0, size=result.nbytes, mem_size=4096, mem_ptr=result.ctypes.data, pmem_id=2
            )
            hook.free_postprocess(device_id=0, mem_size=1024, mem_ptr=64, pmem_id=1)
        return result
