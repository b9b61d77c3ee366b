"""Weights for frameworks that hold images as NHWC: canonical ones in, transposed ones out, and back. NumPy only.

Convolutions become [kernel_h, kernel_w, in, out]. The first dense layer after a flatten gets its rows in the order
height, width, channels, so that no transposition is needed at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from profkit.frameworks.adapter import Array
from profkit.ops.networks.layer import FLATTEN, IMAGES
from profkit.ops.networks.network import Network


def images_to_nhwc(images: Array) -> Array:
    """A batch of images in NHWC, contiguous; rows of features stay as they are."""
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1) if images.ndim == 4 else images)


def weights_to_nhwc(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Every parameter as an NHWC framework wants it, contiguous."""
    converted = {}
    for name, array in weights.items():
        rows = _rows_from_nchw(network, name)
        order = (2, 3, 1, 0) if array.ndim == 4 else None
        converted[name] = np.ascontiguousarray(
            array.transpose(order) if order else array if rows is None else array[rows]
        )
    return converted


def weights_from_nhwc(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The canonical parameters again."""
    canonical = {}
    for name, array in weights.items():
        rows = _rows_from_nchw(network, name)
        order = (3, 2, 0, 1) if array.ndim == 4 else None
        back = None if rows is None else np.argsort(rows)
        canonical[name] = np.ascontiguousarray(
            array.transpose(order) if order else array if back is None else array[back]
        )
    return canonical


def _rows_from_nchw(network: Network, name: str) -> Array | None:
    """Which canonical row is in each row of these weights, when they are those of a flattened image."""
    layer, _, part = name.rpartition(".")
    shape = _flattened_image(network, layer) if part == "w" else None
    if shape is None:
        return None
    rows: Array = np.arange(np.prod(shape)).reshape(shape).transpose(1, 2, 0).ravel()
    return rows


def _flattened_image(network: Network, name: str) -> tuple[int, int, int] | None:
    """(channels, height, width) of what flows flattened into this layer, or None. Dropout may come between."""
    source = network.layer(name).inputs[0]
    while source != IMAGES:
        layer = network.layer(source)
        if layer.kind == FLATTEN:
            shape = network.input_shape() if layer.inputs[0] == IMAGES else network.layer(layer.inputs[0]).output_shape
            return (shape[1], shape[2], shape[3]) if len(shape) == 4 else None
        if layer.parameter_shapes():
            return None
        source = layer.inputs[0]
    return None
