"""Training and test data as arrays, and the form of a source: what finds and reads the files of a data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profkit.ops.spec import Array

SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Data:
    """Training and test inputs in their order: as a file has them, or prepared for a network.

    Labels are int64 classes, or float32 [n, outputs] to be predicted.
    """

    description: str
    """Where they come from and how they were prepared, for people: every output shows it."""
    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array

    @property
    def is_synthetic(self) -> bool:
        """Whether errors on it say nothing about the real task."""
        return self.description.startswith(SYNTHETIC)

    def batch(self, size: int) -> tuple[Array, Array]:
        """The first batch; what is missing is taken from the start again."""
        rows = np.arange(size) % len(self.train_images)
        return np.ascontiguousarray(self.train_images[rows]), np.ascontiguousarray(self.train_labels[rows])

    def arrays(self) -> dict[str, Array]:
        """As the worker finds them in its folder."""
        names = ("train_images", "train_labels", "test_images", "test_labels")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class DataSource:
    """One form in which the files of a data set come."""

    data_set: str
    """As `Network.data` names it."""
    files: str
    """Names of the files, for people."""
    where: str
    """How to get them."""
    find: Callable[[Path], Path | None]
    """From a file or a folder that was given to what `read` takes; None where nothing looks like these files."""
    read: Callable[[Path], Data]
    """Everything as the files have it; UsageError, with the file's name, for any damage."""
