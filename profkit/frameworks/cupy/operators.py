"""CuPy on one CUDA device: cuBLAS products, fused-free elementwise operators, convolution by im2col.

Not run on a GPU: the machines that this was written on have none. The array code is tested with NumPy in
CuPy's place, whose interface it shares; device handling is not tested beyond the failure to find a device.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array, Conditions, DeviceCall, Implementation, Prepared, waiting
from profkit.frameworks.framework import (
    WIDE,
    Framework,
    Job,
    channel_shape,
    held_as,
    no_cuda_driver,
    product,
    refuse_gradient,
    to_layout,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.softmax import Softmax

HELD = "NCHW"
DeviceArray = Any


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    try:
        cupy = importlib.import_module("cupy")
        runtime = cupy.cuda.runtime
        if runtime.getDeviceCount() < 1:
            raise UnavailableError("cupy: the driver reports no CUDA device")
        properties = runtime.getDeviceProperties(0)
    except UnavailableError:
        raise
    except Exception as error:  # cupy raises its own, driver-dependent types, and ImportError for missing libraries
        raise UnavailableError(f"cupy: {error}") from error
    return {
        "version": str(cupy.__version__),
        "device": properties["name"].decode(),
        "cuda_runtime": str(runtime.runtimeGetVersion()),
        "cuda_driver": str(runtime.driverGetVersion()),
    }


ADAPTER = Framework(
    "cupy",
    _begin,
    device="cuda",
    # Float32 must mean the same in every row, whatever the user's shell says.
    environment={"CUPY_TF32": "0"},
    dtypes=(*WIDE, "float16"),
    unavailable_reason=no_cuda_driver,
)


def _prepared(run: Callable[..., DeviceArray], arrays: Sequence[Array], note: str = "") -> Prepared:
    """Inputs on the device ahead of the call; the call ends when the device has finished."""
    cupy = importlib.import_module("cupy")
    arguments = [cupy.asarray(array) for array in arrays]
    stream = cupy.cuda.get_current_stream()

    def enqueue() -> DeviceArray:
        return run(*arguments)

    device = DeviceCall(enqueue, int(stream.ptr), peak_bytes=_peak_bytes)
    return Prepared(waiting(enqueue, stream.synchronize), cupy.asnumpy, note=note, device=device)


def _peak_bytes(run: Callable[[], Any]) -> int:
    """Most bytes that CuPy's pool handed out during one call and had not back."""
    hook: Any = importlib.import_module("cupy").cuda.memory_hook.MemoryHook
    live = peak = 0

    class Watch(hook):  # type: ignore[misc]  # of whatever CuPy is installed
        name = "profkit"

        def malloc_postprocess(self, **block: int) -> None:
            nonlocal live, peak
            live += block["mem_size"]
            peak = max(peak, live)

        def free_postprocess(self, **block: int) -> None:
            nonlocal live
            live -= block["mem_size"]

    with Watch():
        run()
    return peak


def convolution(xp: Any, spec: Conv2d) -> Callable[..., DeviceArray]:
    """NCHW convolution by im2col and one batched product per call, in the array module `xp`."""
    window, groups = spec.window, spec.groups
    taps = spec.in_channels // groups * spec.kernel_size[0] * spec.kernel_size[1]
    rows, columns = window.out_size

    def run(x: DeviceArray, w: DeviceArray, b: DeviceArray | None = None) -> DeviceArray:
        padded = xp.pad(x, window.pad_widths()) if any(window.pads) else x
        n, c, h, s = padded.strides
        # [n, c, kernel_h, kernel_w, out_h, out_w]: a view; the reshape below is the copy into columns.
        patches = xp.lib.stride_tricks.as_strided(
            padded,
            (spec.batch, spec.in_channels, *spec.kernel_size, rows, columns),
            (n, c, h * spec.dilation[0], s * spec.dilation[1], h * spec.stride[0], s * spec.stride[1]),
        )
        matrices = patches.reshape(spec.batch, groups, taps, rows * columns)
        y = xp.matmul(w.reshape(groups, spec.out_channels // groups, taps), matrices)
        y = y.reshape(spec.batch, spec.out_channels, rows, columns)
        y = y if b is None else y + b.reshape(-1, 1, 1)
        return xp.maximum(y, 0) if spec.activation == "relu" else y

    return run


def softmax(xp: Any) -> Callable[[DeviceArray], DeviceArray]:
    """Softmax of every row, in the array module `xp`."""

    def run(x: DeviceArray) -> DeviceArray:
        powers = xp.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    return run


@ADAPTER.operator("conv2d", refuse_gradient)
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    arrays = [to_layout(job.inputs["x"], spec.layout, HELD), *job.arrays("w", "b")]
    run = convolution(importlib.import_module("cupy"), spec)
    note = "CuPy has no convolution: pad, im2col and matmul inside the call"
    return held_as(HELD, _prepared(run, arrays, note), spec)


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: MatMul) -> Prepared:
    return _prepared(product(importlib.import_module("cupy"), spec), job.arrays("a", "b", "bias"))


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    cupy = importlib.import_module("cupy")
    bias = np.ascontiguousarray(job.inputs["b"].reshape(channel_shape(spec.layout)))
    return _prepared(lambda x, b: cupy.maximum(x + b, 0), [job.inputs["x"], bias])


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    return _prepared(softmax(importlib.import_module("cupy")), [job.inputs["x"]])
