"""How a framework evaluates a network's graph: its functions by kind of layer, values by the layers' names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.reference import KEPT

Function = TypeVar("Function", bound=Callable[..., Any])
OpenScope = Callable[[str], AbstractContextManager[Any]]


class LayerTable(dict[str, Callable[..., Any]]):
    """The functions of a framework by the kind of layer that they build."""

    def builds(self, kind: str) -> Callable[[Function], Function]:
        """Registers the function below."""

        def register(function: Function) -> Function:
            self[kind] = function
            return function

        return register


@dataclass
class Evaluation:
    """One forward pass; a table's functions take it, the layer and the layer's inputs."""

    network: Network
    weights: Mapping[str, Any]
    """Parameters and running values."""
    is_training: bool = False
    masks: Mapping[str, Any] = field(default_factory=dict)
    """What dropout multiplies by, where it is given."""
    key: Any = None
    """Of the random numbers of dropout, where the framework has such keys."""
    running: dict[str, Any] = field(default_factory=dict)
    """The running values after this pass; nothing is assigned here."""

    def run(self, table: LayerTable, images: Any, scope: OpenScope) -> Any:
        return evaluate(self.network, images, scope, lambda layer, *inputs: table[layer.kind](self, layer, *inputs))

    def of(self, layer: Layer, part: str) -> Any:
        """One of a layer's weights."""
        return self.weights[f"{layer.name}.{part}"]

    def follow(self, layer: Layer, part: str, value: Any) -> None:
        """Move a running value towards that of this batch."""
        self.running[f"{layer.name}.{part}"] = KEPT * self.of(layer, part) + (1 - KEPT) * value


def evaluate(network: Network, images: Any, scope: OpenScope, call: Callable[..., Any]) -> Any:
    """The last layer's value; `call(layer, *inputs)` is made under the scope of the layer's name. Others are dropped
    after their last use."""
    last_reader = {name: layer.name for layer in network.layers for name in layer.inputs}
    values = {IMAGES: images}
    del images
    for layer in network.layers:
        with scope(layer.name):
            values[layer.name] = call(layer, *[values[name] for name in layer.inputs])
        for name in set(layer.inputs):
            if last_reader[name] == layer.name:
                del values[name]
    return values[network.layers[-1].name]
