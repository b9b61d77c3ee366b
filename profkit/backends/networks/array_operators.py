"""Operators that no kernel library of profkit has, as array expressions: gradients, loss, SGD.

`xp` is the array module, NumPy or CuPy; each function returns the call for one spec. Everything stays in the
arrays' own dtype. Results are fresh unless the docstring says in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.pool2d import Pool2d

DeviceArray = Any
Call = Callable[..., DeviceArray]


def number(xp: Any, value: float) -> DeviceArray:
    """A float32 scalar as an array: a Python number would become one, allocated anew, in every call."""
    return xp.full((), value, xp.float32)


def relu(xp: Any) -> Call:
    """In place."""
    zero = number(xp, 0.0)
    return lambda x: xp.maximum(x, zero, out=x)


def relu_gradient(xp: Any) -> Call:
    """dy where the result y was above 0; in place, because nothing else needs dy."""
    zero = number(xp, 0.0)
    return lambda dy, y: xp.multiply(dy, y > zero, out=dy)


def bias_gradient(dimensions: int) -> Call:
    """Sums over everything but the channels."""
    axes = (0,) if dimensions == 2 else (0, 2, 3)
    return lambda dy: dy.sum(axis=axes)


def max_pool_gradient(xp: Any, spec: Pool2d) -> Call:
    """Each output's gradient goes to the first largest element of its window, row by row."""
    window = spec.window
    top, bottom, left, right = window.pads

    def run(x: DeviceArray, y: DeviceArray, dy: DeviceArray) -> DeviceArray:
        border = ((0, 0), (0, 0), (top, bottom), (left, right))
        padded = xp.pad(x, border, constant_values=-xp.inf) if any(window.pads) else x
        gradient = xp.zeros(padded.shape, x.dtype)
        is_open = xp.ones(y.shape, bool)
        for (_, seen), (_, target) in zip(window.taps(padded), window.taps(gradient)):
            is_here = (seen == y) & is_open
            is_open ^= is_here
            target[...] += dy * is_here
        return xp.ascontiguousarray(gradient[:, :, top : top + spec.height, left : left + spec.width])

    return run


def lrn_gradient(xp: Any, spec: LocalResponseNorm) -> Call:
    """dx = dy s^-beta - 2 alpha/size beta x * sum over the channels that see x of dy x s^(-beta-1)."""
    before, after = spec.reach
    weight = spec.alpha / spec.size

    def sums(values: DeviceArray, first: int, last: int) -> DeviceArray:
        """Over the channels c - first ... c + last of each channel c."""
        padded = xp.pad(values, ((0, 0), (first, last), (0, 0), (0, 0)))
        total = padded[:, : spec.channels].copy()
        for shift in range(1, spec.size):
            total += padded[:, shift : shift + spec.channels]
        return total

    def run(x: DeviceArray, dy: DeviceArray) -> DeviceArray:
        scale = sums(x * x, before, after)
        scale *= weight
        scale += spec.k
        direct = dy * scale**-spec.beta
        # Channel c is seen by c - after ... c + before.
        indirect = sums(direct * x / scale, after, before)
        indirect *= x
        indirect *= 2 * weight * spec.beta
        direct -= indirect
        return direct

    return run


def log_softmax(xp: Any) -> Call:
    """Logarithms of the probabilities of every row."""

    def run(x: DeviceArray) -> DeviceArray:
        shifted = x - x.max(axis=1, keepdims=True)
        shifted -= xp.log(xp.exp(shifted).sum(axis=1, keepdims=True))
        return shifted

    return run


def cross_entropy(xp: Any) -> Call:
    """Mean of -log p of the right classes."""
    return lambda logarithms, labels: -logarithms[xp.arange(len(labels)), labels].mean()


def cross_entropy_gradient(xp: Any) -> Call:
    """(p - 1 at the right class) / rows."""

    def run(logarithms: DeviceArray, labels: DeviceArray) -> DeviceArray:
        gradient = xp.exp(logarithms)
        gradient[xp.arange(len(labels)), labels] -= 1
        gradient /= len(labels)
        return gradient

    return run


def squared_error() -> Call:
    """Mean of the squares of the differences."""
    return lambda difference: (difference * difference).mean()


def squared_error_gradient() -> Call:
    """2 difference / count."""
    return lambda difference: difference * (2 / difference.size)


def dropout_mask(generator: Any, rate: float) -> Call:
    """1 / (1 - rate) with this probability, otherwise 0."""

    def run(x: DeviceArray) -> DeviceArray:
        is_kept = generator.random(x.shape, x.dtype) >= rate
        return is_kept.astype(x.dtype) / x.dtype.type(1 - rate)

    return run


def reshape(shape: tuple[int, ...]) -> Call:
    """The same memory in another shape."""
    return lambda x: x.reshape(shape)


def sgd(xp: Any, rate: float, momentum: float, decay: float) -> Call:
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
