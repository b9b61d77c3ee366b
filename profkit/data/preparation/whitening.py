"""ZCA whitening: fitted on training images, then the same change for all; a fit is kept in the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from profkit.capture.atomic_write import atomic_write
from profkit.capture.checked_json import open_file
from profkit.errors import ProfkitError
from profkit.frameworks.cache import cache_folder
from profkit.ops.spec import Array

EPSILON = 0.1
"""Added to every variance: directions that hardly vary, which are noise, are not blown up."""
_ROWS = 5000


@dataclass(frozen=True)
class Zca:
    """x -> (x - mean) matrix, where matrix = V (variances + epsilon)^-1/2 V^T of the training set's covariance."""

    mean: Array
    matrix: Array

    @staticmethod
    def fit(images: Array, epsilon: float = EPSILON) -> Zca:
        """With epsilon 0 the covariance of the whitened training set is the identity."""
        rows = images.reshape(len(images), -1)
        mean = rows.mean(axis=0, dtype=np.float64)
        covariance = np.zeros((len(mean), len(mean)))
        for first in range(0, len(rows), _ROWS):  # a copy of everything in float64 would not fit
            part = rows[first : first + _ROWS] - mean
            covariance += part.T @ part
        variances, directions = np.linalg.eigh(covariance / len(rows))
        # Rounding makes variances of 0 a little negative.
        scale = 1 / np.sqrt(np.maximum(variances, 0) + epsilon)
        matrix = (directions * scale) @ directions.T
        return Zca(mean.astype(np.float32), matrix.astype(np.float32))

    def __call__(self, images: Array) -> Array:
        rows = images.reshape(len(images), -1)
        result: Array = ((rows - self.mean) @ self.matrix).reshape(images.shape)
        return result


def kept_zca(images: Array) -> Zca:
    """The fit of these images, which takes most of a minute for CIFAR-10, from the cache folder if it is there."""
    digest = hashlib.sha256(repr((images.shape, str(images.dtype), EPSILON)).encode())
    digest.update(np.ascontiguousarray(images).data)
    path = cache_folder() / f"zca-{digest.hexdigest()[:32]}.npy"
    found = _kept(path, int(np.prod(images.shape[1:])))
    if found is not None:
        return found
    fitted = Zca.fit(images)
    with contextlib.suppress(OSError, ProfkitError):  # a full disk costs the next run its time
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            np.save(stream, np.concatenate([fitted.mean[None], fitted.matrix]))
    return fitted


def _kept(path: Path, size: int) -> Zca | None:
    """None where there is no such file, or another one in its place."""
    expected = io.BytesIO()
    np.save(expected, np.empty((0, size), np.float32))
    whole = (size + 1) * size * 4
    try:
        with open_file(path) as file:
            content = file.read(len(expected.getvalue()) + whole + 1)
    except OSError:
        return None
    if len(content) != len(expected.getvalue()) + whole:
        return None
    values = np.frombuffer(content[-whole:], np.float32).reshape(size + 1, size)
    return Zca(values[0], values[1:]) if np.isfinite(values).all() else None
