"""Images and labels for networks: synthetic ones (learnable, seeded), or read elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.spec import Array

SYNTHETIC = "synthetic"
BLOCKS = 4
"""Blocks of one value along each side of a synthetic image's pattern."""


@dataclass(frozen=True)
class Data:
    """Training and test images in their order; labels are int64 classes, or float32 [n, outputs] to be predicted."""

    description: str
    """Where they come from, for people: every output shows it."""
    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array

    @property
    def is_synthetic(self) -> bool:
        """Whether precision on it says nothing about the real task."""
        return self.description.startswith(SYNTHETIC)

    def batch(self, size: int) -> tuple[Array, Array]:
        """The first batch; what is missing is taken from the start again."""
        rows = np.arange(size) % len(self.train_images)
        return np.ascontiguousarray(self.train_images[rows]), np.ascontiguousarray(self.train_labels[rows])

    def arrays(self) -> dict[str, Array]:
        """As the worker finds them in its folder."""
        names = ("train_images", "train_labels", "test_images", "test_labels")
        return {name: getattr(self, name) for name in names}


def synthetic_data(network: Network, seed: int = 0, train: int = 2048, test: int = 512) -> Data:
    """Images of the network's shape: a pattern per class (or per target value) under noise.

    Patterns of images are coarse blocks, because convolutions and poolings do not see single pixels: the CIFAR-10
    network learns them in some dozen steps, and more slowly the more a variant throws away.
    """
    generator = np.random.default_rng(seed)
    batch, *shape = network.input_shape()
    train = max(train, batch)
    test = max(test, batch)
    outputs = network.output_shape()[1]
    if network.loss == CROSS_ENTROPY:
        labels: Array = generator.integers(0, outputs, train + test)
        images = _patterns(generator, outputs, tuple(shape))[labels]
    else:
        labels = generator.random((train + test, outputs), dtype=np.float32)
        images = labels.mean(axis=1).reshape(-1, *(1 for _ in shape)) * _patterns(generator, 1, tuple(shape))[0]
    images = 0.5 * images + generator.standard_normal(images.shape, dtype=np.float32)
    description = f"{SYNTHETIC} data (patterns under noise, seed {seed})"
    return Data(description, images[:train], labels[:train], images[train:], labels[train:])


def _patterns(generator: np.random.Generator, count: int, shape: tuple[int, ...]) -> Array:
    """Random numbers of this shape each; images in blocks of one value."""
    if len(shape) != 3:
        return generator.standard_normal((count, *shape), dtype=np.float32)
    channels, height, width = shape
    coarse = generator.standard_normal((count, channels, BLOCKS, BLOCKS), dtype=np.float32)
    rows, columns = (np.arange(size) * BLOCKS // size for size in (height, width))
    blocks: Array = coarse[:, :, rows[:, None], columns]
    return blocks
