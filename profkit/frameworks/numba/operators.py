"""Numba: profkit's own parallel kernels (products.py, kernels.py), buffers allocated ahead of the call.

Kernels are compiled by their first call, which is reported apart from the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profkit.frameworks.adapter import Array, Conditions, Implementation, aligned_empty
from profkit.frameworks.filling import FillingFramework, Ready
from profkit.frameworks.framework import refuse_gradient
from profkit.ops.axes import Pair
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import AVERAGE, Pool2d
from profkit.ops.softmax import Softmax


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    """Import and set the number of threads; Numba's pool has one per core, and refuses to be asked for more."""
    import numba

    numba.set_num_threads(min(conditions.threads, int(numba.config.NUMBA_NUM_THREADS)))
    return {"version": str(numba.__version__)}


ADAPTER = FillingFramework("numba", _begin)


def _contiguous(matrix: Array, transpose: bool) -> Array:
    return np.ascontiguousarray(np.swapaxes(matrix, -1, -2)) if transpose else matrix


@ADAPTER.fills("matmul")
def _matmul(spec: MatMul, inputs: Mapping[str, Array], threads: int) -> Ready:
    """The kernel takes plain matrices only: transposed ones are copied inside the call, as part of its work."""
    from profkit.frameworks.numba import products as numba_products

    bias = inputs["bias"] if spec.bias else np.zeros(spec.n, spec.numpy_dtype)
    given_a = inputs["a"].reshape(spec.batch, *inputs["a"].shape[-2:])
    given_b = inputs["b"].reshape(spec.batch, *inputs["b"].shape[-2:])
    transpose_a, transpose_b, kernel = spec.transpose_a, spec.transpose_b, numba_products.matmul
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


def _image(spec: Conv2d, channels: int, size: Pair) -> tuple[int, ...]:
    """Channels of one group, height, width, and the steps in elements along n, c, h, w."""
    height, width = size
    area = height * width
    steps = (area, width, 1) if spec.layout == "NCHW" else (1, width * channels, channels)
    return (channels // spec.groups, height, width, area * channels, *steps)


@ADAPTER.fills("conv2d")
def _conv2d(spec: Conv2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One buffer of gathered windows per thread, for one image at a time."""
    from profkit.frameworks.numba import products as numba_products

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
        x, run_forward = flat["x"], numba_products.conv2d_forward

        def forward(out: Array) -> None:
            run_forward(x, matrix, bias, relu, batch, shape, columns, pixels, out.reshape(-1))

        return forward, columns.nbytes + pixels.nbytes

    if spec.direction == INPUT_GRADIENT:
        transposed = _contiguous(inputs["w"].reshape(spec.groups, filters, taps), True)
        dy, run_gradient = flat["dy"], numba_products.conv2d_input_gradient

        def input_gradient(out: Array) -> None:
            run_gradient(dy, transposed, batch, shape, columns, pixels, out.reshape(-1))

        return input_gradient, columns.nbytes + pixels.nbytes

    transposed = aligned_empty((threads, area, taps), dtype)
    sums = aligned_empty((threads, spec.groups, filters, taps), dtype)
    x, dy, add_up, summed_shape = flat["x"], flat["dy"], numba_products.conv2d_weight_gradient, sums.shape[1:]

    def weight_gradient(out: Array) -> None:
        add_up(x, dy, batch, shape, columns, transposed, pixels, sums)
        np.sum(sums, axis=0, out=out.reshape(summed_shape))

    return weight_gradient, columns.nbytes + pixels.nbytes + transposed.nbytes + sums.nbytes


@ADAPTER.fills("pool2d", refuse_gradient)
def _pool2d(spec: Pool2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """No buffers: windows are clipped at the border."""
    from profkit.frameworks.numba import kernels as numba_kernels

    planes = spec.layout == "NCHW"
    kernel = numba_kernels.pool2d_planes if planes else numba_kernels.pool2d_pixels
    geometry = tuple(map(np.int64, (*spec.kernel_size, *spec.stride, *spec.window.pads[::2])))
    images = spec.batch * spec.channels
    x = inputs["x"].reshape(images, spec.height, spec.width) if planes else inputs["x"]
    shape = (images, *spec.window.out_size) if planes else spec.output_shape()
    average = spec.mode == AVERAGE
    return lambda out: kernel(x, geometry, average, out.reshape(shape)), 0


@ADAPTER.fills("lrn")
def _lrn(spec: LocalResponseNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Both layouts have their own order of loops."""
    from profkit.frameworks.numba import kernels as numba_kernels

    planes = spec.layout == "NCHW"
    kernel = numba_kernels.lrn_planes if planes else numba_kernels.lrn_pixels
    shape = (spec.batch, spec.channels, -1) if planes else (-1, spec.channels)
    constants = tuple(map(spec.numpy_dtype.type, (spec.alpha / spec.size, spec.beta, spec.k)))
    x = inputs["x"].reshape(shape)
    before, after = spec.reach
    return lambda out: kernel(x, before, after, constants, out.reshape(shape)), 0


@ADAPTER.fills("bias_relu")
def _bias_relu(spec: BiasRelu, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Both layouts have their own order of loops."""
    from profkit.frameworks.numba import kernels as numba_kernels

    planes = spec.layout == "NCHW"
    kernel = numba_kernels.bias_relu_planes if planes else numba_kernels.bias_relu_pixels
    shape = (spec.batch * spec.channels, -1) if planes else (-1, spec.channels)
    x, b = inputs["x"].reshape(shape), inputs["b"]
    return lambda out: kernel(x, b, out.reshape(shape)), 0


@ADAPTER.fills("softmax")
def _softmax(spec: Softmax, inputs: Mapping[str, Array], threads: int) -> Ready:
    """No buffers."""
    from profkit.frameworks.numba import kernels as numba_kernels

    x, kernel = inputs["x"], numba_kernels.softmax
    return lambda out: kernel(x, out), 0
