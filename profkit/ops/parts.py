"""Which inputs of an operator are activations, and parts of its output that can be computed alone.

A layer's weights stay while activations change from call to call: kernels may prepare weights ahead, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.ops.spec import Array, Spec

WEIGHTS = ("w", "b", "bias", "u", "scale", "shift", "mean", "variance", "second_moment", "mean_square")
"""Names of inputs that are a layer's weights; `b` of a product too: a dense layer's, packed ahead by many."""
CHOICES = ("indices", "labels", "mask")
"""Inputs that cannot have just any values: they stay as well."""
ELEMENTWISE = ("activation", "add", "dropout", "optimiser_step")
"""Operators on lines of elements, each of which is computed alone."""
_ONE_PIECE = (("layer_norm", "parameter-gradient"), ("lstm", "weight-gradient"))
_STACKED = (("lstm", "state-gradient"), ("attention", "input-gradient"))
"""Results of several arrays, one after the other, whose second axis is the batch."""


def activations(spec: Spec) -> list[str]:
    """Names of the inputs that change from call to call; of an addition both."""
    stays = CHOICES if spec.op == "add" else (*WEIGHTS, *CHOICES)
    return [name for name in spec.input_shapes() if name not in stays]


def activation_values(spec: Spec) -> int:
    """How many numbers change from call to call."""
    return sum(prod(spec.input_shapes()[name]) for name in activations(spec))


@dataclass(frozen=True)
class Part:
    """One image, row or filter as a spec, and the position of its inputs and its output in the whole ones."""

    spec: Spec
    inputs: Mapping[str, tuple[slice, ...]]
    output: tuple[slice, ...]
    own: Sequence[str]
    """Activations of which the piece concerns no other part."""

    def inputs_of(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """From the whole ones."""
        return {name: arrays[name][piece] for name, piece in self.inputs.items()}

    def reference(self, inputs: Mapping[str, Array], shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Its output, computed from its own inputs, in this shape: that of the piece of the whole output."""
        shapes = self.spec.input_shapes()
        return self.spec.reference({name: inputs[name].reshape(shapes[name]) for name in shapes}).reshape(shape)


def part_count(spec: Spec) -> int:
    shape = spec.output_shape()
    if _parts_axis(spec) is None:
        return 1
    return shape[_parts_axis(spec) or 0]


def part_of(spec: Spec, number: int) -> Part:
    parts_axis = _parts_axis(spec)
    one = slice(number, number + 1)
    whole = {name: _at(shape, {}) for name, shape in spec.input_shapes().items()}
    output = _at(spec.output_shape(), {} if parts_axis is None else {parts_axis: one})
    if parts_axis is None:
        return Part(spec, whole, output, activations(spec))
    if spec.op in ELEMENTWISE:
        return Part(spec.replaced(count=1), dict.fromkeys(whole, (one,)), output, activations(spec))
    if spec.op in ("softmax", "layer_norm"):
        rows = {name: _at(shape, {0: one}) for name, shape in spec.input_shapes().items() if len(shape) == 2}
        return Part(spec.replaced(rows=1), {**whole, **rows}, output, activations(spec))
    if spec.op == "batch_norm" or getattr(spec, "direction", "") == "bias-gradient":
        return _channel(spec, one, output)
    if spec.op == "matmul":
        return _matmul_part(spec, one, whole, output)
    if getattr(spec, "direction", "") == "weight-gradient":
        return _filter(spec, number, output)
    # Images or sequences.
    images = {name: _at(spec.input_shapes()[name], {0: one}) for name in activations(spec)}
    return Part(spec.replaced(batch=1), {**whole, **images}, output, list(images))


def _parts_axis(spec: Any) -> int | None:
    """The axis of the output whose slices are computed alone; None: it is one piece."""
    if spec.op == "optimiser_step":
        return 1
    if spec.op == "batch_norm":
        return 1 if spec.direction == "parameter-gradient" else _channel_axis(spec)
    direction = getattr(spec, "direction", "")
    # A row of the table, or a value of a parameter, is made of rows that are elsewhere.
    if spec.op == "embedding" or (spec.op, direction) in _ONE_PIECE:
        return None
    return 1 if (spec.op, direction) in _STACKED else 0


def _channel_axis(spec: Any) -> int:
    return 1 if spec.layout == "NCHW" else 3


def _channel(spec: Any, one: slice, output: tuple[slice, ...]) -> Part:
    """A channel of all images, and its own weights."""
    inputs = {
        name: _at(shape, {0 if len(shape) == 1 else _channel_axis(spec): one})
        for name, shape in spec.input_shapes().items()
    }
    return Part(spec.replaced(channels=1), inputs, output, activations(spec))


def _matmul_part(spec: Any, one: slice, whole: Mapping[str, tuple[slice, ...]], output: tuple[slice, ...]) -> Part:
    shapes = spec.input_shapes()
    if spec.batch > 1:
        products = {name: _at(shapes[name], {0: one}) for name in ("a", "b")}
        return Part(spec.replaced(batch=1), {**whole, **products}, output, ["a"])
    rows = _at(shapes["a"], {1 if spec.transpose_a else 0: one})
    return Part(spec.replaced(m=1), {**whole, "a": rows}, output, ["a"])


def _filter(spec: Any, number: int, output: tuple[slice, ...]) -> Part:
    """A filter's gradient: its own channel of dy and the channels of x of its group."""
    channels = 1 if spec.layout == "NCHW" else 3
    inside = spec.in_channels // spec.groups
    first = number // (spec.out_channels // spec.groups) * inside
    shapes = spec.input_shapes()
    x = _at(shapes["x"], {channels: slice(first, first + inside)})
    dy = _at(shapes["dy"], {channels: slice(number, number + 1)})
    return Part(spec.replaced(in_channels=inside, out_channels=1, groups=1), {"x": x, "dy": dy}, output, ["dy"])


def _at(shape: tuple[int, ...], pieces: Mapping[int, slice]) -> tuple[slice, ...]:
    return tuple(pieces.get(axis, slice(0, extent)) for axis, extent in enumerate(shape))
