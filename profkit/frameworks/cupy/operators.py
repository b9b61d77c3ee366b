"""CuPy on one CUDA device: cuBLAS products, fused-free elementwise operators, convolution by im2col.

Not run on a GPU: the machines that this was written on have none. The array code is tested with NumPy in
CuPy's place, whose interface it shares; device handling is not tested beyond the failure to find a device.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array, Conditions, DeviceCall, Implementation, Prepared, waiting
from profkit.frameworks.formulas import Module, formula
from profkit.frameworks.framework import WIDE, Framework, Job, no_cuda_driver, product, refuse_gradient
from profkit.frameworks.layouts import channel_shape, held_as, to_layout
from profkit.frameworks.networks.array_sequences import sequence_gradient
from profkit.ops import BiasRelu, Conv2d, MatMul, Softmax
from profkit.ops.conv2d import FORWARD

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
    # Float32 must mean the same in every row, regardless of environment variables.
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
    with pool_hook() as hook:
        run()
    return int(hook.peak)


def pool_hook() -> Any:
    """Records what CuPy's pool hands out: requested sizes, and the peak as the pool rounds them.

    CuPy's class needs CuPy, so it is derived here.
    """
    base: Any = importlib.import_module("cupy").cuda.memory_hook.MemoryHook

    class Notes(base):  # type: ignore[misc]  # of the installed CuPy
        name = "profkit"

        def __init__(self) -> None:
            super().__init__()
            self.events: list[tuple[int, int, int]] = []
            self.peak = self._live = 0
            self._sizes: dict[int, int] = {}

        def malloc_postprocess(self, **block: int) -> None:
            self._sizes[block["mem_ptr"]] = block["size"]
            self.events.append((time.perf_counter_ns(), block["mem_ptr"], block["size"]))
            self._live += block["mem_size"]
            self.peak = max(self.peak, self._live)

        def free_postprocess(self, **block: int) -> None:
            self._live -= block["mem_size"]
            size = self._sizes.pop(block["mem_ptr"], None)
            if size is not None:
                self.events.append((time.perf_counter_ns(), block["mem_ptr"], -size))

    return Notes()


def convolution(xp: Any, spec: Conv2d) -> Callable[..., DeviceArray]:
    """NCHW convolution by im2col and one batched product per call, in the array module `xp`."""
    window, groups = spec.window, spec.groups
    taps = spec.in_channels // groups * spec.kernel_size[0] * spec.kernel_size[1]
    rows, columns = window.out_size

    def run(x: DeviceArray, w: DeviceArray, b: DeviceArray | None = None) -> DeviceArray:
        # [n, c, kernel_h, kernel_w, out_h, out_w]: a view; the reshape below is the copy into columns.
        patches = window.patches(x, 0.0, xp).transpose(0, 1, 4, 5, 2, 3)
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
    if spec.direction != FORWARD:
        return _by_formula(job, spec)
    cupy = importlib.import_module("cupy")
    bias = np.ascontiguousarray(job.inputs["b"].reshape(channel_shape(spec.layout)))
    return _prepared(lambda x, b: cupy.maximum(x + b, 0), [job.inputs["x"], bias])


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    if spec.direction != FORWARD:
        return _by_formula(job, spec)
    return _prepared(softmax(importlib.import_module("cupy")), [job.inputs["x"]])


def _sums_by_index(values: DeviceArray, indices: DeviceArray, count: int) -> DeviceArray:
    sums = importlib.import_module("cupy").zeros((count, *values.shape[1:]), values.dtype)
    importlib.import_module("cupyx").scatter_add(sums, indices, values)
    return sums


def _by_formula(job: Job, spec: Any) -> Prepared:
    module = Module(
        importlib.import_module("cupy"),
        lambda x: importlib.import_module("cupyx.scipy.special").erf(x),
        _sums_by_index,
    )
    return _prepared(formula(module, spec), job.arrays(*spec.input_shapes()), "composed: a kernel per operation")


for _op in ("activation", "add", "batch_norm", "dropout", "embedding", "layer_norm", "optimiser_step"):
    ADAPTER.operator(_op)(_by_formula)


def _sequences(job: Job, spec: Any) -> Prepared:
    """Gradients by the expressions that networks use."""
    if spec.direction == FORWARD:
        return _by_formula(job, spec)
    run = sequence_gradient(importlib.import_module("cupy"), spec)
    return _prepared(run, job.arrays(*spec.input_shapes()), "composed: a kernel per operation")


for _op in ("attention", "lstm"):
    ADAPTER.operator(_op)(_sequences)
