"""Images as frameworks hold them: the order of their dimensions, and paddings in the words that frameworks have."""

from __future__ import annotations

from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Prepared
from profkit.ops.window import Window


def to_layout(images: Array, layout: str, wanted: str) -> Array:
    """Images of one layout in the other, contiguous; the same array when nothing changes."""
    if layout == wanted:
        return images
    order = (0, 2, 3, 1) if wanted == "NHWC" else (0, 3, 1, 2)
    return np.ascontiguousarray(images.transpose(order))


def reported_layout(layout: str, wanted: str) -> str:
    """`Prepared.layout`: the held layout, only when it is not the spec's own."""
    return "" if layout == wanted else wanted


def held_as(layout: str, prepared: Prepared, spec: Any) -> Prepared:
    """A call that gives images of a layout, with its result in the spec's."""
    as_array = prepared.to_numpy
    prepared.to_numpy = lambda result: to_layout(as_array(result), layout, spec.layout)
    prepared.layout = reported_layout(spec.layout, layout)
    return prepared


def channel_shape(layout: str) -> tuple[int, ...]:
    """Shape that spreads one value per channel over images of a layout."""
    return (-1, 1, 1) if layout == "NCHW" else (-1,)


def padding_word(window: Window) -> str:
    """`same` or `valid` when TensorFlow's word gives exactly these windows, otherwise nothing.

    Padding that no window reaches does not count: only where windows start and how many there are.
    """
    for word in ("valid", "same"):
        other = Window(window.size, window.kernel, window.stride, word, window.dilation)
        if other.out_size == window.out_size and other.pads[::2] == window.pads[::2]:
            return word
    return ""


def symmetric_padding(window: Window) -> tuple[int, int] | None:
    """(vertical, horizontal) padding, equal on both sides, that gives exactly these windows, or None."""
    top, _, left, _ = window.pads
    other = Window(window.size, window.kernel, window.stride, (top, top, left, left), window.dilation)
    return (top, left) if other.out_size == window.out_size else None


def covers_image(window: Window) -> bool:
    """Whether there is one window, and it is the whole image."""
    return window.kernel == window.size and window.out_size == (1, 1) and not any(window.pads[::2])
