"""Operators as array expressions: what NumPy does for a library of kernels that lacks them, and CuPy for all.

`xp` is the array module. `array_call` gives the call for a spec: it takes the spec's inputs in their order, then what a
step saved for it, if it did, and returns a fresh result. Images are NCHW. Everything stays in the arrays' own dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profkit.frameworks.cupy.operators import convolution, softmax
from profkit.frameworks.formulas import formula
from profkit.frameworks.framework import product
from profkit.frameworks.networks.array_functions import ArrayCall, DeviceArray, array_module, number
from profkit.frameworks.networks.array_sequences import sequence_gradient
from profkit.ops import Conv2d, LocalResponseNorm, Pool2d, Spec
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.lstm import DIRECTIONS
from profkit.ops.pool2d import MAX

_PIXELS = (0, 2, 3)


def array_call(xp: Any, spec: Spec) -> ArrayCall:
    """The call for this spec."""
    make = _CALLS.get((spec.op, getattr(spec, "direction", FORWARD)))
    return make(xp, spec) if make else formula(array_module(xp), spec)


def _convolution_by_input(xp: Any, spec: Conv2d) -> ArrayCall:
    """Each filter tap's share is added to the pixels that it met."""
    rows, columns = spec.window.out_size
    filters = spec.out_channels // spec.groups

    def run(dy: DeviceArray, w: DeviceArray) -> DeviceArray:
        matrices = w.reshape(spec.groups, filters, -1).swapaxes(1, 2)
        taps = xp.matmul(matrices, dy.reshape(spec.batch, spec.groups, filters, -1))
        taps = taps.reshape(spec.batch, spec.in_channels, *spec.kernel_size, rows, columns)
        padded = xp.zeros((spec.batch, spec.in_channels, *spec.window.padded_size), dy.dtype)
        for (r, s), view in spec.window.taps(padded):
            view[...] += taps[:, :, r, s]
        return spec.window.unpadded(padded, xp)

    return run


def _convolution_by_weights(xp: Any, spec: Conv2d) -> ArrayCall:
    """One product per group over images and pixels with the gathered windows."""
    rows, columns = spec.window.out_size
    channels, filters = spec.in_channels // spec.groups, spec.out_channels // spec.groups

    def run(x: DeviceArray, dy: DeviceArray) -> DeviceArray:
        padded = spec.window.padded(x, 0.0, xp)
        taps = xp.empty((spec.batch, spec.in_channels, *spec.kernel_size, rows, columns), x.dtype)
        for (r, s), view in spec.window.taps(padded):
            taps[:, :, r, s] = view
        parts = [
            xp.tensordot(
                dy[:, group * filters : (group + 1) * filters],
                taps[:, group * channels : (group + 1) * channels],
                axes=((0, 2, 3), (0, 4, 5)),
            )
            for group in range(spec.groups)
        ]
        return parts[0] if spec.groups == 1 else xp.concatenate(parts)

    return run


def _pool(xp: Any, spec: Pool2d) -> ArrayCall:
    """One pass per window element over strided views."""
    is_max = spec.mode == MAX
    combine, border = (xp.maximum, -xp.inf) if is_max else (xp.add, 0.0)
    shares = None if is_max else _shares(xp, spec)

    def run(x: DeviceArray) -> DeviceArray:
        (_, first), *others = spec.window.taps(spec.window.padded(x, border, xp))
        result = first.copy()
        for _, view in others:
            combine(result, view, out=result)
        if shares is not None:
            result *= shares
        return result

    return run


def _pool_gradient(xp: Any, spec: Pool2d) -> ArrayCall:
    return _max_pool_gradient(xp, spec) if spec.mode == MAX else _average_pool_gradient(xp, spec)


def _max_pool_gradient(xp: Any, spec: Pool2d) -> ArrayCall:
    """Each output's gradient goes to the first largest element of its window, row by row."""
    largest = _pool(xp, spec.replaced(direction=FORWARD))

    def run(x: DeviceArray, dy: DeviceArray, y: DeviceArray | None = None) -> DeviceArray:
        y = largest(x) if y is None else y
        padded = spec.window.padded(x, -xp.inf, xp)
        gradient = xp.zeros(padded.shape, x.dtype)
        is_open = xp.ones(y.shape, bool)
        for (_, seen), (_, target) in zip(spec.window.taps(padded), spec.window.taps(gradient)):
            is_here = (seen == y) & is_open
            is_open ^= is_here
            target[...] += dy * is_here
        return spec.window.unpadded(gradient, xp)

    return run


def _average_pool_gradient(xp: Any, spec: Pool2d) -> ArrayCall:
    """Equal shares to the elements inside the image."""
    shares = _shares(xp, spec)

    def run(dy: DeviceArray) -> DeviceArray:
        part = dy * shares
        gradient = xp.zeros((spec.batch, spec.channels, *spec.window.padded_size), dy.dtype)
        for _, target in spec.window.taps(gradient):
            target[...] += part
        return spec.window.unpadded(gradient, xp)

    return run


def _shares(xp: Any, spec: Pool2d) -> DeviceArray:
    """[out_h, out_w]: one over the elements of the image under each window."""
    return xp.asarray((1.0 / spec.window.element_counts()).astype(spec.numpy_dtype))


def _lrn(xp: Any, spec: LocalResponseNorm) -> ArrayCall:
    """x s^-beta, s as in `_scale`."""
    return lambda x: x * _scale(xp, spec, x) ** -spec.beta


