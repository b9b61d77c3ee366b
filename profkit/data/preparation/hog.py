"""Histograms of oriented gradients (HOG) and of hues: how edges run in each part of a picture, and its colours."""

from __future__ import annotations

import numpy as np

from profkit.ops.spec import Array

ANGLES = 9
"""Bins of the half circle."""
CELL = 8
"""Pixels along each side of a cell."""
HUES = 10
"""Bins of the colour circle."""
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def hog_hue(images: Array) -> Array:
    """Both histograms of colour images [n, 3, height, width] as rows: 9 x 16 + 10 = 154 of 32x32 pixels."""
    if images.shape[1] != len(_LUMA):
        raise ValueError(f"HOG and hues are of red, green and blue, the images have {images.shape[1]} channels")
    values = images.astype(np.float32) / np.float32(255)
    grey = np.tensordot(values, _LUMA, axes=([1], [0]))
    return np.concatenate([oriented_gradients(grey), hue_histogram(values)], axis=1)


def oriented_gradients(grey: Array) -> Array:
    """[n, rows of cells x columns of cells x 9]: the mean gradient of each cell, by its direction from 0 to pi.

    A gradient is divided among the two bins whose middles are next to its direction.
    """
    count, height, width = grey.shape
    if height % CELL or width % CELL:
        raise ValueError(f"HOG divides images into cells of {CELL}x{CELL}, {height}x{width} pixels do not divide")
    down, right = np.zeros_like(grey), np.zeros_like(grey)
    down[:, 1:-1] = (grey[:, 2:] - grey[:, :-2]) / 2
    right[:, :, 1:-1] = (grey[:, :, 2:] - grey[:, :, :-2]) / 2
    place = np.arctan2(down, right) % np.pi * (ANGLES / np.pi) - 0.5
    lower = np.floor(place)
    above = np.hypot(down, right) * (place - lower)
    below = np.hypot(down, right) - above
    bins = lower.astype(np.int64) % ANGLES
    cells = np.zeros((count, height // CELL, width // CELL, ANGLES), np.float32)
    shape = (count, height // CELL, CELL, width // CELL, CELL)
    for angle in range(ANGLES):
        share = below * (bins == angle) + above * ((bins + 1) % ANGLES == angle)
        cells[..., angle] = share.reshape(shape).mean(axis=(2, 4))
    return cells.reshape(count, -1)


def hue_histogram(values: Array) -> Array:
    """[n, 10]: the share of the pixels of each hue, from red over green and blue to red; grey ones count as red."""
    red, green, blue = values[:, 0], values[:, 1], values[:, 2]
    most = values.max(axis=1)
    spread = most - values.min(axis=1)
    safe = np.where(spread > 0, spread, 1)
    sixths = np.select(
        [spread == 0, most == red, most == green],
        [np.zeros_like(most), (green - blue) / safe % 6, (blue - red) / safe + 2],
        (red - green) / safe + 4,
    )
    bins = np.minimum((sixths * (HUES / 6)).astype(np.int64), HUES - 1).reshape(len(values), -1)
    shares = [(bins == number).mean(axis=1, dtype=np.float32) for number in range(HUES)]
    return np.stack(shares, axis=1).astype(np.float32)
