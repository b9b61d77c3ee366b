"""Keras 3 on CPU over its tensorflow, torch and jax backends: keras.ops, compiled where the backend compiles.

The tensorflow backend runs inside tf.function and the jax backend inside jit; the torch backend runs eagerly
without autograd, as a Keras model does by default.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array, Conditions, Implementation, Prepared
from profkit.frameworks.framework import (
    Framework,
    Job,
    channel_shape,
    held_as,
    padding_word,
    refuse_gradient,
    symmetric_padding,
    to_layout,
)
from profkit.frameworks.jax import operators as jax_adapter
from profkit.frameworks.tensorflow import operators as tensorflow_adapter
from profkit.frameworks.torch import operators as torch_adapter
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.softmax import Softmax

TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
VARIANTS = (TENSORFLOW, TORCH, JAX)
HOW_CALLED = {TENSORFLOW: "in tf.function", TORCH: "eagerly, no autograd", JAX: "in jax.jit"}
Tensor = Any


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    backend = implementation.variant
    if importlib.util.find_spec(backend) is None:
        raise UnavailableError(f'keras needs its backend {backend}: pip install "profkit[{backend}]"')
    facts = _begin_backend(backend, implementation, conditions)
    # A softmax over one column is a legal, if odd, thing to measure.
    warnings.filterwarnings("ignore", message="You are using a softmax over axis")
    return open_keras(backend, facts)


def open_keras(backend: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Import keras over a backend that is open already; `facts` are that one's."""
    os.environ["KERAS_BACKEND"] = backend
    with without_importing_jax(backend):
        keras = importlib.import_module("keras")
    if keras.backend.backend() != backend:
        raise UnavailableError(
            f"keras was opened with {keras.backend.backend()} before KERAS_BACKEND={backend} was set"
        )
    return {"version": str(keras.__version__), "backend": backend, **{f"{backend}_{k}": v for k, v in facts.items()}}


