"""For worker processes: NumPy in CuPy's place on a fake GPU that fails as FAKE_GPU_TROUBLE says.

What other processes must see too lies as a file in FAKE_GPU_FOLDER: a device that was lost is so for everybody, and a
launch fails once. FAKE_GPU_AFTER calls go well before. Waiting for the stream takes FAKE_GPU_WAIT_S. With the doubles
of the driver and of CUPTI on the path every product is a kernel of KERNEL_NS there.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
import types
from pathlib import Path
from typing import Any

from tests.support.fake_cuda import FakeCuda
from tests.support.fake_cupy import FakeCupy

TROUBLE = os.environ.get("FAKE_GPU_TROUBLE", "")
AFTER = int(os.environ.get("FAKE_GPU_AFTER", "0"))
FOLDER = Path(os.environ["FAKE_GPU_FOLDER"])
WAIT_S = float(os.environ.get("FAKE_GPU_WAIT_S", "0"))
LOST, FAILED = FOLDER / "lost", FOLDER / "failed"

KERNEL_NS = 5000
LAUNCH, RUNTIME = 211, 2

START = {
    "old driver": "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version",
    "no device": "cudaErrorNoDevice: no CUDA-capable device is detected",
}
CALLS = {
    "out of memory": "Out of memory allocating 1,024 bytes (allocated so far: 0 bytes).",
    "architecture": "cudaErrorNoKernelImageForDevice: no kernel image is available for execution on the device",
    "launch": "cudaErrorLaunchFailure: unspecified launch failure",
    "lost": "cudaErrorUnknown: unknown error",
}


def cupti_double() -> Any:
    """CUPTI's double, with the driver's up; None where the test has none."""
    if "PROFKIT_CUPTI_LIBRARY" not in os.environ:
        return None
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    if not Path(os.environ["PROFKIT_CUPTI_LIBRARY"]).exists():
        return None
    library = ctypes.CDLL(os.environ["PROFKIT_CUPTI_LIBRARY"])
    library.double_now.restype = ctypes.c_uint64
    return library


CUPTI = cupti_double()


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


class OutOfMemoryError(Exception):
    """As CuPy's, which is no MemoryError."""


class Gpu(FakeCupy):
    def __init__(self) -> None:
        super().__init__()
        self.__version__ = "0"
        self.calls = 0
        if WAIT_S:
            self.cuda.get_current_stream().synchronize = lambda: time.sleep(WAIT_S)
        self.cuda.runtime = types.SimpleNamespace(
            getDeviceCount=self.count,
            getDeviceProperties=lambda index: {"name": b"A fake GPU"},
            runtimeGetVersion=lambda: 13000,
            driverGetVersion=lambda: 13000,
        )

    def count(self) -> int:
        """Devices; the first thing that a process asks for."""
        with (FOLDER / "processes").open("a") as log:
            log.write(f"{os.getpid()}\n")
        if TROUBLE in START or LOST.exists():
            raise CUDARuntimeError(START.get(TROUBLE, START["no device"]))
        return 1

    def matmul(self, a: Any, b: Any) -> Any:
        """The product, unless the GPU is in trouble."""
        self.calls += 1
        if LOST.exists() or (TROUBLE in CALLS and self.calls > AFTER and not FAILED.exists()):
            self.fail()
        if CUPTI is not None:
            start = CUPTI.double_now()
            CUPTI.double_kernel(
                b"product",
                CUPTI.double_call(RUNTIME, LAUNCH, 0, 0),
                ctypes.c_uint64(start),
                ctypes.c_uint64(start + KERNEL_NS),
                7,
                ctypes.c_uint64(0),
            )
        return super().matmul(a, b)

    def fail(self) -> None:
        if TROUBLE == "launch":
            FAILED.touch()
        elif TROUBLE == "lost":
            LOST.touch()
        kind = OutOfMemoryError if TROUBLE == "out of memory" else CUDARuntimeError
        raise kind(CALLS[TROUBLE])


if os.environ.get("FAKE_GPU_HAS_TIMER") != "no":
    sys.modules["profkit._cuda"] = FakeCuda()
sys.modules[__name__] = Gpu()
