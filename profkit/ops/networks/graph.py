"""A graph of layers: built one after another with branches, and checked before anything is made from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profkit.errors import SpecError, unknown
from profkit.ops.activation import Activation
from profkit.ops.add import Add
from profkit.ops.attention import Attention
from profkit.ops.batch_norm import INFERENCE, BatchNorm
from profkit.ops.conv2d import Conv2d
from profkit.ops.embedding import Embedding
from profkit.ops.layer_norm import LayerNorm
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.lstm import Lstm
from profkit.ops.matmul import MatMul
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.initialisers import DEFAULT_START, Initialisation, Shape
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.pool2d import AVERAGE, MAX, Pool2d
from profkit.ops.spec import Spec

MOST_LAYERS = 1000
FUSED = ("none", "relu")
"""Activations that are part of a convolution or a dense layer; others are layers."""
_INPUTS = {kinds.ADD: 2, kinds.ATTENTION: 3}


class Graph:
    """Each call adds a layer that takes the output of the one before; `at(name)` continues from an earlier one.

    The name of a layer with a branch is the branch's own part of it, with an underscore: frameworks take no slashes.
    """

    def __init__(self, input_shape: Shape, start: Initialisation = DEFAULT_START) -> None:
        """`start`: of all layers that name none."""
        self._start = start
        self._layers: list[Layer] = []
        self._shapes = {IMAGES: input_shape}
        self.last = IMAGES
        """The name of what the next layer takes."""

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(self._layers)

    @property
    def shape(self) -> Shape:
        """Of what the next layer takes."""
        return self._shapes[self.last]

    def at(self, name: str) -> Graph:
        """The next layer takes this one (or IMAGES)."""
        if name not in self._shapes:
            raise SpecError(unknown("layer", name, list(self._shapes)))
        self.last = name
        return self

    def conv(
        self,
        name: str,
        filters: int,
        kernel: int,
        stride: int = 1,
        padding: Any = "same",
        activation: str = "relu",
        bias: bool = True,
        groups: int = 1,
        start: Initialisation | None = None,
    ) -> Graph:
        """Convolution + bias + activation."""
        batch, channels, height, width = self._images(name, kinds.CONV2D)
        fused = activation if activation in FUSED else "none"
        spec = Conv2d(
            *(batch, channels, height, width, filters, kernel, stride, padding),
            groups=groups,
            bias=bias,
            activation=fused,
        )
        self._add(name, spec, spec.output_shape(), activation=fused, start=start)
        return self if activation in FUSED else self.activate(f"{name}_{activation}", activation)

    def dense(
        self,
        name: str,
        outputs: int,
        activation: str = "relu",
        start: Initialisation | None = None,
        bias: bool = True,
    ) -> Graph:
        """x w + b, then the activation; of every step of a sequence alike."""
        *rows, inputs = self.shape
        if len(rows) > 2:
            raise SpecError(f"{name} takes rows, but {self.last} gives {shape_text(self.shape)}: flatten it first")
        fused = activation if activation in FUSED else "none"
        spec = MatMul(m=math.prod(rows), n=outputs, k=inputs, bias=bias)
        self._add(name, spec, (*rows, outputs), activation=fused, start=start)
        return self if activation in FUSED else self.activate(f"{name}_{activation}", activation)

    def max_pool(self, name: str, size: int, stride: int, padding: Any = "same") -> Graph:
        return self._pool(name, size, stride, padding, MAX)

    def average_pool(self, name: str, size: int, stride: int, padding: Any = "same") -> Graph:
        """The padding does not count in the average."""
        return self._pool(name, size, stride, padding, AVERAGE)

    def global_average_pool(self, name: str) -> Graph:
        """The average of each channel, as an image of one pixel."""
        height, width = self._images(name, kinds.POOL2D)[2:]
        return self._pool(name, (height, width), 1, "valid", AVERAGE)

    def norm(self, name: str, size: int = 9, alpha: float = 0.001, beta: float = 0.75, k: float = 1.0) -> Graph:
        """Local response normalisation with torch's alpha (TensorFlow's times `size`)."""
        spec = LocalResponseNorm(*self._images(name, kinds.LRN), size, alpha, beta, k)
        return self._add(name, spec, spec.output_shape())

    def batch_norm(self, name: str) -> Graph:
        """Of images per channel, of rows per feature."""
        batch, channels, *sides = self.shape
        height, width = sides if len(sides) == 2 else (1, 1)
        spec = BatchNorm(batch, channels, height, width, INFERENCE)
        return self._add(name, spec, self.shape)

    def layer_norm(self, name: str) -> Graph:
        """Over the last axis."""
        *rows, width = self.shape
        return self._add(name, LayerNorm(math.prod(rows), width), self.shape)

    def activate(self, name: str, function: str) -> Graph:
        return self._add(name, Activation(math.prod(self.shape), function), self.shape)

    def flatten(self, name: str = "flatten") -> Graph:
        """Images as rows: channels, height, width."""
        batch, *rest = self.shape
        return self._add(name, kinds.FLATTEN, (batch, math.prod(rest)))

    def dropout(self, name: str, rate: float) -> Graph:
        """Nothing in inference; in training a random share becomes 0 and the rest grows by 1/(1-rate)."""
        return self._add(name, kinds.DROPOUT, self.shape, rate=rate)

    def add(self, name: str, other: str) -> Graph:
        """The sum with another layer of the same shape."""
        return self._add(name, Add(math.prod(self.shape)), self.shape, inputs=(self.last, other))

    def concat(self, name: str, *sources: str) -> Graph:
        """Images joined along their channels, in the order of the names."""
        missing = next((source for source in sources if source not in self._shapes), "")
        if missing:
            raise SpecError(f"{name}: {unknown('layer', missing, list(self._shapes))}")
        batch, _, *rest = self._shapes[sources[0]]
        shape = (batch, sum(self._shapes[source][1] for source in sources), *rest)
        return self._add(name, kinds.CONCAT, shape, inputs=sources)

    def embedding(self, name: str, vocabulary: int, width: int, start: Initialisation | None = None) -> Graph:
        """A row of the table for every index."""
        spec = Embedding(math.prod(self.shape), vocabulary, width)
        return self._add(name, spec, (*self.shape, width), start=start)

    def positions(self, name: str) -> Graph:
        """Adds the encoding of positions to each sequence: a constant, which nothing is learned of."""
        if len(self.shape) != 3:
            raise SpecError(f"{name} takes [batch, steps, features], but {self.last} gives {shape_text(self.shape)}")
        return self._add(name, Add(math.prod(self.shape)), self.shape, kind=kinds.POSITIONS)

    def lstm(
        self,
        name: str,
        cells: int,
        activation: str = "tanh",
        recurrent_activation: str = "sigmoid",
        returns_sequence: bool = False,
        start: Initialisation | None = None,
    ) -> Graph:
        """The result of every step, or of the last one."""
        if len(self.shape) != 3:
            raise SpecError(f"{name} takes [batch, steps, features], but {self.last} gives {shape_text(self.shape)}")
        batch, steps, inputs = self.shape
        spec = Lstm(batch, steps, inputs, cells, activation, recurrent_activation, returns_sequence)
        return self._add(name, spec, spec.output_shape(), start=start)

    def attention(self, name: str, q: str, k: str, v: str, heads: int, causal: bool = False) -> Graph:
        """softmax(q k^T / sqrt(width)) v in each head."""
        self.at(q)
        if len(self.shape) != 3 or self.shape[2] % heads:
            raise SpecError(
                f"{name} takes [batch, steps, heads x width] with {heads} heads, but {q} gives {shape_text(self.shape)}"
            )
        batch, steps, features = self.shape
        spec = Attention(batch, heads, steps, features // heads, causal)
        return self._add(name, spec, self.shape, inputs=(q, k, v))

    def mean(self, name: str) -> Graph:
        """Over the steps of a sequence."""
        batch, *_, width = self.shape
        return self._add(name, kinds.MEAN, (batch, width))

    def _pool(self, name: str, size: Any, stride: int, padding: Any, mode: str) -> Graph:
        spec = Pool2d(*self._images(name, kinds.POOL2D), size, stride, padding, mode)
        return self._add(name, spec, spec.output_shape())

    def _images(self, name: str, kind: str) -> tuple[int, int, int, int]:
        if len(self.shape) != 4:
            raise SpecError(f"{name} is a {kind} of images, but {self.last} gives {shape_text(self.shape)}")
        batch, channels, height, width = self.shape
        return batch, channels, height, width

    def _add(
        self,
        name: str,
        what: Spec | str,
        shape: Shape,
        start: Initialisation | None = None,
        inputs: tuple[str, ...] = (),
        kind: str = "",
        **more: Any,
    ) -> Graph:
        """`what`: an operator, or a kind of layer that has none; `kind`: where it is not the operator's."""
        if len(self._layers) == MOST_LAYERS:
            raise SpecError(f"the network has more than {MOST_LAYERS:,} layers")
        begin = (start or self._start).for_input(self.shape)
        own, spec = (what, None) if isinstance(what, str) else (what.op, what)
        layer = Layer(name, kind or own, spec, shape, inputs or (self.last,), start=begin, **more)
        check_layer(layer, self._shapes)
        self._layers.append(layer)
        self._shapes[name] = shape
        self.last = name
        return self


