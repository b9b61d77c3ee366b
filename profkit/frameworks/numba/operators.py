"""Numba: profkit's own parallel kernels (products.py, kernels.py), buffers allocated ahead of the call.

Kernels are compiled by their first call, which is reported apart from the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from profkit import ops
from profkit.frameworks.adapter import Array, Conditions, Implementation, aligned_empty
from profkit.frameworks.framework import FillingFramework, Ready, refuse_gradient
from profkit.ops.activation import FUNCTIONS
from profkit.ops.axes import Pair
from profkit.ops.batch_norm import INFERENCE
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT
from profkit.ops.pool2d import AVERAGE


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    """Import and set the number of threads; Numba's pool has one per core and does not accept more."""
    import numba

    numba.set_num_threads(min(conditions.threads, int(numba.config.NUMBA_NUM_THREADS)))
    return {"version": str(numba.__version__)}


ADAPTER = FillingFramework("numba", _begin)


def _products() -> Any:
    return importlib.import_module("profkit.frameworks.numba.products")


def _kernel(name: str, spec: Any) -> Any:
    """The kernel for the spec's layout; NCHW and NHWC have their own order of loops."""
    module = importlib.import_module("profkit.frameworks.numba.kernels")
    return getattr(module, f"{name}_{'planes' if spec.layout == 'NCHW' else 'pixels'}")


def _contiguous(matrix: Array, transpose: bool) -> Array:
    return np.ascontiguousarray(np.swapaxes(matrix, -1, -2)) if transpose else matrix


@ADAPTER.fills("matmul")
def _matmul(spec: ops.MatMul, inputs: Mapping[str, Array], threads: int) -> Ready:
    """The kernel takes plain matrices only: transposed ones are copied inside the call, as part of its work."""
    bias = inputs["bias"] if spec.bias else np.zeros(spec.n, spec.numpy_dtype)
    given_a = inputs["a"].reshape(spec.batch, *inputs["a"].shape[-2:])
    given_b = inputs["b"].reshape(spec.batch, *inputs["b"].shape[-2:])
    transpose_a, transpose_b, kernel = spec.transpose_a, spec.transpose_b, _products().matmul
    shape, relu = (spec.batch, spec.m, spec.n), spec.activation == "relu"

    def run(out: Array) -> None:
        kernel(
            _contiguous(given_a, transpose_a),
            _contiguous(given_b, transpose_b),
            bias,
            relu,
            out.reshape(shape),
            threads,
        )

    return run, 0


