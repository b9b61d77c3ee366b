"""profkit._cuda without a GPU: device memory is host memory, a stream is a number. For tests of what is built on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from profkit.errors import UnavailableError
from profkit.frameworks.device_arrays import cuda_device

DEVICE = {
    "index": 0,
    "name": "NVIDIA Test 9000",
    "capability": 90,
    "multiprocessors": 132,
    "shared_bytes_per_block": 232448,
    "l2_bytes": 52428800,
    "memory_bytes": 85899345920,
}
STREAM = 77
NO_DRIVER = "CUDA driver version is insufficient for CUDA runtime version (there is no driver)"


class DeviceMemory:
    """Bytes that are not where NumPy would look for them."""

    def __init__(self, bytes: int) -> None:
        self._held = np.zeros(bytes + 16, np.uint8)
        self._begin = -self._held.ctypes.data % 16
        self.nbytes = bytes

    @property
    def _bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        return self._held[self._begin : self._begin + self.nbytes]

    @property
    def pointer(self) -> int:
        return self._bytes.ctypes.data

    def upload(self, source: np.ndarray[Any, Any]) -> None:
        assert source.nbytes == self.nbytes
        self._bytes[:] = source.reshape(-1).view(np.uint8)

    def download(self, target: np.ndarray[Any, Any]) -> None:
        assert target.nbytes == self.nbytes
        target.reshape(-1).view(np.uint8)[:] = self._bytes

    def fill(self, byte: int) -> None:
        self._bytes[:] = byte


class Stream:
    handle = STREAM


class HostCuda(ModuleType):
    """The module; `waited` has the streams that were waited for."""

    def __init__(self, has_driver: bool = True) -> None:
        super().__init__("profkit._cuda")
        self.__spec__ = ModuleSpec("profkit._cuda", None)
        self.__file__ = __file__
        self.DeviceMemory: Any = DeviceMemory
        self.Stream: Any = Stream
        self.has_driver = has_driver
        self.waited: list[int] = []
        self.rows: dict[str, list[str]] = {}
        """Kernels and their configurations; the policy takes the second, where there is one."""
        self.bound: list[tuple[str, int]] = []
        """Kernel and configuration of every call that was prepared."""

    def devices(self) -> list[dict[str, Any]]:
        if not self.has_driver:
            raise UnavailableError(NO_DRIVER)
        return [DEVICE]

    def driver_version(self) -> int:
        return 13000 if self.has_driver else 0

    def error_text(self, code: int) -> str:
        return f"error {code} (cudaErrorTest)"

    def build_info(self) -> dict[str, Any]:
        return {"architectures": "80-real 90-real 120", "compiler": "nvcc 13.0", "runtime_version": 13000}

    def use_device(self, index: int) -> None:
        assert index == 0

    def synchronize(self, stream: int) -> None:
        self.waited.append(stream)

    def kernels(self, op: str) -> list[str]:
        return [key for key in self.rows if key.startswith(f"{op}/")]

    def supports(self, key: str, params: Any, device: Any = None) -> str:
        return ""

    def configurations(self, key: str, params: Any, device: Any = None) -> list[str]:
        self.devices()
        return self.rows[key]

    def policy(self, key: str, params: Any, device: Any = None) -> int:
        self.devices()
        return len(self.rows[key][:2]) - 1

    def workspace_bytes(self, key: str, params: Any, configuration: int = -1, device: Any = None) -> int:
        assert -1 <= configuration < max(1, len(self.rows[key]))
        return 0

    def bind(
        self,
        key: str,
        params: Any,
        inputs: list[DeviceMemory],
        output: DeviceMemory,
        workspace: Any,
        stream: int,
        configuration: int = -1,
    ) -> Callable[[], None]:
        """A product of float32 matrices, whatever the key."""
        self.bound.append((key, configuration))
        shapes = ((params["m"], params["k"]), (params["k"], params["n"]))
        a, b = (memory._bytes.view(np.float32).reshape(shape) for memory, shape in zip(inputs, shapes))
        c = output._bytes.view(np.float32).reshape(len(a), -1)
        return lambda: c.__setitem__(..., a @ b)


def install(monkeypatch: pytest.MonkeyPatch, has_driver: bool = True) -> HostCuda:
    """Put it where profkit._cuda is, or would be."""
    fake = HostCuda(has_driver)
    monkeypatch.setitem(sys.modules, "profkit._cuda", fake)
    monkeypatch.setattr("profkit._cuda", fake, raising=False)
    cuda_device.cache_clear()
    return fake
