"""GIST: how much of each orientation and scale is in each part of a picture, by Gabor filters."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from profkit.ops.spec import Array

ORIENTATIONS = (8, 8, 4)
"""Of each scale, the finest first: 20 filters."""
BLOCKS = 4
"""Along each side: 16 parts."""
FINEST, OCTAVES = 0.3, 0.85
"""Cycles per pixel of the finest scale, and by how many octaves scales are apart."""
_RADIAL, _ANGULAR = 3.5, 0.5
"""Sharpness of a filter along the frequency, and along the angle per orientation."""


def gist(images: Array) -> Array:
    """[n, channels, filters, blocks, blocks] as rows: 20 x 16 for every channel, 960 of a colour image.

    A part's value is the mean magnitude of the filter's complex response there; images continue periodically.
    """
    count, channels, height, width = images.shape
    if height % BLOCKS or width % BLOCKS:
        raise ValueError(f"GIST divides images into {BLOCKS}x{BLOCKS} parts, {height}x{width} pixels do not divide")
    filters = gabor_filters(height, width)
    spectrum = np.fft.fft2(images.astype(np.float32) / np.float32(255))
    result = np.empty((count, channels, len(filters), BLOCKS, BLOCKS), np.float32)
    for number, response in enumerate(filters):
        magnitude = np.abs(np.fft.ifft2(spectrum * response))
        parts = magnitude.reshape(count, channels, BLOCKS, height // BLOCKS, BLOCKS, width // BLOCKS)
        result[:, :, number] = parts.mean(axis=(3, 5))
    return result.reshape(count, -1)


@lru_cache(maxsize=4)
def gabor_filters(height: int, width: int) -> Array:
    """[filters, height, width]: the transfer functions, on the frequencies of numpy.fft; no filter passes brightness.

    exp(-3.5 (f/centre - 1)^2 - pi/2 (orientations angle / pi)^2), with the angle measured from the filter's own.
    """
    rows, columns = np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width)[None, :]
    radius, angle = np.hypot(rows, columns), np.arctan2(rows, columns)
    filters = []
    for scale, orientations in enumerate(ORIENTATIONS):
        centre = FINEST / 2 ** (OCTAVES * scale)
        along = _RADIAL * (radius / centre - 1) ** 2
        for number in range(orientations):
            apart = (angle - np.pi * number / orientations + np.pi) % (2 * np.pi) - np.pi
            filters.append(np.exp(-along - np.pi * _ANGULAR * (orientations * apart / np.pi) ** 2))
    result: Array = np.stack(filters).astype(np.float32)
    result[:, 0, 0] = 0
    return result
