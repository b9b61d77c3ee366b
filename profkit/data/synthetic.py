"""Synthetic data in the shape of a network's data set: seeded, learnable, and called synthetic in every output."""

from __future__ import annotations

import math

import numpy as np

from profkit.data.dataset import SYNTHETIC, Data
from profkit.data.preparation.rain import hmdir_features, hourly_rain
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.spec import Array

BLOCKS = 4
"""Blocks of one value along each side of a synthetic image's pattern."""
MOST_BYTES = 128 << 20
"""Of all inputs, unless one batch has more."""
HMDIR = "HMDIR-II"
_RECORD_COLUMNS, _MEAN_DBZ, _SPREAD_DBZ, _MISSING = 22, 25.0, 8.0, 0.3
_MINUTES, _REFLECTIVITY = 0, 2
"""Columns of a record."""


def synthetic_data(network: Network, seed: int = 0, train: int = 2048, test: int = 512) -> Data:
    """Inputs of the network's shape: a pattern per class (or per target value) under noise.

    Patterns of images are coarse blocks, because convolutions and poolings do not see single pixels: the CIFAR-10
    network learns them in some dozen steps, and more slowly the more a variant throws away. Of large inputs there are
    fewer.
    """
    generator = np.random.default_rng(seed)
    batch, *shape = network.input_shape()
    most = MOST_BYTES // (4 * math.prod(shape))
    train, test = (max(min(count, most * count // (train + test)), batch) for count in (train, test))
    if network.data == HMDIR and len(shape) == 2 and shape[1] == _RECORD_COLUMNS + 2:
        what, (images, labels) = "radar scans and their Marshall-Palmer rain", _radar(generator, train + test, shape[0])
    elif network.vocabulary:
        what, (images, labels) = "words of a class among others", _words(generator, network, train + test)
    else:
        what, (images, labels) = "patterns under noise", _patterns_under_noise(generator, network, train + test)
    shaped = f"shaped as {network.data} " if network.data else ""
    description = f"{SYNTHETIC} data {shaped}({what}, seed {seed})"
    return Data(description, images[:train], labels[:train], images[train:], labels[train:])


def _words(generator: np.random.Generator, network: Network, count: int) -> tuple[Array, Array]:
    """Indices of words; half of a sequence's are those that belong to its class, every one to a class."""
    outputs = network.output_shape()[1]
    classes = outputs if network.loss == CROSS_ENTROPY else 2
    labels = generator.integers(0, classes, (count, 1))
    words = generator.integers(0, network.vocabulary, (count, network.input_shape()[1]))
    own = np.minimum(words - words % classes + labels, network.vocabulary - 1)
    words = np.where(generator.random(words.shape) < 0.5, own, words)
    if network.loss == CROSS_ENTROPY:
        return words, labels[:, 0]
    return words, np.repeat(labels, outputs, axis=1).astype(np.float32)


def _patterns_under_noise(generator: np.random.Generator, network: Network, count: int) -> tuple[Array, Array]:
    _, *shape = network.input_shape()
    outputs = network.output_shape()[1]
    if network.loss == CROSS_ENTROPY:
        labels: Array = generator.integers(0, outputs, count)
        images = _whole(_patterns(generator, outputs, tuple(shape))[labels], tuple(shape))
    else:
        labels = generator.random((count, outputs), dtype=np.float32)
        pattern = _whole(_patterns(generator, 1, tuple(shape)), tuple(shape))
        images = labels.mean(axis=1).reshape(-1, *(1 for _ in shape)) * pattern
    images *= np.float32(0.5)
    images += generator.standard_normal(images.shape, dtype=np.float32)
    return images, labels


def _patterns(generator: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Random numbers of this shape each; of images one for every block."""
    reduced = (shape[0], BLOCKS, BLOCKS) if len(shape) == 3 else shape
    return generator.standard_normal((count, *reduced), dtype=np.float32)


def _whole(patterns: Array, shape: tuple[int, ...]) -> Array:
    """Patterns of images in blocks of one value."""
    if len(shape) != 3:
        return patterns
    rows, columns = (np.arange(size) * BLOCKS // size for size in shape[1:])
    return patterns[:, :, rows[:, None], columns]


def _radar(generator: np.random.Generator, count: int, steps: int) -> tuple[Array, Array]:
    """Hours of scans, some without an echo; the label is the rain that Marshall-Palmer gives for the hour, in mm."""
    lengths = generator.integers(min(2, steps), steps + 1, count)
    minutes = np.sort(generator.random((count, steps), dtype=np.float32) * 60, axis=1)
    records = generator.standard_normal((count, steps, _RECORD_COLUMNS), dtype=np.float32)
    hours = generator.standard_normal((count, 1), dtype=np.float32) * _SPREAD_DBZ + _MEAN_DBZ
    reflectivity = hours + generator.standard_normal((count, steps), dtype=np.float32)
    reflectivity[generator.random((count, steps)) < _MISSING] = np.nan
    records[..., _MINUTES], records[..., _REFLECTIVITY] = minutes, reflectivity
    rain = hourly_rain(minutes, reflectivity, lengths)
    return hmdir_features(records, reflectivity, lengths), rain[:, None].astype(np.float32)