def _image(spec: ops.Conv2d, channels: int, size: Pair) -> tuple[int, ...]:
    """Channels of one group, height, width, and the steps in elements along n, c, h, w."""
    height, width = size
    area = height * width
    steps = (area, width, 1) if spec.layout == "NCHW" else (1, width * channels, channels)
    return (channels // spec.groups, height, width, area * channels, *steps)


@ADAPTER.fills("conv2d")
def _conv2d(spec: ops.Conv2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One buffer of gathered windows per thread, for one image at a time."""
    window, dtype = spec.window, spec.numpy_dtype
    filters, taps = spec.out_channels // spec.groups, int(np.prod(spec.w_shape()[1:]))
    area = window.out_size[0] * window.out_size[1]
    shape = (
        *(*spec.kernel_size, *spec.stride, *spec.dilation, *window.pads[::2], *window.out_size),
        *_image(spec, spec.in_channels, window.size),
        *_image(spec, spec.out_channels, window.out_size),
    )
    columns = aligned_empty((threads, taps, area), dtype)
    pixels = aligned_empty((threads, filters, area), dtype)
    flat = {name: array.reshape(-1) for name, array in inputs.items()}
    batch = spec.batch

    if spec.direction == FORWARD:
        matrix = inputs["w"].reshape(spec.groups, filters, taps)
        bias = inputs["b"] if spec.bias else np.zeros(spec.out_channels, dtype)
        relu = spec.activation == "relu"
        x, run_forward = flat["x"], _products().conv2d_forward

        def forward(out: Array) -> None:
            run_forward(x, matrix, bias, relu, batch, shape, columns, pixels, out.reshape(-1))

        return forward, columns.nbytes + pixels.nbytes

    if spec.direction == INPUT_GRADIENT:
        transposed = _contiguous(inputs["w"].reshape(spec.groups, filters, taps), True)
        dy, run_gradient = flat["dy"], _products().conv2d_input_gradient

        def input_gradient(out: Array) -> None:
            run_gradient(dy, transposed, batch, shape, columns, pixels, out.reshape(-1))

        return input_gradient, columns.nbytes + pixels.nbytes

    transposed = aligned_empty((threads, area, taps), dtype)
    sums = aligned_empty((threads, spec.groups, filters, taps), dtype)
    x, dy, add_up, summed_shape = flat["x"], flat["dy"], _products().conv2d_weight_gradient, sums.shape[1:]

    def weight_gradient(out: Array) -> None:
        add_up(x, dy, batch, shape, columns, transposed, pixels, sums)
        np.sum(sums, axis=0, out=out.reshape(summed_shape))

    return weight_gradient, columns.nbytes + pixels.nbytes + transposed.nbytes + sums.nbytes


@ADAPTER.fills("pool2d", refuse_gradient)
def _pool2d(spec: ops.Pool2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """No buffers: windows are clipped at the border."""
    planes = spec.layout == "NCHW"
    kernel = _kernel("pool2d", spec)
    geometry = tuple(map(np.int64, (*spec.kernel_size, *spec.stride, *spec.window.pads[::2])))
    images = spec.batch * spec.channels
    x = inputs["x"].reshape(images, spec.height, spec.width) if planes else inputs["x"]
    shape = (images, *spec.window.out_size) if planes else spec.output_shape()
    average = spec.mode == AVERAGE
    return lambda out: kernel(x, geometry, average, out.reshape(shape)), 0


@ADAPTER.fills("lrn", refuse_gradient)
def _lrn(spec: ops.LocalResponseNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    planes = spec.layout == "NCHW"
    kernel = _kernel("lrn", spec)
    shape = (spec.batch, spec.channels, -1) if planes else (-1, spec.channels)
    constants = tuple(map(spec.numpy_dtype.type, (spec.alpha / spec.size, spec.beta, spec.k)))
    x = inputs["x"].reshape(shape)
    before, after = spec.reach
    return lambda out: kernel(x, before, after, constants, out.reshape(shape)), 0


@ADAPTER.fills("bias_relu", refuse_gradient)
def _bias_relu(spec: ops.BiasRelu, inputs: Mapping[str, Array], threads: int) -> Ready:
    planes = spec.layout == "NCHW"
    kernel = _kernel("bias_relu", spec)
    shape = (spec.batch * spec.channels, -1) if planes else (-1, spec.channels)
    x, b = inputs["x"].reshape(shape), inputs["b"]
    return lambda out: kernel(x, b, out.reshape(shape)), 0


@ADAPTER.fills("softmax", refuse_gradient)
def _softmax(spec: ops.Softmax, inputs: Mapping[str, Array], threads: int) -> Ready:
    x, kernel = inputs["x"], importlib.import_module("profkit.frameworks.numba.kernels").softmax
    return lambda out: kernel(x, out), 0


PIECE = 1 << 14
"""Elements of one task."""


def _row_kernel(name: str) -> Any:
    return getattr(importlib.import_module("profkit.frameworks.numba.kernels"), name)


@ADAPTER.fills("activation", refuse_gradient)
def _activation(spec: ops.Activation, inputs: Mapping[str, Array], threads: int) -> Ready:
    x, number, kernel = inputs["x"], FUNCTIONS.index(spec.function), _row_kernel("activation")
    return lambda out: kernel(x, number, PIECE, out), 0


@ADAPTER.fills("add")
def _add(spec: Any, inputs: Mapping[str, Array], threads: int) -> Ready:
    (first, second), is_sum, kernel = inputs.values(), spec.op == "add", _row_kernel("combine")
    return lambda out: kernel(first, second, is_sum, out), 0


ADAPTER.fills("dropout")(_add)


def _refuse_batch_norm(implementation: Implementation, spec: ops.BatchNorm) -> str:
    if spec.mode == INFERENCE or spec.layout != "NCHW":
        return f"profkit's Numba kernel of batch_norm is that of training in NCHW, not of {spec.mode} in {spec.layout}"
    return refuse_gradient(implementation, spec)


@ADAPTER.fills("batch_norm", _refuse_batch_norm)
def _batch_norm(spec: ops.BatchNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    shape, kernel = (spec.batch, spec.channels, -1), _row_kernel("batch_norm_planes")
    x, scale, shift = inputs["x"].reshape(shape), inputs["scale"], inputs["shift"]
    epsilon = spec.numpy_dtype.type(spec.epsilon)
    return lambda out: kernel(x, scale, shift, epsilon, out.reshape(shape)), 0


@ADAPTER.fills("layer_norm", refuse_gradient)
def _layer_norm(spec: ops.LayerNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    (x, scale, shift), kernel = inputs.values(), _row_kernel("layer_norm")
    epsilon = spec.numpy_dtype.type(spec.epsilon)
    return lambda out: kernel(x, scale, shift, epsilon, out), 0


@ADAPTER.fills("embedding", refuse_gradient)
def _embedding(spec: ops.Embedding, inputs: Mapping[str, Array], threads: int) -> Ready:
    indices, table, kernel = inputs["indices"], inputs["table"], _row_kernel("embedding")
    return lambda out: kernel(indices, table, out), 0
