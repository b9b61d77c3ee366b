"""Operators that a library of kernels lacks, as array expressions: gradients, pooling, loss, SGD.

`xp` is the array module, NumPy or CuPy; each function returns the call for one spec. Everything stays in the
arrays' own dtype. Results are fresh unless the docstring says in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.pool2d import Pool2d
from profkit.ops.window import Window

DeviceArray = Any
ArrayCall = Callable[..., DeviceArray]


def number(xp: Any, value: float) -> DeviceArray:
    """A float32 scalar as an array: a Python number would become one, allocated anew, in every call."""
    return xp.full((), value, xp.float32)


def relu(xp: Any) -> ArrayCall:
    """In place."""
    zero = number(xp, 0.0)
    return lambda x: xp.maximum(x, zero, out=x)


def relu_gradient(xp: Any) -> ArrayCall:
    """dy where the result y was above 0; in place, because nothing else needs dy."""
    zero = number(xp, 0.0)
    return lambda dy, y: xp.multiply(dy, y > zero, out=dy)


def bias_gradient(dimensions: int) -> ArrayCall:
    """Sums over everything but the channels."""
    axes = (0,) if dimensions == 2 else (0, 2, 3)
    return lambda dy: dy.sum(axis=axes)


def convolution_gradient_by_input(xp: Any, spec: Conv2d) -> ArrayCall:
    """Each filter tap's share is added to the pixels that it met; no groups."""
    rows, columns = spec.window.out_size

    def run(dy: DeviceArray, w: DeviceArray) -> DeviceArray:
        taps = xp.matmul(w.reshape(spec.out_channels, -1).T, dy.reshape(spec.batch, spec.out_channels, -1))
        taps = taps.reshape(spec.batch, spec.in_channels, *spec.kernel_size, rows, columns)
        padded = xp.zeros((spec.batch, spec.in_channels, *spec.window.padded_size), dy.dtype)
        for (r, s), view in spec.window.taps(padded):
            view[...] += taps[:, :, r, s]
        return _interior(xp, spec.window, padded)

    return run


def convolution_gradient_by_weights(xp: Any, spec: Conv2d) -> ArrayCall:
    """One product over images and pixels with the gathered windows; no groups."""
    rows, columns = spec.window.out_size

    def run(x: DeviceArray, dy: DeviceArray) -> DeviceArray:
        padded = _padded(xp, spec.window, x, 0.0)
        taps = xp.empty((spec.batch, spec.in_channels, *spec.kernel_size, rows, columns), x.dtype)
        for (r, s), view in spec.window.taps(padded):
            taps[:, :, r, s] = view
        return xp.tensordot(dy, taps, axes=((0, 2, 3), (0, 4, 5)))

    return run


def max_pool(xp: Any, spec: Pool2d) -> ArrayCall:
    """One pass per window element over strided views."""

    def run(x: DeviceArray) -> DeviceArray:
        padded = _padded(xp, spec.window, x, -xp.inf)
        (_, first), *others = spec.window.taps(padded)
        result = first.copy()
        for _, view in others:
            xp.maximum(result, view, out=result)
        return result

    return run


def max_pool_gradient(xp: Any, spec: Pool2d) -> ArrayCall:
    """Each output's gradient goes to the first largest element of its window, row by row."""

    def run(x: DeviceArray, y: DeviceArray, dy: DeviceArray) -> DeviceArray:
        padded = _padded(xp, spec.window, x, -xp.inf)
        gradient = xp.zeros(padded.shape, x.dtype)
        is_open = xp.ones(y.shape, bool)
        for (_, seen), (_, target) in zip(spec.window.taps(padded), spec.window.taps(gradient)):
            is_here = (seen == y) & is_open
            is_open ^= is_here
            target[...] += dy * is_here
        return _interior(xp, spec.window, gradient)

    return run


def _padded(xp: Any, window: Window, images: DeviceArray, value: float) -> DeviceArray:
    """The images themselves when there is no padding."""
    return xp.pad(images, window.pad_widths(), constant_values=value) if any(window.pads) else images


def _interior(xp: Any, window: Window, padded: DeviceArray) -> DeviceArray:
    top, _, left, _ = window.pads
    return xp.ascontiguousarray(padded[:, :, top : top + window.size[0], left : left + window.size[1]])


def lrn(xp: Any, spec: LocalResponseNorm) -> ArrayCall:
    """x s^-beta, s as in `_scale`."""
    return lambda x: x * _scale(xp, spec, x) ** -spec.beta


def lrn_gradient(xp: Any, spec: LocalResponseNorm) -> ArrayCall:
    """dx = dy s^-beta - 2 alpha/size beta x * sum over the channels that see x of dy x s^(-beta-1)."""
    before, after = spec.reach

    def run(x: DeviceArray, dy: DeviceArray) -> DeviceArray:
        scale = _scale(xp, spec, x)
        direct = dy * scale**-spec.beta
        # Channel c is seen by c - after ... c + before.
        indirect = _channel_sums(xp, direct * x / scale, after, before)
        indirect *= x
        indirect *= 2 * spec.alpha / spec.size * spec.beta
        direct -= indirect
        return direct

    return run


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


def log_softmax(xp: Any) -> ArrayCall:
    """Logarithms of the probabilities of every row."""

    def run(x: DeviceArray) -> DeviceArray:
        shifted = x - x.max(axis=1, keepdims=True)
        shifted -= xp.log(xp.exp(shifted).sum(axis=1, keepdims=True))
        return shifted

    return run


def cross_entropy(xp: Any) -> ArrayCall:
    """Mean of -log p of the right classes."""
    return lambda logarithms, labels: -logarithms[xp.arange(len(labels)), labels].mean()


def cross_entropy_gradient(xp: Any) -> ArrayCall:
    """(p - 1 at the right class) / rows."""

    def run(logarithms: DeviceArray, labels: DeviceArray) -> DeviceArray:
        gradient = xp.exp(logarithms)
        gradient[xp.arange(len(labels)), labels] -= 1
        gradient /= len(labels)
        return gradient

    return run


def squared_error() -> ArrayCall:
    """Mean of the squares of the differences."""
    return lambda difference: (difference * difference).mean()


def squared_error_gradient() -> ArrayCall:
    """2 difference / count."""
    return lambda difference: difference * (2 / difference.size)


def dropout_mask(generator: Any, rate: float) -> ArrayCall:
    """1 / (1 - rate) with this probability, otherwise 0."""

    def run(x: DeviceArray) -> DeviceArray:
        is_kept = generator.random(x.shape, x.dtype) >= rate
        return is_kept.astype(x.dtype) / x.dtype.type(1 - rate)

    return run


def reshape(shape: tuple[int, ...]) -> ArrayCall:
    """The same memory in another shape."""
    return lambda x: x.reshape(shape)


def sgd(xp: Any, rate: float, momentum: float, decay: float) -> ArrayCall:
    """w changes in place; so do its gradient, which nobody needs any more, and its velocity."""
    step, kept, shrink = (number(xp, value) for value in (rate, momentum, decay))

    def run(w: DeviceArray, gradient: DeviceArray, velocity: DeviceArray | None = None) -> DeviceArray:
        if decay:
            gradient += shrink * w
        if velocity is not None:
            velocity *= kept
            velocity += gradient
            w -= step * velocity
        else:
            gradient *= step
            w -= gradient
        return w

    return run
