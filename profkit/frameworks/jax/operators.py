"""JAX on CPU: lax and jax.nn operators under jit, in the spec's own layout; the call waits for the result."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from profkit import ops
from profkit.frameworks.adapter import Array, Prepared
from profkit.frameworks.formulas import Module, formula, lstm_step
from profkit.frameworks.formulas import activated as by_formula
from profkit.frameworks.framework import ALL_DTYPES, Framework, Job, product
from profkit.frameworks.layouts import channel_shape
from profkit.frameworks.lazy import Tensor, jax
from profkit.ops.activation import GELU, RELU, SIGMOID, TANH
from profkit.ops.batch_norm import PARAMETER_GRADIENT
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.layout import image_shape
from profkit.ops.lstm import GATE_GRADIENT
from profkit.ops.pool2d import MAX

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    # Without it float64 inputs silently become float32; float32 programs stay as they are.
    "JAX_ENABLE_X64": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def begin_jax() -> dict[str, str]:
    """Open JAX with 64-bit numbers."""
    if not jax.config.jax_enable_x64:
        jax.config.update("jax_enable_x64", True)
    return jax_facts()


def jax_facts() -> dict[str, str]:
    """Open JAX; the builders of networks and the keras adapter start their backend here too.

    JAX takes no thread count: XLA makes one pool of as many threads as the process may use cores when the
    first operator runs. The worker's CPU affinity is therefore what sets it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "version": str(jax.__version__),
        "jaxlib": str(importlib.import_module("jaxlib").__version__),
        "devices": ", ".join(str(device) for device in jax.devices()),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "threads": f"{cores} (XLA takes the cores of the process's affinity)",
    }


class CompileTimes:
    """How long JAX traced, lowered and compiled since this was made, in seconds by its own count."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        jax.monitoring.register_event_duration_secs_listener(self._add)

    def _add(self, event: str, seconds: float, **_facts: Any) -> None:
        if event.startswith("/jax/core/compile/"):
            name = event.rpartition("/")[2].removesuffix("_duration")
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds


ADAPTER = Framework("jax", lambda *_: begin_jax(), environment=ENVIRONMENT, dtypes=ALL_DTYPES)


def _prepared(run: Callable[..., Tensor], arrays: Sequence[Array], note: str = "") -> Prepared:
    """A jitted call. The inputs are arguments, so that XLA cannot compute the result ahead."""
    arguments = [jax.device_put(array) for array in arrays]
    compiled = jax.jit(run)
    return Prepared(lambda: compiled(*arguments).block_until_ready(), note=note)


@ADAPTER.operator("conv2d")
def _conv2d(job: Job, spec: ops.Conv2d) -> Prepared:
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


def convolve(spec: ops.Conv2d, x: Tensor, w: Tensor, filters: str = "OIHW") -> Tensor:
    """The bare convolution of images in the spec's layout; `filters` is the layout of w."""
    return jax.lax.conv_general_dilated(
        x,
        w,
        window_strides=spec.stride,
        padding=spec.window.sides,
        rhs_dilation=spec.dilation,
        dimension_numbers=(spec.layout, filters, spec.layout),
        feature_group_count=spec.groups,
    )


@ADAPTER.operator("matmul")
def _matmul(job: Job, spec: ops.MatMul) -> Prepared:
    return _prepared(product(jax.numpy, spec, in_place=False), job.arrays("a", "b", "bias"))


@ADAPTER.operator("pool2d")
def _pool2d(job: Job, spec: ops.Pool2d) -> Prepared:
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    run, divisors = pooling(spec)
    return _prepared(run, [job.inputs["x"], *divisors])


def _pool2d_gradient(job: Job, spec: ops.Pool2d) -> Prepared:
    """JAX's own derivative; XLA drops the forward pass, whose result is unused."""
    run, divisors = pooling(spec)
    if spec.mode == MAX:
        return _prepared(lambda x, dy: jax.vjp(run, x)[1](dy)[0], job.arrays("x", "dy"))
    x = jax.ShapeDtypeStruct(spec.x_shape(), spec.numpy_dtype)
    return _prepared(
        lambda dy, counts: jax.linear_transpose(lambda x: run(x, counts), x)(dy)[0], [job.inputs["dy"], *divisors]
    )