def _scale(xp: Any, spec: LocalResponseNorm, x: DeviceArray) -> DeviceArray:
    """s = k + alpha/size * energy of the neighbouring channels."""
    scale = _channel_sums(xp, x * x, *spec.reach)
    scale *= spec.alpha / spec.size
    scale += spec.k
    return scale


def _channel_sums(xp: Any, values: DeviceArray, before: int, after: int) -> DeviceArray:
    """Over the channels c - before ... c + after of each channel c."""
    channels = values.shape[1]
    padded = xp.pad(values, ((0, 0), (before, after), (0, 0), (0, 0)))
    total = padded[:, :channels].copy()
    for shift in range(1, before + after + 1):
        total += padded[:, shift : shift + channels]
    return total


def batch_norm(xp: Any, spec: Any) -> ArrayCall:
    """In training: the result, then mean and biased variance of the batch."""
    images, epsilon = spec.output_shape(), spec.epsilon

    def run(x: DeviceArray, scale: DeviceArray, shift: DeviceArray) -> tuple[DeviceArray, ...]:
        given = x.reshape(images)
        mean = given.mean(axis=_PIXELS)
        y = given - _by_channel(mean)
        variance = (y * y).mean(axis=_PIXELS)
        y *= _by_channel(scale / xp.sqrt(variance + epsilon))
        y += _by_channel(shift)
        return y.reshape(x.shape), mean, variance

    return run


def statistics_of_sums(xp: Any, spec: Any) -> ArrayCall:
    """Mean and variance from what the gradient by scale and shift is where dy is x itself.

    By the shift: count * mean. By the scale, over count: r = variance / sqrt(variance + epsilon), solved for the
    variance.
    """
    count, epsilon = spec.values_per_channel, spec.epsilon

    def run(sums: DeviceArray) -> tuple[DeviceArray, ...]:
        by_scale, by_shift = sums
        squares = (by_scale / count) ** 2
        return by_shift / count, 0.5 * (squares + xp.sqrt(squares * (squares + 4 * epsilon)))

    return run


def batch_norm_gradient(xp: Any, spec: Any) -> ArrayCall:
    """By x, by the scale and by the shift, from mean and variance of the batch."""
    images, epsilon = spec.output_shape(), spec.epsilon
    elements = spec.batch * spec.height * spec.width

    def run(
        x: DeviceArray, scale: DeviceArray, dy: DeviceArray, mean: DeviceArray, variance: DeviceArray
    ) -> tuple[DeviceArray, ...]:
        inverse, given = 1 / xp.sqrt(variance + epsilon), dy.reshape(images)
        normal = x.reshape(images) - _by_channel(mean)
        normal *= _by_channel(inverse)
        by_shift = given.sum(axis=_PIXELS)
        by_scale = (given * normal).sum(axis=_PIXELS)
        normal *= _by_channel(by_scale / -elements)
        normal += given
        normal -= _by_channel(by_shift / elements)
        normal *= _by_channel(scale * inverse)
        return normal.reshape(x.shape), by_scale, by_shift

    return run


def _by_channel(values: DeviceArray) -> DeviceArray:
    return values[:, None, None]


def layer_norm_gradient(xp: Any, spec: Any) -> ArrayCall:
    """By x, by the scale and by the shift."""
    rows, epsilon = spec.output_shape(), spec.epsilon

    def run(x: DeviceArray, scale: DeviceArray, dy: DeviceArray) -> tuple[DeviceArray, ...]:
        normal, inverse = _centred(xp, epsilon, x.reshape(rows))
        normal *= inverse
        given = dy.reshape(rows)
        by_shift, by_scale = given.sum(axis=0), (given * normal).sum(axis=0)
        part = given * scale
        normal *= (part * normal).mean(axis=1, keepdims=True)
        part -= part.mean(axis=1, keepdims=True)
        part -= normal
        part *= inverse
        return part.reshape(x.shape), by_scale, by_shift

    return run


def _centred(xp: Any, epsilon: float, x: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    """x [rows, width] without the mean of its row, and one over the row's deviation."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred, 1 / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + epsilon)


def _bias_relu(xp: Any, spec: Any) -> ArrayCall:
    def run(x: DeviceArray, b: DeviceArray) -> DeviceArray:
        y = x + _by_channel(b)
        return xp.maximum(y, 0, out=y)

    return run


def relu_gradient(xp: Any, in_place: bool) -> ArrayCall:
    """dy where the result y was above 0."""
    zero = number(xp, 0.0)
    if in_place:
        return lambda dy, y: xp.multiply(dy, y > zero, out=dy)
    return lambda dy, y: xp.multiply(dy, y > zero)


_CALLS: Mapping[tuple[str, str], Callable[[Any, Any], ArrayCall]] = {
    ("conv2d", FORWARD): convolution,
    ("conv2d", INPUT_GRADIENT): _convolution_by_input,
    ("conv2d", WEIGHT_GRADIENT): _convolution_by_weights,
    ("matmul", FORWARD): product,
    ("pool2d", FORWARD): _pool,
    ("pool2d", INPUT_GRADIENT): _pool_gradient,
    ("lrn", FORWARD): _lrn,
    ("bias_relu", FORWARD): _bias_relu,
    ("softmax", FORWARD): lambda xp, _: softmax(xp),
    ("attention", INPUT_GRADIENT): sequence_gradient,
    **{("lstm", direction): sequence_gradient for direction in DIRECTIONS if direction != FORWARD},
}
"""By operator and direction; all others are formulas."""
