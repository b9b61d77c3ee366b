"""The encoding of positions that is added to a sequence: sines and cosines of wavelengths from 2 pi to 20000 pi."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LONGEST = 10000.0


def encoded_positions(steps: int, width: int) -> NDArray[np.float64]:
    """[steps, width]: sin(position / 10000^(2 i / width)) at 2 i, the cosine of the same at 2 i + 1 (Vaswani 2017)."""
    features = np.arange(width)
    angles = np.arange(steps)[:, None] / LONGEST ** (features // 2 * 2 / width)
    return np.where(features % 2 == 0, np.sin(angles), np.cos(angles))
