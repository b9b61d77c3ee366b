"""Convolution in NumPy, image by image: windows gathered into columns that stay in the cache, then one BLAS call.

Serves the NumPy adapter; all directions, groups and both layouts. One image at a time needs a hundredth of
the memory that columns of a whole batch need, and is faster for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from profkit.frameworks.adapter import Array
from profkit.frameworks.framework import Ready
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, Conv2d

ArrayWriter = Callable[[Array], None]


class _Image:
    """Buffers for one image: padded, and its windows as columns.

    NCHW columns are [c r s][pixels] and multiply from the right; NHWC columns are [pixels][r s c] and
    multiply from the left: so the product comes out in the image's own layout.
    """

    def __init__(self, spec: Conv2d) -> None:
        self.spec = spec
        self.nchw = spec.layout == "NCHW"
        window, channels = spec.window, spec.in_channels // spec.groups
        size, dtype = window.padded_size, spec.numpy_dtype
        self.padded = np.zeros((spec.in_channels, *size) if self.nchw else (*size, spec.in_channels), dtype=dtype)
        taps = channels * spec.kernel_size[0] * spec.kernel_size[1]
        pixels = window.out_size[0] * window.out_size[1]
        self.columns = np.empty((taps, pixels) if self.nchw else (pixels, taps), dtype=dtype)
        top, _, left, _ = window.pads
        rows, cols = slice(top, top + spec.height), slice(left, left + spec.width)
        self.interior = self.padded[:, rows, cols] if self.nchw else self.padded[rows, cols]
        self.held_bytes = self.padded.nbytes + self.columns.nbytes

    def multiply(self, filters: Array, columns: Array, out: Array) -> None:
        """Product of filters and columns, or of columns and filters, as the layout wants it."""
        if self.nchw:
            np.matmul(filters, columns, out)
        else:
            np.matmul(columns, filters, out)

    def taps(self, group: int) -> list[tuple[Array, Array]]:
        """What each filter tap meets in the padded image, and its place in the columns; equal shapes."""
        spec, sizes = self.spec, (*self.spec.kernel_size, *self.spec.window.out_size)
        padded = self.padded if self.nchw else self.padded.transpose(2, 0, 1)
        columns = self.columns.reshape(-1, *sizes) if self.nchw else self.columns.reshape(*sizes[2:], *sizes[:2], -1)
        columns = columns if self.nchw else columns.transpose(4, 2, 3, 0, 1)
        channels = group_slice(spec.in_channels, spec.groups, group)
        return [(seen[0], columns[:, r, s]) for (r, s), seen in spec.window.taps(padded[None, channels])]


def group_slice(channels: int, groups: int, group: int) -> slice:
    return slice(group * (channels // groups), (group + 1) * (channels // groups))


def prepare_conv2d(spec: Conv2d, inputs: Mapping[str, Array], threads: int) -> Ready:
    """A call that fills its output, and the bytes of the buffers that it holds."""
    image = _Image(spec)
    taps = [image.taps(group) for group in range(spec.groups)]
    if spec.direction == FORWARD:
        return _forward(image, taps, inputs), image.held_bytes
    if spec.direction == INPUT_GRADIENT:
        return _input_gradient(image, taps, inputs), image.held_bytes
    return _weight_gradient(image, taps, inputs), image.held_bytes


Taps = list[list[tuple[Array, Array]]]


def _matrices(image: _Image, w: Array) -> list[Array]:
    """Filters of every group as the matrix that fits the columns: [k][c r s], or [r s c][k] for NHWC."""
    spec = image.spec
    parts = [w[group_slice(spec.out_channels, spec.groups, group)] for group in range(spec.groups)]
    if image.nchw:
        return [part.reshape(len(part), -1) for part in parts]
    return [np.ascontiguousarray(part.transpose(2, 3, 1, 0)).reshape(-1, len(part)) for part in parts]


def _pixels(image: _Image, images: Array) -> list[Array]:
    """Every group of the output images as matrices, views: [n][k][pixels], or [n][pixels][k] for NHWC."""
    spec = image.spec
    parts = [group_slice(spec.out_channels, spec.groups, group) for group in range(spec.groups)]
    if image.nchw:
        whole = images.reshape(spec.batch, spec.out_channels, -1)
        return [whole[:, part] for part in parts]
    whole = images.reshape(spec.batch, -1, spec.out_channels)
    return [whole[:, :, part] for part in parts]


def _gather(taps: list[tuple[Array, Array]]) -> None:
    for seen, column in taps:
        column[...] = seen


def _forward(image: _Image, taps: Taps, inputs: Mapping[str, Array]) -> ArrayWriter:
    spec, x = image.spec, inputs["x"]
    bias = inputs["b"].reshape((-1, 1, 1) if image.nchw else (-1,)) if spec.bias else None
    groups = list(enumerate(zip(_matrices(image, inputs["w"]), taps)))
    interior, columns, multiply, relu = image.interior, image.columns, image.multiply, spec.activation == "relu"

    def run(out: Array) -> None:
        targets = _pixels(image, out)
        for index, (source, result) in enumerate(zip(x, out)):
            interior[...] = source
            for group, (matrix, seen) in groups:
                _gather(seen)
                multiply(matrix, columns, targets[group][index])
            if bias is not None:
                np.add(result, bias, result)
            if relu:
                np.maximum(result, 0.0, out=result)

    return run


def _input_gradient(image: _Image, taps: Taps, inputs: Mapping[str, Array]) -> ArrayWriter:
    sources = _pixels(image, inputs["dy"])
    groups = [(matrix.T, *found) for matrix, *found in zip(_matrices(image, inputs["w"]), sources, taps)]
    padded, interior, columns, multiply = image.padded, image.interior, image.columns, image.multiply

    def run(out: Array) -> None:
        for index, result in enumerate(out):
            padded.fill(0.0)
            for matrix, source, windows in groups:
                multiply(matrix, source[index], columns)
                for seen, column in windows:
                    np.add(seen, column, seen)
            result[...] = interior

    return run


def _weight_gradient(image: _Image, taps: Taps, inputs: Mapping[str, Array]) -> ArrayWriter:
    spec, x = image.spec, inputs["x"]
    channels = spec.in_channels // spec.groups
    shape = (spec.groups, spec.out_channels // spec.groups, channels * spec.kernel_size[0] * spec.kernel_size[1])
    interior, nchw = image.interior, image.nchw
    # The product sums over pixels: [k][pixels] by [pixels][taps] in both layouts.
    sources = [part if nchw else part.transpose(0, 2, 1) for part in _pixels(image, inputs["dy"])]
    columns = image.columns.T if nchw else image.columns
    groups = list(enumerate(zip(sources, taps)))

    def run(out: Array) -> None:
        sums = np.zeros(shape, x.dtype)
        for index, source in enumerate(x):
            interior[...] = source
            for group, (gradient, seen) in groups:
                _gather(seen)
                sums[group] += gradient[index] @ columns
        if nchw:
            out[...] = sums.reshape(out.shape)
        else:
            out[...] = sums.reshape(spec.out_channels, *spec.kernel_size, channels).transpose(0, 3, 1, 2)

    return run
