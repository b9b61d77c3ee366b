"""Own CUDA kernels written with numba.cuda: direct convolution, and a matrix product, naive and tiled in shared memory.

Not run on a GPU: the machines that this was written on have none. The kernels were compiled to PTX, and are
tested in Numba's CUDA simulator, which executes their Python code thread by thread.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Conditions, DeviceCall, Implementation, Prepared, waiting
from profkit.frameworks.framework import Framework, Job, no_cuda_driver, quiet_warnings, refuse_gradient
from profkit.frameworks.layouts import held_as, to_layout
from profkit.ops import Conv2d, MatMul
from profkit.ops.layout import image_shape

HELD = "NCHW"
TILED, NAIVE = "tiled_shared", "naive"
BLOCK = 128
"""Threads per block of the convolution."""


def _kernels() -> Any:
    with quiet_warnings():
        return importlib.import_module("profkit.frameworks.numba.cuda_kernels")


def _cuda() -> Any:
    with quiet_warnings():
        return importlib.import_module("numba.cuda")


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    try:
        cuda = _cuda()
        if not cuda.is_available():
            raise UnavailableError(f"numba.cuda: {_driver_reason(cuda)}")
        device = cuda.current_context().device
    except UnavailableError:
        raise
    except ImportError as error:  # newer versions of numba keep it in a separate package
        raise UnavailableError(f"numba.cuda: {_one_line(error)}; pip install numba-cuda") from error
    except Exception as error:  # the driver's own types
        raise UnavailableError(f"numba.cuda: {_one_line(error)}") from error
    name = getattr(device, "name", "unknown")
    return {
        "version": str(importlib.import_module("numba").__version__),
        "device": name.decode() if isinstance(name, bytes) else str(name),
        "compute_capability": ".".join(str(part) for part in getattr(device, "compute_capability", ())),
    }


ADAPTER = Framework(
    "numba_cuda",
    _begin,
    modules=("numba",),
    extra="numba",
    device="cuda",
    on_request=(NAIVE,),
    unavailable_reason=no_cuda_driver,
)


def _driver_reason(cuda: Any) -> str:
    """Why there is no device, in the driver's words."""
    try:
        cuda.current_context()
    except Exception as error:  # CudaSupportError in every version so far, but its module moves
        return _one_line(error)
    return "no CUDA device is available"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(": ")


def _prepared(job: Job, launch: Callable[[Any], None], shape: tuple[int, ...], dtype: Any, note: str) -> Prepared:
    """A call that allocates its output on the device, launches and waits."""
    cuda = _cuda()
    kept = cuda.device_array(shape, dtype) if job.reuses_output else None

    def enqueue() -> Any:
        out = cuda.device_array(shape, dtype) if kept is None else kept
        launch(out)
        return out

    is_simulated = os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "0"
    return Prepared(
        waiting(enqueue, cuda.synchronize),
        lambda out: out.copy_to_host(),
        output="fresh" if kept is None else "reused",
        note=note,
        device=None if is_simulated else DeviceCall(enqueue),  # launches without a stream go to the default one, 0
    )


@ADAPTER.operator("conv2d", refuse_gradient)
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    cuda = _cuda()
    x = cuda.to_device(to_layout(job.inputs["x"], spec.layout, HELD))
    w = cuda.to_device(job.inputs["w"])
    b = cuda.to_device(job.inputs["b"] if spec.bias else np.zeros(1, spec.numpy_dtype))
    top, _, left, _ = spec.window.pads
    relu = spec.activation == "relu"
    geometry = (*spec.stride, top, left, *spec.dilation, spec.groups, spec.bias, relu)
    shape = image_shape(HELD, spec.batch, spec.out_channels, spec.window.out_size)
    blocks = -(-int(np.prod(shape, dtype=np.int64)) // BLOCK)
    kernel = _kernels().convolution()
    prepared = _prepared(
        job,
        lambda out: kernel[blocks, BLOCK](x, w, b, out, geometry),
        shape,
        spec.numpy_dtype,
        "own direct kernel, one thread per output element",
    )
    return held_as(HELD, prepared, spec)


@ADAPTER.operator("matmul", variants=(TILED, NAIVE))
def _matmul(job: Job, spec: MatMul) -> Prepared:
    """Transposed operands are strided views on the device; the kernel indexes them in the same way."""
    cuda = _cuda()
    numba = importlib.import_module("numba")
    a, b = (cuda.to_device(job.inputs[name].reshape(spec.batch, *job.inputs[name].shape[-2:])) for name in "ab")
    a = a.transpose((0, 2, 1)) if spec.transpose_a else a
    b = b.transpose((0, 2, 1)) if spec.transpose_b else b
    bias = cuda.to_device(job.inputs["bias"] if spec.bias else np.zeros(1, spec.numpy_dtype))
    tile = _kernels().TILE
    is_tiled = job.variant == TILED
    kernel = _kernels().product(getattr(numba, spec.dtype)) if is_tiled else _kernels().naive_product()
    grid = (-(-spec.n // tile), -(-spec.m // tile), spec.batch)
    prepared = _prepared(
        job,
        lambda out: kernel[grid, (tile, tile)](a, b, bias, out, spec.bias, spec.activation == "relu"),
        (spec.batch, spec.m, spec.n),
        spec.numpy_dtype,
        "own kernel, tiled in shared memory" if is_tiled else "own kernel, one thread per element of the result",
    )
    prepared.to_numpy = lambda out: out.copy_to_host().reshape(spec.output_shape())
    return prepared
