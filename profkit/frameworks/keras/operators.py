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
from profkit.frameworks.formulas import Module, formula
from profkit.frameworks.framework import Framework, Job, refuse_gradient
from profkit.frameworks.jax import operators as jax_adapter
from profkit.frameworks.layouts import channel_shape, held_as, padding_word, symmetric_padding, to_layout
from profkit.frameworks.lazy import Tensor, jax, tf
from profkit.frameworks.lazy import keras_ops as ops
from profkit.frameworks.tensorflow import operators as tensorflow_adapter
from profkit.frameworks.torch import operators as torch_adapter
from profkit.ops import Activation, Attention, BatchNorm, BiasRelu, Conv2d, Embedding, Lstm, MatMul, Pool2d, Softmax
from profkit.ops.activation import GELU, HARD_SIGMOID, RELU, SIGMOID, TANH
from profkit.ops.batch_norm import INFERENCE
from profkit.ops.conv2d import FORWARD
from profkit.ops.pool2d import MAX

TENSORFLOW, TORCH, JAX = "tensorflow", "torch", "jax"
VARIANTS = (TENSORFLOW, TORCH, JAX)
HOW_CALLED = {TENSORFLOW: "in tf.function", TORCH: "eagerly, no autograd", JAX: "in jax.jit"}


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


def _held_layout(job: Job, spec: Any) -> str:
    """Keras's own order, NHWC, except over torch, where it would add transposes to every call."""
    return str(spec.layout) if job.variant == TORCH else "NHWC"


def _data_format(layout: str) -> str:
    return "channels_first" if layout == "NCHW" else "channels_last"


