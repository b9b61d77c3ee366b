"""Arithmetic on pixels and columns: arrays of images [n, channels, height, width] or rows [n, columns] in and out."""

from __future__ import annotations

import numpy as np

from profkit.ops.spec import Array


def fitted_size(images: Array, height: int, width: int) -> Array:
    """Images of another size: the middle of larger ones; smaller ones have every pixel repeated as often as fits, and
    zeros around them."""
    if images.shape[2:] == (height, width):
        return images
    for axis, wanted in ((2, height), (3, width)):
        have = images.shape[axis]
        if wanted < have:
            images = images.take(range((have - wanted) // 2, (have - wanted) // 2 + wanted), axis)
            continue
        images = images.repeat(wanted // have, axis)
        missing = wanted - images.shape[axis]
        padding = [(0, 0)] * 4
        padding[axis] = (missing // 2, missing - missing // 2)
        images = np.pad(images, padding)
    return images


def scaled(images: Array) -> Array:
    """Pixels from 0 to 255 as numbers from 0 to 1."""
    return np.divide(images, 255, dtype=np.float32)


def global_contrast(images: Array) -> Array:
    """Mean 0 and deviation 1 of each image; an image of one colour stays near 0."""
    values = images.reshape(len(images), -1).astype(np.float32)
    values -= values.mean(axis=1, keepdims=True)
    values /= np.maximum(values.std(axis=1, keepdims=True), 1 / np.sqrt(values.shape[1]))
    return values.reshape(images.shape)


def mean_pixel(images: Array) -> Array:
    """[channels, 1, 1]: the mean colour."""
    mean: Array = images.mean(axis=(0, 2, 3), dtype=np.float64).astype(np.float32)
    return mean[:, None, None]


def column_scales(rows: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column; 1 for a column of equal numbers, which then become 0."""
    mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    return mean.astype(np.float32), np.where(deviation > 0, deviation, 1.0).astype(np.float32)


def normalised_width(images: Array, width: int = 20) -> Array:
    """[n, channels, height, width]: from the first to the last column with ink, stretched or shrunk to this width.

    Each new column is the mean of the part of the old ones that it covers; rows stay as they are.
    """
    count, channels, height, columns = images.shape
    has_ink: Array = images.max(axis=(1, 2)) > 0
    is_blank: Array = images.max(axis=(1, 2, 3)) <= 0
    first = np.where(is_blank, 0, has_ink.argmax(axis=1))
    end = np.where(is_blank, columns, columns - has_ink[:, ::-1].argmax(axis=1))
    edges = first[:, None] + (end - first)[:, None] * np.arange(width + 1) / width
    # The ink to the left of a place is linear between whole columns.
    left = np.zeros((count, channels, height, columns + 1))
    np.cumsum(images, axis=3, out=left[..., 1:])
    whole = np.minimum(edges.astype(np.int64), columns - 1)
    places = np.broadcast_to(whole[:, None, None], (count, channels, height, width + 1))
    below, above = np.take_along_axis(left, places, 3), np.take_along_axis(left, places + 1, 3)
    ink = below + (edges - whole)[:, None, None] * (above - below)
    result: Array = (np.diff(ink, axis=3) * (width / (end - first))[:, None, None, None]).astype(np.float32)
    return result
