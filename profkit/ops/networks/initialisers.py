"""How parameters begin: seeded numbers, the same for every framework."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from profkit.ops.spec import Array

Shape = tuple[int, ...]
TRUNCATED_NORMAL, UNIFORM, GLOROT, HE, ORTHOGONAL = "truncated normal", "uniform", "glorot", "he", "orthogonal"
HE_BY_INPUT = "he by input"


@dataclass(frozen=True)
class Initialiser:
    """A distribution of weights: how far its numbers spread is given, or follows from the shape of the weights."""

    distribution: str
    spread: float = 0.0
    """Of a truncated normal distribution its standard deviation, of a uniform one its limit; others need none."""

    def values(self, generator: np.random.Generator, shape: Shape) -> Array:
        """Float32 numbers for filters [out, in, height, width] or a matrix [in, out]."""
        result: Array
        if self.distribution == TRUNCATED_NORMAL:
            result = _truncated_normal(generator, shape) * np.float32(self.spread)
            return result
        if self.distribution == ORTHOGONAL:
            return _orthogonal(generator, shape)
        fan_in, fan_out = fans(shape)
        if self.distribution == HE:
            result = generator.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fan_in))
            return result
        if self.distribution not in (UNIFORM, GLOROT):
            raise ValueError(f"no weights are drawn as {self.distribution}")
        limit = self.spread if self.distribution == UNIFORM else math.sqrt(6 / (fan_in + fan_out))
        result = (2 * generator.random(shape, np.float32) - 1) * np.float32(limit)
        return result


def truncated_normal(stddev: float) -> Initialiser:
    """Normal numbers, those beyond two standard deviations drawn again."""
    return Initialiser(TRUNCATED_NORMAL, stddev)


def uniform(limit: float) -> Initialiser:
    """Between -limit and limit."""
    return Initialiser(UNIFORM, limit)


def glorot() -> Initialiser:
    """Uniform up to sqrt(6 / (fan-in + fan-out))."""
    return Initialiser(GLOROT)


def he() -> Initialiser:
    """Normal with deviation sqrt(2 / fan-in)."""
    return Initialiser(HE)


def he_by_input() -> Initialiser:
    """Truncated normal with deviation sqrt(2 / n), where n is the size of one input of the layer (height x width x
    channels), not of a filter: a graph puts the number in its place."""
    return Initialiser(HE_BY_INPUT)


def orthogonal() -> Initialiser:
    """Rows, or columns where there are fewer of them, of length 1 and perpendicular to each other."""
    return Initialiser(ORTHOGONAL)


@dataclass(frozen=True)
class Initialisation:
    """How the parameters of a layer begin, and which decay its weights have."""

    weights: Initialiser = truncated_normal(0.05)
    recurrent: Initialiser = orthogonal()
    """Of the weights between one step of a sequence and the next."""
    bias: float = 0.0
    weight_decay: float = 0.0
    """Gradient of the weights + weight_decay * weights, as an L2 loss of weight_decay/2 * sum(w^2) gives."""

    def for_input(self, shape: Shape) -> Initialisation:
        """With the numbers that depend on the layer's input."""
        if self.weights.distribution != HE_BY_INPUT:
            return self
        return replace(self, weights=truncated_normal(math.sqrt(2 / math.prod(shape[1:]))))


DEFAULT_START = Initialisation()


def fans(shape: Shape) -> tuple[int, int]:
    """Numbers that meet in one output, and outputs that one number reaches."""
    if len(shape) == 2:
        return shape[0], shape[1]
    out_channels, in_channels, *window = shape
    return in_channels * math.prod(window), out_channels * math.prod(window)


def _truncated_normal(generator: np.random.Generator, shape: Shape) -> Array:
    values = generator.standard_normal(shape, dtype=np.float32)
    while (is_far := np.abs(values) > 2).any():
        values[is_far] = generator.standard_normal(int(is_far.sum()), dtype=np.float32)
    return values


def _orthogonal(generator: np.random.Generator, shape: Shape) -> Array:
    rows, columns = shape
    q, r = np.linalg.qr(generator.standard_normal((max(shape), min(shape))))
    q *= np.sign(np.diag(r))  # otherwise the signs are those of the factorisation, not of chance
    return np.ascontiguousarray(q if rows >= columns else q.T, np.float32)