def _prepared(job: Job, run: Callable[..., Tensor], arrays: Sequence[Array], called: str, note: str = "") -> Prepared:
    """`run` compiled in the backend's way; the inputs are arguments, so that nothing can be computed ahead."""
    arguments = [ops.convert_to_tensor(array) for array in arrays]
    notes = "; ".join(part for part in (f"{called} {HOW_CALLED[job.variant]}", note) if part)
    if job.variant == TENSORFLOW:
        graph = tf.function(run, autograph=False)
        return Prepared(lambda: graph(*arguments), lambda result: result.numpy(), note=notes)
    if job.variant == JAX:
        compiled = jax.jit(run)
        return Prepared(lambda: compiled(*arguments).block_until_ready(), note=notes)
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

    def run(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
        a = ops.swapaxes(a, -1, -2) if spec.transpose_a else a
        b = ops.swapaxes(b, -1, -2) if spec.transpose_b else b
        c = ops.matmul(a, b)
        c = c if bias is None else ops.add(c, bias)
        return ops.relu(c) if spec.activation == "relu" else c

    return _prepared(job, run, job.arrays("a", "b", "bias"), "keras.ops.matmul")


@ADAPTER.operator("pool2d", refuse_gradient)
def _pool2d(job: Job, spec: Pool2d) -> Prepared:
    held = _held_layout(job, spec)
    word, data_format = _pool_word(job, spec), _data_format(held)
    is_max = spec.mode == MAX
    pool, called = (ops.max_pool, "max_pool") if is_max else (ops.average_pool, "average_pool")
    padding, widths, fill = word or "valid", spec.window.pad_widths(held), -np.inf if is_max else 0.0

    def run(x: Tensor, factors: Tensor | None = None) -> Tensor:
        x = x if word else ops.pad(x, widths, constant_values=fill)
        y = pool(x, spec.kernel_size, spec.stride, padding, data_format)
        return y if factors is None else y * factors

    others: list[Array] = []
    note = f"padding={word}" if word else "explicit padding: keras.ops.pad with -inf inside the call"
    if not word and not is_max:
        # The average must not count padding: undo the division by padded elements.
        full = spec.kernel_size[0] * spec.kernel_size[1]
        scale = (full / spec.window.element_counts()).astype(spec.numpy_dtype)
        others = [scale[None, None] if held == "NCHW" else scale[None, :, :, None]]
        note = "explicit padding: keras.ops.pad and rescaling inside the call"
    return _image_prepared(job, spec, run, others, f"keras.ops.{called}", note)


def _pool_word(job: Job, spec: Pool2d) -> str:
    """As `padding_word`, except that keras over torch counts uneven `same` padding into an average."""
    word = padding_word(spec.window)
    uneven = symmetric_padding(spec.window) is None
    return "" if word == "same" and uneven and job.variant == TORCH and spec.mode != MAX else word


@ADAPTER.operator("bias_relu", refuse_gradient)
def _bias_relu(job: Job, spec: BiasRelu) -> Prepared:
    bias = job.inputs["b"].reshape(channel_shape(_held_layout(job, spec)))
    return _image_prepared(job, spec, lambda x, b: ops.relu(ops.add(x, b)), [bias], "keras.ops.relu(add)")


@ADAPTER.operator("softmax", refuse_gradient)
def _softmax(job: Job, spec: Softmax) -> Prepared:
    return _prepared(job, lambda x: ops.softmax(x, axis=-1), [job.inputs["x"]], "keras.ops.softmax")


def _array_module() -> Module:
    return Module(ops, ops.erf, ops.segment_sum)


def _by_formula(job: Job, spec: Any) -> Prepared:
    run = formula(_array_module(), spec)
    return _prepared(job, run, job.arrays(*spec.input_shapes()), "the formula with keras.ops")


for _op in ("add", "dropout", "optimiser_step"):
    ADAPTER.operator(_op)(_by_formula)


def _refuse_float64(implementation: Implementation, spec: Any) -> str:
    """With some backends functions, means or scales of float64 are float32: none of them is asked."""
    if spec.dtype == "float64":
        return f"keras computes parts of a float64 {spec.op} in float32"
    return refuse_gradient(implementation, spec) if hasattr(spec, "direction") else ""


ADAPTER.operator("layer_norm", _refuse_float64)(_by_formula)


@ADAPTER.operator("activation", _refuse_float64)
def _activation(job: Job, spec: Activation) -> Prepared:
    """keras.ops' own functions where it has them; its hard_sigmoid is another one."""
    names = {RELU: "relu", TANH: "tanh", SIGMOID: "sigmoid", GELU: "gelu"}
    if spec.function not in names:
        return _by_formula(job, spec)
    function = getattr(ops, names[spec.function])
    options = {"approximate": False} if spec.function == GELU else {}
    return _prepared(job, lambda x: function(x, **options), job.arrays("x"), f"keras.ops.{names[spec.function]}")


@ADAPTER.operator("batch_norm", refuse_gradient)
def _batch_norm(job: Job, spec: BatchNorm) -> Prepared:
    held = _held_layout(job, spec)
    at = 1 if held == "NCHW" else 3
    others = [axis for axis in range(4) if axis != at]

    def training(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        mean, variance = ops.moments(x, others)
        return ops.batch_normalization(x, mean, variance, at, shift, scale, spec.epsilon)

    def inference(x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return ops.batch_normalization(x, mean, variance, at, shift, scale, spec.epsilon)

    given = job.arrays("scale", "shift", "mean", "variance")
    run, called = (inference, "") if spec.mode == INFERENCE else (training, "moments and ")
    return _image_prepared(job, spec, run, given, f"keras.ops.{called}batch_normalization")


@ADAPTER.operator("embedding", refuse_gradient)
def _embedding(job: Job, spec: Embedding) -> Prepared:
    return _prepared(
        job, lambda indices, table: ops.take(table, indices, axis=0), job.arrays("indices", "table"), "keras.ops.take"
    )


@ADAPTER.operator("lstm", _refuse_float64)
def _lstm(job: Job, spec: Lstm) -> Prepared:
    """Keras's own layer, whose order of gates is the spec's; its hard_sigmoid is another one, so ours is passed."""
    keras = importlib.import_module("keras")

    def hard_sigmoid(x: Tensor) -> Tensor:
        return ops.clip(0.2 * x + 0.5, 0.0, 1.0)

    layer = keras.layers.LSTM(
        spec.cells,
        activation=spec.activation,
        recurrent_activation=hard_sigmoid if spec.recurrent_activation == HARD_SIGMOID else SIGMOID,
        return_sequences=spec.returns_sequence,
        dtype=spec.dtype,
    )
    layer.build((spec.batch, spec.steps, spec.inputs))
    layer.set_weights(job.arrays("w", "u", "b"))
    others = [variable.value for variable in layer.non_trainable_variables]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        return layer.stateless_call(weights, others, x)[0]

    return _prepared(job, run, job.arrays("x", "w", "u", "b"), "keras.layers.LSTM")


@ADAPTER.operator("attention", _refuse_float64)
def _attention(job: Job, spec: Attention) -> Prepared:
    shape, result = (spec.batch, spec.steps, spec.heads, spec.width), spec.output_shape()

    def run(*arrays: Tensor) -> Tensor:
        q, k, v = (ops.reshape(array, shape) for array in arrays)
        return ops.reshape(ops.dot_product_attention(q, k, v, is_causal=spec.causal), result)

    return _prepared(job, run, job.arrays("q", "k", "v"), "keras.ops.dot_product_attention")
