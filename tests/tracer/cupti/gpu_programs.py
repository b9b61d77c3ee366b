"""Programs that "use a GPU": Python text in, its capture under the doubles of libcuda and libcupti out. What the GPU
did is told by the program itself, through the double_*() functions of native/cupti_double.cpp."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.reading import read
from profkit.capture.schema import Capture
from tests.support.places import TRACER_NATIVE
from tests.support.processes import succeed
from tests.support.shared_work import made_once
from tests.tracer.programs import clean_environment, skip_without_library

# The program's begin: the driver comes up, which opens the door, and `gpu` is the double.
PRELUDE = """
import ctypes, os, time
import profkit
ctypes.CDLL("libcuda.so.1").cuInit(0)
gpu = ctypes.CDLL(os.environ["PROFKIT_CUPTI_LIBRARY"])
gpu.double_now.restype = ctypes.c_uint64
RUNTIME, DRIVER, LAUNCH, COPY, MALLOC, FREE, GRAPH = 2, 1, 211, 31, 20, 22, 311
big = ctypes.c_uint64

def call(callback=LAUNCH, domain=RUNTIME, result=0, lost=0):
    return gpu.double_call(domain, callback, result, lost)

def kernel(name, correlation, after=1000, lasts=5000, stream=7, node=0, at=None):
    start = (gpu.double_now() if at is None else at) + after
    gpu.double_kernel(name.encode(), correlation, big(start), big(start + lasts), stream, big(node))
    return start

def copy(kind, source, target, size, correlation, after=1000, lasts=2000):
    start = gpu.double_now() + after
    gpu.double_copy(kind, source, target, big(size), correlation, big(start), big(start + lasts))
"""


@cache
def double(name: str, sanitizers: str = "") -> Path:
    """The shared library of native/<name>.cpp, built once per run."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler (g++)")
    flags = ["-std=c++17", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden"]
    flags += [f"-fsanitize={sanitizers}"] if sanitizers else []
    file = "libcuda.so.1" if name == "driver_double" else f"lib{name}.so"

    def compile_in(folder: Path) -> None:
        source = str(TRACER_NATIVE / f"{name}.cpp")
        succeed([compiler, *flags, f"-Wl,-soname,{file}", source, "-o", str(folder / file), "-ldl", "-pthread"])

    return made_once("-".join(filter(None, (name, *sanitizers.split(",")))), compile_in)[0] / file


def gpu_environment(capture: Path | None, options: RecordingOptions | None = None) -> dict[str, str]:
    """A program started with this finds the doubles, and records into `capture`; None: only what it asks for itself."""
    skip_without_library()
    variables, asked = clean_environment(), options or RecordingOptions(allocations=False)
    if capture is not None:
        variables = traced_environment(variables, str(capture), asked, "off")
    doubles = {"LD_LIBRARY_PATH": str(double("driver_double").parent)}
    return variables | doubles | {"PROFKIT_CUPTI_LIBRARY": str(double("cupti_double"))}


GpuProgram = Callable[..., tuple[Capture, str]]
"""Runs a program's text."""


def run_gpu_program(
    folder: Path,
    text: str,
    variables: Mapping[str, str] | None = None,
    *,
    options: RecordingOptions | None = None,
    prelude: str = PRELUDE,
) -> tuple[Capture, str]:
    """The capture of a program that must end well, and what it printed."""
    script, capture = folder / "program.py", folder / "gpu.profkit"
    script.write_text(prelude + text)
    output = succeed([sys.executable, str(script)], gpu_environment(capture, options) | dict(variables or {}))
    return read(str(capture)), output


def device_of(capture: Capture) -> Capture:
    """The same capture; the GPU must have done something in it."""
    assert capture.has_device, capture.warnings
    return capture


def kernel_ranges(trace: Capture) -> dict[str, str]:
    """For each kernel the name of the range that launched it; "-" for none."""
    return {
        trace.text(int(name)): "-" if row < 0 else trace.text(int(trace.ranges["name"][row]))
        for kind, name, row in zip(trace.activities["kind"], trace.activities["name"], trace.activities["range"])
        if kind == 0
    }


def real_cupti() -> str:
    """Path of a libcupti of CUDA 13.0: later ones walk no buffers without a driver."""
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    for home in [*filter(None, homes), "/usr/local/cuda"]:
        path = Path(home) / "lib64" / "libcupti.so.13"
        path = path if path.exists() else Path(home) / "lib" / "libcupti.so.13"
        if not path.exists():
            continue
        version = ctypes.c_uint32()
        ctypes.CDLL(str(path)).cuptiGetVersion(ctypes.byref(version))
        if version.value // 100 == 1300:
            return str(path)
    pytest.skip("no libcupti of CUDA 13.0 on this machine")
