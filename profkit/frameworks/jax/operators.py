"""JAX on CPU: lax and jax.nn operators under jit, in the spec's own layout; the call waits for the result."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Prepared
from profkit.frameworks.framework import (
    ALL_DTYPES,
    Framework,
    Job,
    channel_shape,
    product,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.softmax import Softmax

Tensor = Any
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    # Without it float64 inputs silently become float32; float32 programs stay as they are.
    "JAX_ENABLE_X64": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def begin_jax() -> dict[str, str]:
    """Open JAX with 64-bit numbers."""
    jax = importlib.import_module("jax")
    if not jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", True)
    return jax_facts()


def jax_facts() -> dict[str, str]:
    """Open JAX; the builders of networks and the keras adapter start their backend here too.

    JAX takes no thread count: XLA makes one pool of as many threads as the process may use cores when the
    first operator runs. The worker's CPU affinity is therefore what sets it.
    """
    jax = importlib.import_module("jax")
    return {
        "version": str(jax.__version__),
        "jaxlib": str(importlib.import_module("jaxlib").__version__),
        "devices": ", ".join(str(device) for device in jax.devices()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "threads": f"{_usable_cores()} (XLA takes the cores of the process's affinity)",
    }


class CompileTimes:
    """How long JAX traced, lowered and compiled since this was made, in seconds by its own count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        importlib.import_module("jax").monitoring.register_event_duration_secs_listener(self._add)

    def _add(self, event: str, seconds: float, **_facts: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            name = event.rpartition("/")[2].removesuffix("_duration")
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


ADAPTER = Framework("jax", lambda *_: begin_jax(), environment=ENVIRONMENT, dtypes=ALL_DTYPES)


def _prepared(run: Callable[..., Tensor], arrays: Sequence[Array], note: str = "") -> Prepared:
    """A jitted call. The inputs are arguments, so that XLA cannot compute the result ahead."""
    jax = importlib.import_module("jax")
    arguments = [jax.device_put(array) for array in arrays]
    compiled = jax.jit(run)
    return Prepared(lambda: compiled(*arguments).block_until_ready(), np.asarray, note=note)


@ADAPTER.operator("conv2d")
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    jax = importlib.import_module("jax")
    channels = channel_shape(spec.layout)

    # A convolution is linear in either argument: its transpose is the gradient alone, no forward pass.
    if spec.direction == INPUT_GRADIENT:
        x = jax.ShapeDtypeStruct(spec.x_shape(), spec.numpy_dtype)
        return _prepared(
            lambda dy, w: jax.linear_transpose(lambda x: convolve(spec, x, w), x)(dy)[0],
            job.arrays("dy", "w"),
        )
    if spec.direction == WEIGHT_GRADIENT:
        w = jax.ShapeDtypeStruct(spec.w_shape(), spec.numpy_dtype)
        return _prepared(
            lambda x, dy: jax.linear_transpose(lambda w: convolve(spec, x, w), w)(dy)[0],
            job.arrays("x", "dy"),
        )

    def forward(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        y = convolve(spec, x, w)
        y = y if b is None else y + b.reshape(channels)
        return jax.nn.relu(y) if spec.activation == "relu" else y

    return _prepared(forward, job.arrays("x", "w", "b"))


def convolve(spec: Conv2d, x: Tensor, w: Tensor, filters: str = "OIHW") -> Tensor:
    """The bare convolution of images in the spec's layout; `filters` is the layout of w."""
    return importlib.import_module("jax").lax.conv_general_dilated(
        x,
        w,
        window_strides=spec.stride,
        padding=spec.window.sides,
        rhs_dilation=spec.dilation,
        dimension_numbers=(spec.layout, filters, spec.layout),
        feature_group_count=spec.groups,
    )


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: MatMul) -> Prepared:
    return _prepared(product(importlib.import_module("jax.numpy"), spec), job.arrays("a", "b", "bias"))


def _window_dimensions(layout: str, size: tuple[int, int]) -> tuple[int, ...]:
    return (1, 1, *size) if layout == "NCHW" else (1, *size, 1)


@ADAPTER.operator("pool2d")
def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    run, divisors = pooling(spec)
    return _prepared(run, [job.inputs["x"], *divisors])


def _pool2d_gradient(job: Job, spec: Pool2d) -> Prepared:
    """JAX's own derivative; XLA drops the forward pass, whose result nobody asks for."""
    jax = importlib.import_module("jax")
    run, divisors = pooling(spec)
    if spec.mode == MAX:
        return _prepared(lambda x, dy: jax.vjp(run, x)[1](dy)[0], job.arrays("x", "dy"))
    x = jax.ShapeDtypeStruct(spec.x_shape(), spec.numpy_dtype)
    return _prepared(
        lambda dy, counts: jax.linear_transpose(lambda x: run(x, counts), x)(dy)[0], [job.inputs["dy"], *divisors]
    )


def pooling(spec: Pool2d) -> tuple[Callable[..., Tensor], list[Array]]:
    """The pooling of x, and what it takes besides: the divisors of an average."""
    lax = importlib.import_module("jax").lax
    sizes = (_window_dimensions(spec.layout, size) for size in (spec.kernel_size, spec.stride))
    window = (*sizes, spec.window.pad_widths(spec.layout))
    zero, lowest = spec.numpy_dtype.type(0), spec.numpy_dtype.type(-np.inf)
    if spec.mode == MAX:
        return lambda x: lax.reduce_window(x, lowest, lax.max, *window), []
    counts = spec.window.element_counts().astype(spec.numpy_dtype)
    counts = counts if spec.layout == "NCHW" else counts[:, :, None]
    return lambda x, divisors: lax.reduce_window(x, zero, lax.add, *window) / divisors, [counts]


@ADAPTER.operator("lrn")
def _lrn(job: Job, spec: LocalResponseNorm) -> Prepared:
    note = "JAX has no LRN: reduce_window over channels, power and division"
    return _prepared(lambda x: normalise(spec, x), [job.inputs["x"]], note)


def normalise(spec: LocalResponseNorm, x: Tensor) -> Tensor:
    """Local response normalisation of images in the spec's layout."""
    lax = importlib.import_module("jax").lax
    at = 1 if spec.layout == "NCHW" else 3
    window = tuple(spec.size if i == at else 1 for i in range(4))
    pads = tuple(spec.reach if i == at else (0, 0) for i in range(4))
    energy = lax.reduce_window(x * x, spec.numpy_dtype.type(0), lax.add, window, (1, 1, 1, 1), pads)
    return x / (spec.k + spec.alpha / spec.size * energy) ** spec.beta


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    nn = importlib.import_module("jax.nn")
    channels = channel_shape(spec.layout)
    return _prepared(lambda x, b: nn.relu(x + b.reshape(channels)), job.arrays("x", "b"))


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    nn = importlib.import_module("jax.nn")
    return _prepared(lambda x: nn.softmax(x, axis=-1), [job.inputs["x"]])
