"""Order of an image batch's dimensions: shapes and views, for every operator that takes images."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import Pair

LAYOUT = axes.choice("NCHW", "NHWC")


def image_shape(layout: str, batch: int, channels: int, size: Pair) -> tuple[int, ...]:
    return (batch, channels, *size) if layout == "NCHW" else (batch, *size, channels)


def to_nchw(layout: str, images: NDArray[Any]) -> NDArray[Any]:
    """Images of the given layout, seen as NCHW (a view)."""
    return images if layout == "NCHW" else images.transpose(0, 3, 1, 2)


def from_nchw(layout: str, images: NDArray[Any]) -> NDArray[Any]:
    """NCHW images in the given layout, contiguous."""
    return np.ascontiguousarray(images if layout == "NCHW" else images.transpose(0, 2, 3, 1))