def check_graph(input_shape: Shape, layers: Sequence[Layer]) -> None:
    """Raise SpecError with the layer's name unless every layer can run in this order and somebody reads it."""
    shapes = {IMAGES: input_shape}
    names = [layer.name for layer in layers]
    for layer in layers:
        late = [source for source in layer.inputs if source not in shapes and source in names]
        if late:
            raise SpecError(f"{layer.name} takes {late[0]}, which is {_lateness(layer, late[0], layers)}")
        check_layer(layer, shapes)
        shapes[layer.name] = layer.output_shape
    read = {source for layer in layers for source in layer.inputs}
    for name in names[:-1]:
        if name not in read:
            raise SpecError(f"no layer takes {name}: only the last layer, {names[-1]}, is the network's result")


def _lateness(layer: Layer, source: str, layers: Sequence[Layer]) -> str:
    """A layer that comes too late is a mistake in the order, or part of a cycle."""
    takes = {each.name: each.inputs for each in layers}
    seen, waiting = set(), [source]
    while waiting:
        name = waiting.pop()
        if name == layer.name:
            return f"made from {layer.name} itself: a cycle"
        if name not in seen:
            seen.add(name)
            waiting += takes.get(name, ())
    return "a later layer"


def check_layer(layer: Layer, shapes: dict[str, Shape]) -> None:
    """Raise SpecError unless its name is new, and its inputs exist and fit; `shapes` has what there is before it."""
    if layer.name in shapes:
        raise SpecError(f"two layers are called {layer.name}")
    missing = next((source for source in layer.inputs if source not in shapes), "")
    if missing:
        raise SpecError(f"{layer.name}: {unknown('layer', missing, list(shapes))}")
    count = _INPUTS.get(layer.kind, 1)
    if layer.kind == kinds.CONCAT:
        if len(layer.inputs) < 2:
            raise SpecError(f"{layer.name} joins at least two layers, got {', '.join(layer.inputs)}")
    elif len(layer.inputs) != count:
        raise SpecError(f"{layer.name} takes {count} inputs ({layer.kind}), got {', '.join(layer.inputs)}")
    arriving = [shapes[source] for source in layer.inputs]
    for source, found, expected in zip(layer.inputs, arriving, _expected(layer, arriving)):
        if found != expected:
            raise SpecError(f"{layer.name} takes {shape_text(expected)}, but {source} gives {shape_text(found)}")
    if layer.kind == kinds.CONCAT and sum(shape[1] for shape in arriving) != layer.output_shape[1]:
        channels = " + ".join(str(shape[1]) for shape in arriving)
        raise SpecError(f"{layer.name} gives {layer.output_shape[1]} channels, but takes {channels}")


def _expected(layer: Layer, arriving: Sequence[Shape]) -> list[Shape]:
    """The shapes that the inputs must have."""
    spec: Any = layer.spec
    first = arriving[0]
    if layer.kind in (kinds.CONV2D, kinds.POOL2D, kinds.LRN):
        return [spec.input_shapes()["x"]]
    if layer.kind == kinds.DENSE:
        return [(*layer.output_shape[:-1], spec.k)]
    if layer.kind == kinds.CONCAT:
        batch, _, *rest = layer.output_shape
        return [(batch, shape[1] if len(shape) > 1 else 1, *rest) for shape in arriving]
    if layer.kind == kinds.LSTM:
        return [(spec.batch, spec.steps, spec.inputs)]
    if layer.kind == kinds.EMBEDDING:
        return [layer.output_shape[:-1]]
    if layer.kind == kinds.FLATTEN:
        fits = first[:1] == layer.output_shape[:1] and math.prod(first) == math.prod(layer.output_shape)
        return [first if fits else layer.output_shape]
    if layer.kind == kinds.MEAN:
        batch, width = layer.output_shape
        return [(batch, first[1] if len(first) == 3 else 1, width)]
    return [layer.output_shape] * len(arriving)  # what changes its values only


def shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape))
