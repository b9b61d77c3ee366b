"""A network: parameters in (each a flag and a sweep axis), a graph of layers out, the same for every framework."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from profkit.errors import SpecError
from profkit.ops.fields import Fields
from profkit.ops.networks.graph import Graph, check_graph
from profkit.ops.networks.initialisers import DEFAULT_START, Initialisation, Shape
from profkit.ops.networks.layer import EMBEDDING, IMAGES, LSTM, Layer
from profkit.ops.networks.training import Training
from profkit.ops.spec import Array

CROSS_ENTROPY, SQUARED_ERROR, BINARY_CROSS_ENTROPY = "cross_entropy", "squared_error", "binary_cross_entropy"


@dataclass(frozen=True)
class Network(Fields):
    """Subclasses add the fields (one of them `batch`), which are flags, and describe their layers with a Graph."""

    name: ClassVar[str] = ""
    loss: ClassVar[str] = CROSS_ENTROPY
    """Of the last layer's output: softmax cross entropy, a mean over the rows; or mean squared error, or binary cross
    entropy of the logits, means over all elements."""
    data: ClassVar[str] = ""
    """The data set that its study trains it on: CIFAR-10, MNIST, Shuttle, SVHN, ... A network whose data depend on its
    fields may have a property instead."""
    preparation: ClassVar[tuple[str, ...]] = ()
    """What is done to the data set's files, in this order: fit (crop, or enlarge and pad, to the network's images),
    contrast, zca, scale, mean_pixel, width_20, gist, hog_hue, columns. Synthetic data are made in the final shape."""

    training: ClassVar[Training] = Training()
    """How its authors trained it, as far as they say."""
    initialisation: ClassVar[Initialisation] = DEFAULT_START
    """How the weights of layers begin that name no other; it may be a property too."""
    image: ClassVar[Shape] = ()
    """The input without the batch, where no field changes it."""

    def __init_subclass__(cls, name: str = "", data: str = "", preparation: tuple[str, ...] = ()) -> None:
        """What is not given is that of the parent."""
        cls.name, cls.data = name or cls.name, data or cls.data
        cls.preparation = preparation or cls.preparation

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """In the order in which they run; each takes what earlier ones made."""
        try:
            graph = Graph(self.input_shape(), self.initialisation)
            self.describe(graph)
            check_graph(self.input_shape(), graph.layers)
        except SpecError as error:
            raise SpecError(f"{self.name}: {error}") from None
        return graph.layers

    def describe(self, graph: Graph) -> None:
        """Adds every layer to the graph, which has the input only."""
        raise NotImplementedError

    def input_shape(self) -> Shape:
        """[batch, channels, height, width], [batch, features], [batch, steps, features], or [batch, steps] of
        indices (see `vocabulary`)."""
        batch: int = getattr(self, "batch")  # noqa: B009 - declared by every subclass
        return (batch, *self.image)

    @property
    def declared(self) -> Network:
        """The network that defines the results: itself, unless this one was made of another."""
        return self

    @property
    def no_training(self) -> str:
        """Why it cannot be trained; empty when it can."""
        return ""

    def weights_from(self, declared: Mapping[str, Array]) -> Mapping[str, Array]:
        """Its weights from those of the declared network."""
        return declared

    def output_shape(self) -> Shape:
        """[batch, outputs] of the last layer: logits, before any softmax."""
        return self.layers[-1].output_shape

    @cached_property
    def vocabulary(self) -> int:
        """Above 0: the input is int64 indices below it; 0: it is float32 values."""
        tables: list[Any] = [layer.spec for layer in self.layers if layer.kind == EMBEDDING and IMAGES in layer.inputs]
        return min((table.vocabulary for table in tables), default=0)

    def layer(self, name: str) -> Layer:
        return self._by_name[name]

    def shape_of(self, name: str) -> Shape:
        """Of what a layer gives, or of the network's input (IMAGES)."""
        return self.input_shape() if name == IMAGES else self._by_name[name].output_shape

    def has_gradient(self, name: str) -> bool:
        """Whether a parameter has an influence on what the layer gives, so that training needs the gradient by it."""
        return name in self._trained

    @cached_property
    def _by_name(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def _trained(self) -> frozenset[str]:
        names: set[str] = set()
        for layer in self.layers:
            if layer.parameter_shapes() or names.intersection(layer.inputs):
                names.add(layer.name)
        return frozenset(names)

    def parameter_shapes(self) -> dict[str, Shape]:
        """Every parameter by its name, in order of the layers."""
        return {name: shape for layer in self.layers for name, shape in layer.parameter_shapes().items()}

    def state_shapes(self) -> dict[str, Shape]:
        """What training changes without a gradient."""
        return {name: shape for layer in self.layers for name, shape in layer.state_shapes().items()}

    def weight_shapes(self) -> dict[str, Shape]:
        """All that a framework is given and gives back: parameters, then states."""
        return {**self.parameter_shapes(), **self.state_shapes()}

    def parameter_count(self) -> int:
        return sum(math.prod(shape) for shape in self.parameter_shapes().values())

    def multiply_adds(self) -> int:
        """Of one image, forward, convolutions, dense layers, LSTM and attention."""
        return sum(layer.multiply_adds() for layer in self.layers)

    def initial_weights(self, seed: int = 0) -> dict[str, Array]:
        """The same float32 numbers for every framework, under the names of `weight_shapes`."""
        generator = np.random.default_rng(seed)
        weights: dict[str, Array] = {}
        for layer in self.layers:
            for name, shape in layer.parameter_shapes().items():
                weights[name] = _begin(generator, layer, name.rpartition(".")[2], shape)
        for name, shape in self.state_shapes().items():
            weights[name] = np.full(shape, 1.0 if name.endswith(".variance") else 0.0, np.float32)
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Fields as JSON values, with the network's name; `network_from_dict` reads it back."""
        return {"network": self.name, **self.field_values()}


def _begin(generator: np.random.Generator, layer: Layer, parameter: str, shape: Shape) -> Array:
    if parameter in ("scale", "shift"):
        return np.full(shape, 1.0 if parameter == "scale" else 0.0, np.float32)
    if parameter == "b":
        bias = np.full(shape, layer.start.bias, np.float32)
        if layer.kind == LSTM:  # what the cells hold is kept at first: the forget gates begin open
            cells = shape[0] // 4
            bias[cells : 2 * cells] = 1.0
        return bias
    initialiser = layer.start.recurrent if parameter == "u" else layer.start.weights
    return initialiser.values(generator, shape)
