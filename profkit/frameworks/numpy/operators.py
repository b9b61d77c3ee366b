"""NumPy as a competent user writes it: BLAS for the products, in-place ufuncs on small buffers for the rest.

Works in the spec's own dtype. The number of BLAS threads is set by environment variables before the worker starts.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit import ops
from profkit.frameworks.adapter import Array, Conditions, Implementation
from profkit.frameworks.formulas import activated, formula
from profkit.frameworks.framework import FillingFramework, Ready, refuse_gradient
from profkit.frameworks.layouts import channel_shape
from profkit.frameworks.networks.array_functions import array_module, error_function
from profkit.frameworks.networks.array_sequences import sequence_gradient
from profkit.frameworks.numpy.conv2d import prepare_conv2d
from profkit.ops.activation import RELU, TANH
from profkit.ops.batch_norm import INFERENCE
from profkit.ops.conv2d import FORWARD
from profkit.ops.layout import image_shape, to_nchw
from profkit.ops.pool2d import MAX


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
    """How many threads the loaded OpenBLAS uses; unknown for another BLAS."""
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
def _matmul(spec: ops.MatMul, inputs: Mapping[str, Array], threads: int) -> Ready:
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
def _pool2d(spec: ops.Pool2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One pass per window element over strided views, instead of a reduction over tiny windows."""
    x = padded = inputs["x"]
    window, nchw = spec.window, spec.layout == "NCHW"
    if any(window.pads):
        shape = image_shape(spec.layout, spec.batch, spec.channels, window.padded_size)
        padded = np.full(shape, -np.inf if spec.mode == MAX else 0.0, dtype=x.dtype)
    top, _, left, _ = window.pads
    rows, columns = slice(top, top + spec.height), slice(left, left + spec.width)
    interior = padded[:, :, rows, columns] if nchw else padded[:, rows, columns]
    # In the layout of the images themselves: an axis that is turned costs every pass.
    top_left, *others = (
        view if nchw else view.transpose(0, 2, 3, 1) for _, view in window.taps(to_nchw(spec.layout, padded))
    )
    share = np.asarray(1.0 / window.element_counts(), dtype=x.dtype)
    scale = share if nchw else share[:, :, None]
    combine, averages = np.maximum if spec.mode == MAX else np.add, spec.mode != MAX

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
def _lrn(spec: ops.LocalResponseNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Image by image, so that the squares and their sums stay in the cache."""
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
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
def _bias_relu(spec: ops.BiasRelu, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Image by image, so that the second pass finds the first one's result in the cache."""
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
    x, add, maximum = inputs["x"], np.add, np.maximum
    bias = inputs["b"][:, None, None] if spec.layout == "NCHW" else inputs["b"]

    def run(out: Array) -> None:
        for image, result in zip(x, out):
            add(image, bias, result)
            maximum(result, 0.0, out=result)

    return run, 0


@ADAPTER.fills("softmax")
def _softmax(spec: ops.Softmax, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Everything in place in the output."""
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
    x = inputs["x"]

    def run(out: Array) -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    return run, 0


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _error_function(x: Array) -> Array:
    """NumPy has none: a rational function is enough for float32; otherwise Python's, element by element."""
    result: Array = error_function(np, x) if x.dtype == np.float32 else _erf(x).astype(x.dtype)
    return result


MODULE = replace(array_module(np), erf=_error_function)


def _by_formula(spec: Any, inputs: Mapping[str, Array], threads: int) -> Ready:
    """An array per operation of the formula, and a copy into the output at the end."""
    run, arrays = formula(MODULE, spec), list(inputs.values())

    def fill(out: Array) -> None:
        out[...] = run(*arrays)

    return fill, 0


ADAPTER.fills("optimiser_step")(_by_formula)


def _sequences(spec: Any, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Gradients by the expressions that networks use."""
    if spec.direction == FORWARD:
        return _by_formula(spec, inputs, threads)
    run, arrays = sequence_gradient(np, spec), list(inputs.values())

    def fill(out: Array) -> None:
        out[...] = run(*arrays)

    return fill, 0


for _op in ("lstm", "attention"):
    ADAPTER.fills(_op)(_sequences)


@ADAPTER.fills("activation")
def _activation(spec: ops.Activation, inputs: Mapping[str, Array], threads: int) -> Ready:
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
    x, function = inputs["x"], spec.function
    if function in (RELU, TANH):
        return (lambda out: np.maximum(x, 0.0, out=out) if function == RELU else np.tanh(x, out)), 0
    # A piece at a time, so that the second operation finds the first one's result in the cache.
    step = 1 << 15

    def run(out: Array) -> None:
        for first in range(0, x.size, step):
            out[first : first + step] = activated(MODULE, function, x[first : first + step])

    return run, 0


@ADAPTER.fills("add")
def _add(spec: ops.Add, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One ufunc."""
    a, b = inputs["a"], inputs["b"]
    return lambda out: np.add(a, b, out), 0


@ADAPTER.fills("dropout")
def _dropout(spec: ops.Dropout, inputs: Mapping[str, Array], threads: int) -> Ready:
    """One ufunc."""
    x, mask = inputs["x"], inputs["mask"]
    return lambda out: np.multiply(x, mask, out), 0


@ADAPTER.fills("batch_norm")
def _batch_norm(spec: ops.BatchNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Inference: two ufuncs in the output. Training: as the formula says."""
    if spec.mode != INFERENCE:
        return _by_formula(spec, inputs, threads)
    x, scale, shift, mean, variance = inputs.values()
    channels, epsilon = channel_shape(spec.layout), variance.dtype.type(spec.epsilon)

    def run(out: Array) -> None:
        factor = scale / np.sqrt(variance + epsilon)
        offset = (shift - mean * factor).reshape(channels)
        for image, result in zip(x, out):
            np.multiply(image, factor.reshape(channels), result)
            np.add(result, offset, result)

    return run, 0


@ADAPTER.fills("layer_norm")
def _layer_norm(spec: ops.LayerNorm, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Everything in place in the output."""
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
    x, scale, shift = inputs.values()
    epsilon = x.dtype.type(spec.epsilon)

    def run(out: Array) -> None:
        np.subtract(x, x.mean(axis=1, keepdims=True), out)
        squares = np.einsum("ij,ij->i", out, out)[:, None] / x.dtype.type(x.shape[1])
        np.divide(out, np.sqrt(squares + epsilon), out)
        np.multiply(out, scale, out)
        np.add(out, shift, out)

    return run, 0


@ADAPTER.fills("embedding")
def _embedding(spec: ops.Embedding, inputs: Mapping[str, Array], threads: int) -> Ready:
    """Rows are copied straight into the output."""
    if spec.direction != FORWARD:
        return _by_formula(spec, inputs, threads)
    indices, table = inputs["indices"], inputs["table"]
    return lambda out: np.take(table, indices, 0, out, mode="clip"), 0
