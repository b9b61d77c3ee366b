"""Pooling, normalisation, bias with ReLU, softmax and elementwise functions in Numba; arrays in, output filled.

Each is compiled by its first call. Where the order of loops decides, NCHW and NHWC have their own kernel.
"""

from __future__ import annotations

from math import erf, exp, sqrt, tanh

import numpy as np
from numba import prange

from profkit.frameworks.numba.compile import Array, Numbers, inner, parallel


@inner
def pool_plane(x: Array, geometry: Numbers, average: bool, y: Array) -> None:
    """One channel of one image: x[h, w], y[i, j]; window element by window element, the columns innermost."""
    kernel_h, kernel_w, stride_h, stride_w, top, left = geometry
    columns = y.shape[1]
    for i in range(y.shape[0]):
        out = y[i]
        out[:] = 0.0 if average else -np.inf
        h0, h1 = max(i * stride_h - top, 0), min(i * stride_h - top + kernel_h, x.shape[0])
        for h in range(h0, h1):
            for s in range(kernel_w):
                # Outputs whose element s is inside the image: 0 <= j * stride - left + s < width.
                first = max(0, -((s - left) // stride_w))
                count = min(columns, (x.shape[1] - 1 + left - s) // stride_w + 1) - first
                if count > 0:
                    values, part = x[h, first * stride_w - left + s :: stride_w], out[first : first + count]
                    if average:
                        for j in range(count):
                            part[j] += values[j]
                    else:
                        for j in range(count):
                            part[j] = values[j] if values[j] > part[j] else part[j]
        if average:
            for j in range(columns):
                inside = min(j * stride_w - left + kernel_w, x.shape[1]) - max(j * stride_w - left, 0)
                out[j] /= (h1 - h0) * inside


@parallel
def pool2d_planes(x: Array, geometry: Numbers, average: bool, y: Array) -> None:
    """NCHW as x[n c, h, w]."""
    for plane in prange(x.shape[0]):
        pool_plane(x[plane], geometry, average, y[plane])


@inner
def pool_row(x: Array, i: int, geometry: Numbers, average: bool, y: Array) -> None:
    """One row of outputs of one image: x[h, w, c], y[j, c]; the channels are innermost and vectorise."""
    kernel_h, kernel_w, stride_h, stride_w, top, left = geometry
    h0, h1 = max(i * stride_h - top, 0), min(i * stride_h - top + kernel_h, x.shape[0])
    for j in range(y.shape[0]):
        w0, w1 = max(j * stride_w - left, 0), min(j * stride_w - left + kernel_w, x.shape[1])
        count = (h1 - h0) * (w1 - w0)
        out = y[j]
        out[:] = 0.0 if average else -np.inf
        for h in range(h0, h1):
            for w in range(w0, w1):
                values = x[h, w]
                for c in range(out.shape[0]):
                    out[c] = out[c] + values[c] if average else max(out[c], values[c])
        if average:
            for c in range(out.shape[0]):
                out[c] /= count


@parallel
def pool2d_pixels(x: Array, geometry: Numbers, average: bool, y: Array) -> None:
    """NHWC; each task is one row of outputs of one image."""
    for task in prange(y.shape[0] * y.shape[1]):
        n, i = task // y.shape[1], task % y.shape[1]
        pool_row(x[n], i, geometry, average, y[n, i])


@inner
def normalise(values: Array, out: Array, beta: float) -> None:
    """out = values / out^beta."""
    if beta == 0.75:  # two square roots vectorise, a power does not
        for i in range(out.shape[0]):
            root = sqrt(out[i])
            out[i] = values[i] / (root * sqrt(root))
    else:
        for i in range(out.shape[0]):
            out[i] = values[i] / out[i] ** beta


@inner
def lrn_plane(x: Array, c: int, first: int, last: int, constants: Numbers, out: Array) -> None:
    """One channel of one image: x[c, pixels]; the energy is summed in the output, neighbour by neighbour."""
    scale, beta, k = constants
    out[:] = k
    for other in range(first, last):
        plane = x[other]
        for i in range(out.shape[0]):
            out[i] += scale * plane[i] * plane[i]
    normalise(x[c], out, beta)


@parallel
def lrn_planes(x: Array, before: int, after: int, constants: Numbers, y: Array) -> None:
    """NCHW as x[n, c, pixels]."""
    for task in prange(x.shape[0] * x.shape[1]):
        n, c = task // x.shape[1], task % x.shape[1]
        lrn_plane(x[n], c, max(c - before, 0), min(c + after + 1, x.shape[1]), constants, y[n, c])


@inner
def lrn_pixel(x: Array, before: int, after: int, constants: Numbers, out: Array) -> None:
    """All channels of one pixel."""
    scale, beta, k = constants
    channels = out.shape[0]
    out[:] = k
    for shift in range(-before, after + 1):
        for c in range(max(0, -shift), min(channels, channels - shift)):
            out[c] += scale * x[c + shift] * x[c + shift]
    normalise(x, out, beta)


@parallel
def lrn_pixels(x: Array, before: int, after: int, constants: Numbers, y: Array) -> None:
    """NHWC as x[pixels, c]."""
    for pixel in prange(x.shape[0]):
        lrn_pixel(x[pixel], before, after, constants, y[pixel])


@parallel
def bias_relu_planes(x: Array, bias: Array, y: Array) -> None:
    """NCHW as x[n c, pixels]."""
    for row in prange(x.shape[0]):
        offset = bias[row % bias.shape[0]]
        for i in range(x.shape[1]):
            value = x[row, i] + offset
            y[row, i] = value if value > 0 else 0.0


@parallel
def bias_relu_pixels(x: Array, bias: Array, y: Array) -> None:
    """NHWC as x[pixels, c]."""
    for row in prange(x.shape[0]):
        for c in range(x.shape[1]):
            value = x[row, c] + bias[c]
            y[row, c] = value if value > 0 else 0.0


@inner
def softmax_row(x: Array, y: Array) -> None:
    """Maximum, exponentials and their sum, division."""
    top = x[0]
    for value in x:
        top = max(top, value)
    total = x[0] - x[0]
    for j in range(x.shape[0]):
        y[j] = exp(x[j] - top)
        total += y[j]
    for j in range(x.shape[0]):
        y[j] /= total


@parallel
def softmax(x: Array, y: Array) -> None:
    for row in prange(x.shape[0]):
        softmax_row(x[row], y[row])


@inner
def activate(x: Array, function: int, y: Array) -> None:
    """The functions by their places in FUNCTIONS (profkit/ops/activation.py); the choice is outside the loops."""
    count = x.shape[0]
    if function == 0:
        for i in range(count):
            y[i] = x[i] if x[i] > 0 else 0.0
    elif function == 1:
        for i in range(count):
            y[i] = tanh(x[i])
    elif function == 2:
        for i in range(count):
            y[i] = 1.7159 * tanh(2.0 / 3.0 * x[i])
    elif function == 3:
        for i in range(count):
            y[i] = 1.0 / (1.0 + exp(-x[i]))
    elif function == 4:
        for i in range(count):
            y[i] = min(1.0, max(0.0, 0.2 * x[i] + 0.5))
    else:
        for i in range(count):
            y[i] = 0.5 * x[i] * (1.0 + erf(x[i] * sqrt(0.5)))


@parallel
def activation(x: Array, function: int, piece: int, y: Array) -> None:
    """Pieces of the line in parallel."""
    for task in prange((x.shape[0] + piece - 1) // piece):
        first = task * piece
        last = min(first + piece, x.shape[0])
        activate(x[first:last], function, y[first:last])


@parallel
def combine(a: Array, b: Array, is_sum: bool, y: Array) -> None:
    """The sum or the product."""
    if is_sum:
        for i in prange(a.shape[0]):
            y[i] = a[i] + b[i]
    else:
        for i in prange(a.shape[0]):
            y[i] = a[i] * b[i]


@inner
def normalise_row(x: Array, scale: Array, shift: Array, epsilon: float, y: Array) -> None:
    """Mean, variance around it, result."""
    count = x.shape[0]
    mean = x[0] - x[0]
    for value in x:
        mean += value
    mean /= count
    variance = x[0] - x[0]
    for value in x:
        variance += (value - mean) * (value - mean)
    factor = 1.0 / sqrt(variance / count + epsilon)
    for i in range(count):
        y[i] = (x[i] - mean) * factor * scale[i] + shift[i]


@parallel
def layer_norm(x: Array, scale: Array, shift: Array, epsilon: float, y: Array) -> None:
    for row in prange(x.shape[0]):
        normalise_row(x[row], scale, shift, epsilon, y[row])


@parallel
def batch_norm_planes(x: Array, scale: Array, shift: Array, epsilon: float, y: Array) -> None:
    """NCHW as x[n, c, pixels]; a channel at a time."""
    for c in prange(x.shape[1]):
        count = x.shape[0] * x.shape[2]
        mean = 0.0
        for n in range(x.shape[0]):
            for i in range(x.shape[2]):
                mean += x[n, c, i]
        mean /= count
        variance = 0.0
        for n in range(x.shape[0]):
            for i in range(x.shape[2]):
                variance += (x[n, c, i] - mean) * (x[n, c, i] - mean)
        factor = scale[c] / sqrt(variance / count + epsilon)
        for n in range(x.shape[0]):
            for i in range(x.shape[2]):
                y[n, c, i] = (x[n, c, i] - mean) * factor + shift[c]


@parallel
def embedding(indices: Array, table: Array, y: Array) -> None:
    for row in prange(indices.shape[0]):
        y[row] = table[indices[row]]
