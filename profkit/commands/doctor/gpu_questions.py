"""Questions to NVIDIA's libraries, each in a separate process: a driver may hang, or end the process that calls it.

`python -m profkit.commands.doctor.gpu_questions driver libcuda.so.1` prints the answer as JSON; `answer_of` gives it to
doctor.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

DRIVER_LIBRARY = "libcuda.so.1"
TIMEOUT_S = 60.0
# CUdevice_attribute
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76


def answer_of(question: str, *words: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """What the process says; {"trouble": ...} when it says nothing."""
    command = [sys.executable, "-m", "profkit.commands.doctor.gpu_questions", question, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"trouble": f"no answer within {timeout_s:g} s"}
    if done.returncode < 0:
        return {"trouble": f"the querying process was ended by signal {-done.returncode}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        return {"trouble": said[-1] if said else f"the querying process ended with code {done.returncode}"}
    return answer


def ask_driver(library: str) -> dict[str, Any]:
    """Version and devices of the CUDA driver; `trouble` and `code` in its own words when it refuses."""
    answer: dict[str, Any] = {"is_loaded": False, "trouble": "", "code": 0, "version": 0, "devices": []}
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        return answer | {"trouble": str(error)}
    answer["is_loaded"] = True
    version, count = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    answer["version"] = version.value
    code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if code:
        return answer | {"code": code, "trouble": _words(driver, code)}
    answer["devices"] = [_device(driver, index) for index in range(count.value)]
    return answer


def _device(driver: Any, index: int) -> dict[str, Any]:
    handle, name, size = ctypes.c_int(0), ctypes.create_string_buffer(256), ctypes.c_size_t(0)
    code = (
        driver.cuDeviceGet(ctypes.byref(handle), index)
        or driver.cuDeviceGetName(name, len(name), handle)
        or driver.cuDeviceTotalMem_v2(ctypes.byref(size), handle)
    )
    numbers = {"major": _MAJOR, "minor": _MINOR, "multiprocessors": _MULTIPROCESSORS}
    found = {key: ctypes.c_int(0) for key in numbers}
    for key, number in numbers.items():
        code = code or driver.cuDeviceGetAttribute(ctypes.byref(found[key]), number, handle)
    return {
        "index": index,
        "name": name.value.decode(errors="replace"),
        "memory_bytes": size.value,
        "capability": 10 * found["major"].value + found["minor"].value,
        "multiprocessors": found["multiprocessors"].value,
        "trouble": _words(driver, code) if code else "",
    }


def _words(driver: Any, code: int) -> str:
    """`no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE, 100)`."""
    found = []
    for ask in (driver.cuGetErrorString, driver.cuGetErrorName):
        text = ctypes.c_char_p()
        found.append(text.value.decode() if ask(code, ctypes.byref(text)) == 0 and text.value else "unknown error")
    return f"{found[0]} ({found[1]}, {code})"


def ask_cupti() -> dict[str, Any]:
    """What the tracer would use."""
    from profkit.capture.cupti_finding import find_cupti

    return asdict(find_cupti())


def ask_nvml() -> dict[str, Any]:
    """The driver's version and how many GPUs NVML sees; `trouble` when it cannot be opened."""
    from profkit.measurement.device.clocks import open_nvml

    try:
        nvml = open_nvml()
        return {"trouble": "", "driver": str(nvml.nvmlSystemGetDriverVersion()), "gpus": nvml.nvmlDeviceGetCount()}
    except Exception as error:  # NVML's own types, ImportError
        return {"trouble": str(error)}


_QUESTIONS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "driver": ask_driver,
    "cupti": ask_cupti,
    "nvml": ask_nvml,
}


def main(words: Sequence[str]) -> int:
    question, *rest = words
    sys.stdout.write(json.dumps(_QUESTIONS[question](*rest)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
