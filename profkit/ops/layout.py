"""Order of an image batch's dimensions: shapes and views, for every operator that takes images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import Pair, axis
from profkit.ops.fields import Fields

LAYOUT = axes.choice("NCHW", "NHWC")


def image_shape(layout: str, batch: int, channels: int, size: Pair) -> tuple[int, ...]:
    return (batch, channels, *size) if layout == "NCHW" else (batch, *size, channels)


@dataclass(frozen=True)
class Images(Fields):
    """The first fields of an operator that keeps the channels of its images; it has a field `layout` too."""

    batch: int = axis(axes.COUNT, 128, "images per call")
    channels: int = axis(axes.COUNT, 64, "channels")
    height: int = axis(axes.COUNT, 32, "input height")
    width: int = axis(axes.COUNT, 32, "input width")

    def x_shape(self) -> tuple[int, ...]:
        """Shape of the input images, for every direction."""
        layout = getattr(self, "layout")  # noqa: B009 - declared by every subclass
        return image_shape(layout, self.batch, self.channels, (self.height, self.width))


def to_nchw(layout: str, images: NDArray[Any]) -> NDArray[Any]:
    """Images of the given layout, seen as NCHW (a view)."""
    return images if layout == "NCHW" else images.transpose(0, 3, 1, 2)


def from_nchw(layout: str, images: NDArray[Any]) -> NDArray[Any]:
    """NCHW images in the given layout, contiguous."""
    return np.ascontiguousarray(images if layout == "NCHW" else images.transpose(0, 2, 3, 1))