def _begin_backend(backend: str, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    if backend == TENSORFLOW:
        return tensorflow_adapter.begin_tensorflow(conditions)
    if backend == JAX:
        return jax_adapter.begin_jax()
    return torch_adapter.ADAPTER.begin(implementation, conditions)


@contextlib.contextmanager
def without_importing_jax(backend: str) -> Iterator[None]:
    """Keras imports jax, when it finds it, for a checkpoint callback: a second of start-up for nothing here."""
    if backend == JAX or "jax" in sys.modules:
        yield
        return
    sys.modules["jax"] = None  # type: ignore[assignment]  # how Python marks a module as not importable
    try:
        yield
    finally:
        del sys.modules["jax"]


def _on_request() -> tuple[str, ...]:
    """All backends but the first that is installed; Keras's own default comes first."""
    usual = next((name for name in VARIANTS if importlib.util.find_spec(name) is not None), VARIANTS[0])
    return tuple(name for name in VARIANTS if name != usual)


ADAPTER = Framework(
    "keras",
    _begin,
    variants=VARIANTS,
    on_request=_on_request(),
    variant_environment={
        TENSORFLOW: {"KERAS_BACKEND": TENSORFLOW, **tensorflow_adapter.ENVIRONMENT},
        TORCH: {"KERAS_BACKEND": TORCH, **torch_adapter.ADAPTER.environment},
        JAX: {"KERAS_BACKEND": JAX, **jax_adapter.ENVIRONMENT},
    },
)
ADAPTER.lacks("lrn", "keras has no local response normalisation")


def _ops() -> Any:
    return importlib.import_module("keras.ops")


def _held_layout(job: Job, spec: Any) -> str:
    """Keras's own order, NHWC, except over torch, where it would add transposes to every call."""
    return str(spec.layout) if job.variant == TORCH else "NHWC"


def _data_format(layout: str) -> str:
    return "channels_first" if layout == "NCHW" else "channels_last"


def _prepared(job: Job, run: Callable[..., Tensor], arrays: Sequence[Array], called: str, note: str = "") -> Prepared:
    """`run` compiled in the backend's way; the inputs are arguments, so that nothing can be computed ahead."""
    arguments = [_ops().convert_to_tensor(array) for array in arrays]
    notes = "; ".join(part for part in (f"{called} {HOW_CALLED[job.variant]}", note) if part)
    if job.variant == TENSORFLOW:
        graph = importlib.import_module("tensorflow").function(run, autograph=False)
        return Prepared(lambda: graph(*arguments), lambda result: result.numpy(), note=notes)
    if job.variant == JAX:
        compiled = importlib.import_module("jax").jit(run)
        return Prepared(lambda: compiled(*arguments).block_until_ready(), np.asarray, note=notes)
    return Prepared(lambda: run(*arguments), lambda result: result.contiguous().numpy(), note=notes)


def _image_prepared(
    job: Job, spec: Any, run: Callable[..., Tensor], others: Sequence[Array], called: str, note: str = ""
) -> Prepared:
    held = _held_layout(job, spec)
    arrays = [to_layout(job.inputs["x"], spec.layout, held), *others]
    return held_as(held, _prepared(job, run, arrays, called, note), spec)


def _refuse_conv2d(implementation: Implementation, spec: Conv2d) -> str:
    if spec.direction != FORWARD:
        return f"keras.ops has no convolution gradient: see the {implementation.variant} row, which has it"
    if implementation.variant == TENSORFLOW and spec.stride != (1, 1) and spec.dilation != (1, 1):
        return "keras over tensorflow takes no dilation together with a stride"
    return ""


@ADAPTER.operator("conv2d", _refuse_conv2d)
def _conv2d(job: Job, spec: Conv2d) -> Prepared:
    ops = _ops()
    held = _held_layout(job, spec)
    word, widths = padding_word(spec.window), spec.window.pad_widths(held)
    bias_shape = (1, *channel_shape(held)) if held == "NCHW" else (1, 1, 1, -1)

    def run(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        x = x if word else ops.pad(x, widths)
        y = ops.conv(x, w, spec.stride, word or "valid", _data_format(held), spec.dilation)
        y = y if b is None else ops.add(y, ops.reshape(b, bias_shape))
        return ops.relu(y) if spec.activation == "relu" else y

    weights = np.ascontiguousarray(job.inputs["w"].transpose(2, 3, 1, 0))
    note = f"padding={word}" if word else "explicit padding: keras.ops.pad inside the call"
    others = [weights, job.inputs["b"]] if spec.bias else [weights]
    return _image_prepared(job, spec, run, others, "keras.ops.conv", note)


def _refuse_matmul(implementation: Implementation, spec: MatMul) -> str:
    if implementation.variant == TORCH and spec.dtype == "float64":
        return "keras over torch computes a float64 matmul in float32"
    return ""


@ADAPTER.operator("matmul", _refuse_matmul)
def _matmul(job: Job, spec: MatMul) -> Prepared:
    ops = _ops()

    def run(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        a = ops.swapaxes(a, -1, -2) if spec.transpose_a else a
        b = ops.swapaxes(b, -1, -2) if spec.transpose_b else b
        c = ops.matmul(a, b)
        c = c if bias is None else ops.add(c, bias)
        return ops.relu(c) if spec.activation == "relu" else c

    return _prepared(job, run, job.arrays("a", "b", "bias"), "keras.ops.matmul")


@ADAPTER.operator("pool2d", refuse_gradient)
def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    ops = _ops()
    held = _held_layout(job, spec)
    word, data_format = _pool_word(job, spec), _data_format(held)
    pool = ops.max_pool if spec.mode == MAX else ops.average_pool
    called = f"keras.ops.{'max_pool' if spec.mode == MAX else 'average_pool'}"
    if word:
        return _image_prepared(
            job,
            spec,
            lambda x: pool(x, spec.kernel_size, spec.stride, word, data_format),
            [],
            called,
            f"padding={word}",
        )
    widths = spec.window.pad_widths(held)
    if spec.mode == MAX:
        return _image_prepared(
            job,
            spec,
            lambda x: pool(
                ops.pad(x, widths, constant_values=-np.inf), spec.kernel_size, spec.stride, "valid", data_format
            ),
            [],
            called,
            "explicit padding: keras.ops.pad with -inf inside the call",
        )
    # The average must not count padding: undo the division by padded elements.
    full = spec.kernel_size[0] * spec.kernel_size[1]
    scale = (full / spec.window.element_counts()).astype(spec.numpy_dtype)
    scale = scale[None, None] if held == "NCHW" else scale[None, :, :, None]

    def average(x: Tensor, factors: Tensor) -> Tensor:
        return pool(ops.pad(x, widths), spec.kernel_size, spec.stride, "valid", data_format) * factors

    note = "explicit padding: keras.ops.pad and rescaling inside the call"
    return _image_prepared(job, spec, average, [scale], called, note)


def _pool_word(job: Job, spec: Pool2d) -> str:
    """As `padding_word`, except that keras over torch counts uneven `same` padding into an average."""
    word = padding_word(spec.window)
    uneven = symmetric_padding(spec.window) is None
    return "" if word == "same" and uneven and job.variant == TORCH and spec.mode != MAX else word


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    ops = _ops()
    bias = job.inputs["b"].reshape(channel_shape(_held_layout(job, spec)))
    return _image_prepared(job, spec, lambda x, b: ops.relu(ops.add(x, b)), [bias], "keras.ops.relu(add)")


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: Softmax) -> Prepared:
    ops = _ops()
    return _prepared(job, lambda x: ops.softmax(x, axis=-1), [job.inputs["x"]], "keras.ops.softmax")