def pooling(spec: ops.Pool2d) -> tuple[Callable[..., Tensor], list[Array]]:
    """The pooling of x, and its additional input: the divisors of an average."""
    lax = jax.lax
    sizes = (image_shape(spec.layout, 1, 1, size) for size in (spec.kernel_size, spec.stride))
    window = (*sizes, spec.window.pad_widths(spec.layout))
    zero, lowest = spec.numpy_dtype.type(0), spec.numpy_dtype.type(-np.inf)
    if spec.mode == MAX:
        return lambda x: lax.reduce_window(x, lowest, lax.max, *window), []
    counts = spec.window.element_counts().astype(spec.numpy_dtype)
    counts = counts if spec.layout == "NCHW" else counts[:, :, None]
    return lambda x, divisors: lax.reduce_window(x, zero, lax.add, *window) / divisors, [counts]


@ADAPTER.operator("lrn")
def _lrn(job: Job, spec: ops.LocalResponseNorm) -> Prepared:
    note = "JAX has no LRN: reduce_window over channels, power and division"
    if spec.direction != FORWARD:
        return _prepared(
            lambda x, dy: jax.vjp(lambda x: normalise(spec, x), x)[1](dy)[0], job.arrays("x", "dy"), f"{note}; jax.vjp"
        )
    return _prepared(lambda x: normalise(spec, x), [job.inputs["x"]], note)


def normalise(spec: ops.LocalResponseNorm, x: Tensor) -> Tensor:
    """Local response normalisation of images in the spec's layout."""
    lax = jax.lax
    at = 1 if spec.layout == "NCHW" else 3
    window = tuple(spec.size if i == at else 1 for i in range(4))
    pads = tuple(spec.reach if i == at else (0, 0) for i in range(4))
    energy = lax.reduce_window(x * x, spec.numpy_dtype.type(0), lax.add, window, (1, 1, 1, 1), pads)
    return x / (spec.k + spec.alpha / spec.size * energy) ** spec.beta


@ADAPTER.operator("bias_relu")
def _bias_relu(job: Job, spec: ops.BiasRelu) -> Prepared:
    if spec.direction != FORWARD:
        return _by_formula(job, spec)
    channels = channel_shape(spec.layout)
    return _prepared(lambda x, b: jax.nn.relu(x + b.reshape(channels)), job.arrays("x", "b"))


@ADAPTER.operator("softmax")
def _softmax(job: Job, spec: ops.Softmax) -> Prepared:
    if spec.direction != FORWARD:
        return _by_formula(job, spec)
    return _prepared(lambda x: jax.nn.softmax(x, axis=-1), [job.inputs["x"]])


def array_module() -> Module:
    """jax.numpy, and its error function and sums by index."""
    return Module(jax.numpy, jax.scipy.special.erf, jax.ops.segment_sum)


_COMPOSED = "the formula with jax.numpy"


def _by_formula(job: Job, spec: Any) -> Prepared:
    return _prepared(formula(array_module(), spec), job.arrays(*spec.input_shapes()), _COMPOSED)


for _op in ("add", "dropout", "embedding", "optimiser_step"):
    ADAPTER.operator(_op)(_by_formula)


def activated(function: str) -> Callable[[Tensor], Tensor]:
    """jax.nn's own functions where it has them; scaled_tanh and this hard_sigmoid are formulas."""
    if function == GELU:
        return lambda x: jax.nn.gelu(x, approximate=False)
    own = {RELU: "relu", TANH: "tanh", SIGMOID: "sigmoid"}
    if function in own:
        run: Callable[[Tensor], Tensor] = getattr(jax.nn, own[function])
        return run
    return lambda x: by_formula(array_module(), function, x)


@ADAPTER.operator("activation")
def _activation(job: Job, spec: ops.Activation) -> Prepared:
    run = activated(spec.function)
    if spec.direction == FORWARD:
        return _prepared(run, job.arrays("x"))
    return _prepared(lambda x, dy: jax.vjp(run, x)[1](dy)[0], job.arrays("x", "dy"), "jax.vjp")


@ADAPTER.operator("batch_norm")
def _batch_norm(job: Job, spec: ops.BatchNorm) -> Prepared:
    return _normalisation(job, spec, spec.channels)


