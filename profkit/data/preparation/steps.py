"""The steps that a network declares as its preparation: Data as its files have them in, Data in its shape out.

What a step learns (a mean, a whitening) it learns from the training images, and does the same to those of the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from profkit.data.dataset import Data
from profkit.data.preparation import pixels
from profkit.data.preparation.gist import gist
from profkit.data.preparation.hog import hog_hue
from profkit.data.preparation.whitening import kept_zca
from profkit.errors import UsageError, check_names
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.spec import Array

Change = Callable[[Array], Array]
_ROWS = 5000
"""Images that are changed at once: intermediate results of all of them would not fit into memory."""


@dataclass(frozen=True)
class Step:
    words: str
    """Added to the description of the data; empty for a step that every table shows anyway."""
    fit: Callable[[Array, tuple[int, ...]], Change]
    """From the training images and the network's input to what is done to any images."""


def _always(change: Change) -> Callable[[Array, tuple[int, ...]], Change]:
    return lambda _train, _shape: change


def _fit_size(_train: Array, shape: tuple[int, ...]) -> Change:
    return partial(pixels.fitted_size, height=shape[-2], width=shape[-1])


def _fit_mean_pixel(train: Array, _shape: tuple[int, ...]) -> Change:
    mean = pixels.mean_pixel(train)
    return lambda images: images.astype(np.float32) - mean


def _fit_columns(train: Array, _shape: tuple[int, ...]) -> Change:
    mean, deviation = pixels.column_scales(train)
    return lambda rows: (rows - mean) / deviation


STEPS: Mapping[str, Step] = {
    "fit": Step("", _fit_size),
    "scale": Step("divided by 255", _always(pixels.scaled)),
    "contrast": Step("mean 0 and deviation 1 per image", _always(pixels.global_contrast)),
    "mean_pixel": Step("minus the mean pixel", _fit_mean_pixel),
    "zca": Step("ZCA-whitened", lambda train, _shape: kept_zca(train)),
    "width_20": Step("digits 20 pixels wide", _always(pixels.normalised_width)),
    "gist": Step("as GIST", _always(gist)),
    "hog_hue": Step("as HOG and hues", _always(hog_hue)),
    "columns": Step("mean 0 and deviation 1 per column", _fit_columns),
}


def prepared(data: Data, network: Network) -> Data:
    """float32 inputs in the network's shape; UsageError where its declaration does not lead there."""
    batch, *rest = network.input_shape()
    shape = tuple(rest)
    if len(data.train_images) < batch:
        count = f"{len(data.train_images):,} training inputs"
        raise UsageError(f"{data.description} has {count}, fewer than a batch of {batch:,}: take a smaller --batch")
    train, test = data.train_images, data.test_images
    words = [data.description]
    check_names(f"the preparation of {network.name}", network.preparation, STEPS, "step")
    for name in network.preparation:
        step = STEPS[name]
        try:
            change = step.fit(train, shape)
            train, test = _changed(change, train), _changed(change, test)
        except ValueError as error:
            raise UsageError(f"{data.description} cannot be prepared for {network.name}: {name}: {error}") from None
        words += [step.words] if step.words else []
    outputs = network.output_shape()[1]
    if network.loss == CROSS_ENTROPY and int(data.train_labels.max()) >= outputs:
        raise UsageError(
            f"{data.description} has {data.train_labels.max() + 1} classes, {network.name} gives {outputs}"
        )
    train, test = (_shaped(images, shape, data, network).astype(np.float32, copy=False) for images in (train, test))
    return replace(data, description=", ".join(words), train_images=train, test_images=test)


def _changed(change: Change, images: Array) -> Array:
    first = change(images[:_ROWS])
    result = np.empty((len(images), *first.shape[1:]), first.dtype)
    result[: len(first)] = first
    for begin in range(_ROWS, len(images), _ROWS):
        result[begin : begin + _ROWS] = change(images[begin : begin + _ROWS])
    return result


def _shaped(images: Array, shape: tuple[int, ...], data: Data, network: Network) -> Array:
    if images.shape[1:] == shape:
        return images
    if len(shape) == 1 and math.prod(images.shape[1:]) == shape[0]:
        return images.reshape(-1, *shape)
    have, wanted = ("x".join(map(str, each)) for each in (images.shape[1:], shape))
    raise UsageError(
        f"{data.description} has inputs of {have}, and {network.name} takes {wanted}: leave --data out for synthetic "
        "data of its shape"
    )
