"""NumPy as a competent user writes it: BLAS for the products, in-place ufuncs on small buffers for the rest.

Works in the spec's own dtype. The number of BLAS threads is set by environment variables before the worker starts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Conditions, Implementation
from profkit.frameworks.filling import FillingFramework, Ready
from profkit.frameworks.framework import refuse_gradient
from profkit.frameworks.numpy.conv2d import prepare_conv2d
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.softmax import Softmax


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    """Version, BLAS and its threads, which were fixed when the process started."""
    return {"version": np.__version__, "blas": _blas(), "blas_threads": _blas_threads()}


def _blas() -> str:
    """Name and version of the BLAS that NumPy was built with; older versions cannot say it as data."""
    try:
        facts: Any = np.show_config(mode="dicts")
        blas = facts["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (TypeError, KeyError):
        return "unknown"


def _blas_threads() -> str:
    """How many threads OpenBLAS uses, asked of the library that is loaded; unknown for another BLAS."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return "unknown"
    names = ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads")
    for path in {line.split()[-1] for line in lines if "openblas" in line}:
        library = ctypes.CDLL(path)
        for name in names:
            if hasattr(library, name):
                return str(getattr(library, name)())
    return "unknown"


ADAPTER = FillingFramework("numpy", _begin)
ADAPTER.fills("conv2d")(prepare_conv2d)


@ADAPTER.fills("matmul")
def _matmul(spec: MatMul, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One BLAS call per product; transposed operands are views, which BLAS takes as they are."""
    a = np.swapaxes(inputs["a"], -1, -2) if spec.transpose_a else inputs["a"]
    b = np.swapaxes(inputs["b"], -1, -2) if spec.transpose_b else inputs["b"]

    matmul, bias = np.matmul, inputs["bias"] if spec.bias else None
    relu, maximum = spec.activation == "relu", np.maximum

    def run(out: Array) -> None:
        matmul(a, b, out)
        if bias is not None:
            out += bias
        if relu:
            maximum(out, 0.0, out=out)

    return run, 0


@ADAPTER.fills("pool2d", refuse_gradient)
def _pool2d(spec: Pool2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One pass per window element over strided views, instead of a reduction over tiny windows."""
    x, window = inputs["x"], spec.window
    rows, columns = window.out_size
    top, _, left, _ = window.pads
    padded = x
    if any(window.pads):
        shape = list(x.shape)
        first = 2 if spec.layout == "NCHW" else 1
        shape[first : first + 2] = window.padded_size
        padded = np.full(shape, -np.inf if spec.mode == MAX else 0.0, dtype=x.dtype)
    share = np.asarray(1.0 / window.element_counts(), dtype=x.dtype)

    def hw(images: Array, i: slice, j: slice) -> Array:
        return images[:, :, i, j] if spec.layout == "NCHW" else images[:, i, j]

    interior = hw(padded, slice(top, top + spec.height), slice(left, left + spec.width))
    views = [
        hw(
            padded,
            slice(r, r + (rows - 1) * spec.stride[0] + 1, spec.stride[0]),
            slice(s, s + (columns - 1) * spec.stride[1] + 1, spec.stride[1]),
        )
        for r in range(spec.kernel_size[0])
        for s in range(spec.kernel_size[1])
    ]
    combine = np.maximum if spec.mode == MAX else np.add
    scale = share if spec.layout == "NCHW" else share[:, :, None]
    top_left, others, averages = views[0], views[1:], spec.mode != MAX

    def run(out: Array) -> None:
        if padded is not x:
            interior[...] = x
        out[...] = top_left
        for view in others:
            combine(out, view, out=out)
        if averages:
            out *= scale

    return run, 0 if padded is x else padded.nbytes


@ADAPTER.fills("lrn")
def _lrn(spec: LocalResponseNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Image by image, so that the squares and their sums stay in the cache."""
    x = inputs["x"]
    before, after = spec.reach
    channel_axis = 0 if spec.layout == "NCHW" else 2
    shape = list(x.shape[1:])
    shape[channel_axis] += before + after
    squares = np.zeros(shape, dtype=x.dtype)
    energy = np.empty_like(x[0])

    def channels(first: int) -> Array:
        part = slice(first, first + spec.channels)
        return squares[part] if channel_axis == 0 else squares[:, :, part]

    inner, neighbours = channels(before), [channels(i) for i in range(spec.size)]
    first, others = neighbours[0], neighbours[1:]
    scale, k, beta = spec.alpha / spec.size, spec.k, spec.beta

    def run(out: Array) -> None:
        for image, result in zip(x, out):
            np.multiply(image, image, inner)
            energy[...] = first
            for part in others:
                np.add(energy, part, energy)
            np.multiply(energy, scale, energy)
            np.add(energy, k, energy)
            if beta == 0.75:  # two square roots cost far less than a power
                np.sqrt(energy, result)
                np.sqrt(result, energy)
                np.multiply(result, energy, energy)
            else:
                np.power(energy, beta, energy)
            np.divide(image, energy, result)

    return run, squares.nbytes + energy.nbytes


@ADAPTER.fills("bias_relu")
def _bias_relu(spec: BiasRelu, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Image by image, so that the second pass finds the first one's result in the cache."""
    x, add, maximum = inputs["x"], np.add, np.maximum
    bias = inputs["b"][:, None, None] if spec.layout == "NCHW" else inputs["b"]

    def run(out: Array) -> None:
        for image, result in zip(x, out):
            add(image, bias, result)
            maximum(result, 0.0, out=result)

    return run, 0


@ADAPTER.fills("softmax")
def _softmax(spec: Softmax, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Everything in place in the output."""
    x = inputs["x"]

    def run(out: Array) -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    return run, 0