@ADAPTER.operator("layer_norm")
def _layer_norm(job: Job, spec: ops.LayerNorm) -> Prepared:
    return _normalisation(job, spec, spec.width)


def _normalisation(job: Job, spec: Any, parameters: int) -> Prepared:
    """JAX's own derivative of the formula; XLA drops what of the forward pass is unused."""
    run = formula(array_module(), spec.replaced(direction=FORWARD))
    if spec.direction == FORWARD:
        return _prepared(run, job.arrays(*spec.input_shapes()), _COMPOSED)
    jnp, note = jax.numpy, f"jax.vjp of {_COMPOSED}"
    if spec.direction == PARAMETER_GRADIENT:
        ones = jnp.ones(parameters, spec.numpy_dtype)
        return _prepared(
            lambda x, dy: jnp.stack(jax.vjp(lambda scale, shift: run(x, scale, shift), ones, ones)[1](dy)),
            job.arrays("x", "dy"),
            note,
        )
    return _prepared(
        lambda x, scale, dy: jax.vjp(lambda x: run(x, scale, jnp.zeros_like(scale)), x)[1](dy)[0],
        job.arrays("x", "scale", "dy"),
        note,
    )


@ADAPTER.operator("lstm")
def _lstm(job: Job, spec: ops.Lstm) -> Prepared:
    jnp, module = jax.numpy, array_module()

    def steps(sums: Tensor, u: Tensor, *state: Tensor) -> Tensor:
        def step(state: tuple[Tensor, Tensor], sums: Tensor) -> Any:
            h, c = lstm_step(module, spec, sums + state[0] @ u, state[1])
            return (h, c), (h if spec.returns_sequence else None)

        (h, _), results = jax.lax.scan(step, state, jnp.swapaxes(sums, 0, 1))
        return jnp.swapaxes(results, 0, 1) if spec.returns_sequence else h

    def zeros(x: Tensor) -> list[Tensor]:
        return [jnp.zeros((spec.batch, spec.cells), x.dtype)] * 2

    def run(x: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
        return steps(x @ w + b, u, *zeros(x))

    note = "composed: lax.scan over the steps"
    if spec.direction == FORWARD:
        return _prepared(run, job.arrays("x", "w", "u", "b"), note)

    def gradient(x: Tensor, w: Tensor, u: Tensor, b: Tensor, dy: Tensor) -> Tensor:
        if spec.direction == INPUT_GRADIENT:
            return jax.vjp(lambda x: run(x, w, u, b), x)[1](dy)[0]
        if spec.direction == WEIGHT_GRADIENT:
            by_w, by_u, by_b = jax.vjp(lambda *weights: run(x, *weights), w, u, b)[1](dy)
            return jnp.concatenate([by_w, by_u, by_b[None]])
        sums = x @ w + b
        if spec.direction == GATE_GRADIENT:
            return jax.vjp(lambda sums: steps(sums, u, *zeros(x)), sums)[1](dy)[0]
        return jnp.stack(jax.vjp(lambda *state: steps(sums, u, *state), *zeros(x))[1](dy))

    return _prepared(gradient, job.arrays("x", "w", "u", "b", "dy"), f"jax.vjp of {note}")


@ADAPTER.operator("attention")
def _attention(job: Job, spec: ops.Attention) -> Prepared:
    shape, run = (spec.batch, spec.steps, spec.heads, spec.width), formula(array_module(), spec)
    is_composed = spec.dtype in ("float64", "float16")
    notes = []
    if is_composed:
        reason = "jax.nn.dot_product_attention has its softmax in float32, and no float16 product on CPU"
        notes.append(f"{_COMPOSED}: {reason}")

    def own(*arrays: Tensor) -> Tensor:
        q, k, v = (array.reshape(shape) for array in arrays)
        return jax.nn.dot_product_attention(q, k, v, is_causal=spec.causal).reshape(spec.result_shape())

    forward = run if is_composed else own
    if spec.direction == FORWARD:
        return _prepared(forward, job.arrays("q", "k", "v"), "; ".join(notes))

    def gradient(q: Tensor, k: Tensor, v: Tensor, dy: Tensor) -> Tensor:
        return jax.numpy.stack(jax.vjp(forward, q, k, v)[1](dy))

    return _prepared(gradient, job.arrays("q", "k", "v", "dy"), "; ".join(["jax.vjp", *notes]))
