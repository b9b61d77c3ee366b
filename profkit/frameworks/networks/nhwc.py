"""Arrays for frameworks that hold images as NHWC: canonical ones in, transposed ones out, and back. NumPy only.

Filters become [kernel_h, kernel_w, in, out]. A flattened image is held in the order height, width, channels: whatever
meets its features one by one (the rows of the next dense layer, the scale of a normalisation, a dropout mask) gets the
same order when the model is built, so that no transposition is needed at run time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from profkit.frameworks.adapter import Array
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import Network

_KEEPS_ORDER = (kinds.DROPOUT, kinds.ACTIVATION, kinds.ADD, kinds.BATCH_NORM, kinds.LAYER_NORM)
"""Kinds whose result has its features in the order of their input's."""
_BY_FEATURE = {
    kinds.DENSE: ("w",),
    kinds.BATCH_NORM: ("scale", "shift", "mean", "variance"),
    kinds.LAYER_NORM: ("scale", "shift"),
}
"""Parameters whose first axis is that of the input's features."""


def images_to_nhwc(images: Array) -> Array:
    """A batch of images in NHWC, contiguous; rows of features stay as they are."""
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1) if images.ndim == 4 else images)


def weights_to_nhwc(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Every parameter (and running value) as an NHWC framework wants it, contiguous."""
    orders = _parameter_orders(network)
    return {name: _reordered(array, (2, 3, 1, 0), orders.get(name)) for name, array in weights.items()}


def weights_from_nhwc(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """The canonical parameters again."""
    back = {name: np.argsort(order) for name, order in _parameter_orders(network).items()}
    return {name: _reordered(array, (3, 2, 0, 1), back.get(name)) for name, array in weights.items()}


def masks_to_nhwc(network: Network, masks: Mapping[str, Array]) -> dict[str, Array]:
    """Dropout masks, by the names of their layers."""
    orders = _value_orders(network)
    return {
        name: images_to_nhwc(mask) if orders[name] is None else np.ascontiguousarray(mask[:, orders[name]])
        for name, mask in masks.items()
    }


def channel_axis(layer: Layer) -> int:
    """Which axis of a layer's result is that of the channels: the last one of images, else the second."""
    return 3 if len(layer.output_shape) == 4 else 1


def refuse_order(network: Network) -> str:
    """The reason against a network in which the order of a flattened image's features would be seen."""
    orders = _value_orders(network)
    for layer in network.layers:
        seen = [orders[name] for name in layer.inputs]
        if layer.kind == kinds.ADD and not all(map(_is_same, seen, seen[1:])):
            return f"{layer.name} adds rows that were flattened from images of different shapes"
        if layer.kind not in (*_KEEPS_ORDER, kinds.DENSE, kinds.FLATTEN) and any(order is not None for order in seen):
            return f"{layer.name} takes a flattened image, which is held here as height, width, channels"
    if orders[network.layers[-1].name] is not None:
        return f"{network.layers[-1].name} gives out a flattened image, which is held here as height, width, channels"
    return ""


def _is_same(one: Array | None, other: Array | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _reordered(array: Array, axes: tuple[int, ...], rows: Array | None) -> Array:
    """Filters by their axes, what belongs to features by these, everything else as it is."""
    return np.ascontiguousarray(array.transpose(axes) if array.ndim == 4 else array if rows is None else array[rows])


def _parameter_orders(network: Network) -> dict[str, Array]:
    """Which canonical index is at each index of a parameter's first axis; those that stay as they are are left out."""
    orders = _value_orders(network)
    return {
        f"{layer.name}.{part}": order
        for layer in network.layers
        for part in _BY_FEATURE.get(layer.kind, ())
        if (order := orders[layer.inputs[0]]) is not None
    }


def _value_orders(network: Network) -> dict[str, Array | None]:
    """By the name of every value the canonical index of each of its features; None where they are in order."""
    shapes = {IMAGES: network.input_shape(), **{layer.name: layer.output_shape for layer in network.layers}}
    orders: dict[str, Array | None] = {IMAGES: None}
    for layer in network.layers:
        source = layer.inputs[0]
        orders[layer.name] = orders[source] if layer.kind in _KEEPS_ORDER else None
        if layer.kind == kinds.FLATTEN:
            orders[layer.name] = orders[source] if len(shapes[source]) == 2 else _flattened(layer, shapes[source])
    return orders


def _flattened(layer: Layer, shape: tuple[int, ...]) -> Array | None:
    """Of an image; other arrays have their canonical order."""
    if len(shape) != 4 or shape[2:] == (1, 1):
        return None
    order: Array = np.arange(math.prod(shape[1:])).reshape(shape[1:]).transpose(1, 2, 0).ravel()
    return order
