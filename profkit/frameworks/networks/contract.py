"""The contract of a framework that runs whole networks. Worker side: standard library and NumPy 1.23 only.

A builder turns a Network and its weights into the framework's own model; what it leaves runs one step at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from profkit.frameworks.adapter import Array, Availability, find_module
from profkit.ops.networks.layer import IMAGES
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import MAX, Pool2d


@dataclass(frozen=True)
class NetworkConditions:
    """How a network is to run."""

    threads: int = 1
    mode: str = ""
    """One of the builder's modes (`graph`, `eager`, `compile`, ...)."""
    is_training: bool = False
    training: Training = field(default_factory=Training)


class BuiltNetwork(Protocol):
    """A network in a framework, ready to run. One model serves inference, or inference and training."""

    model: Any
    """The framework's own objects, for the event source of the same framework."""
    notes: Sequence[str]
    """Fairness footnotes: layout held, padding done by a separate operator, weights prepacked, ..."""

    def put(self, images: Array, labels: Array) -> Any:
        """A batch in the framework's own form (converted, copied to the device); never timed.

        Images are float32 as Network.input_shape says; labels int64 [batch], or float32 [batch, outputs] for
        squared error.
        """
        ...

    def infer(self, batch: Any) -> Any:
        """One forward pass, run to completion (asynchronous frameworks wait inside); the framework's own result."""
        ...

    def train(self, batch: Any) -> Any:
        """One step: forward, backward, SGD; run to completion. UnsupportedError where the framework cannot."""
        ...

    def to_numpy(self, result: Any) -> Array:
        """What `infer` returned as float32 [batch, outputs]; what `train` returned as the loss, a scalar array."""
        ...

    def weights(self) -> dict[str, Array]:
        """The parameters as they are now, under the names and in the shapes of Network.parameter_shapes."""
        ...


class NetworkBuilder:
    """One framework; `profkit/frameworks/<name>/networks.py` has one as BUILDER."""

    name: str
    modes: Sequence[str]
    """Ways to run it, the usual one first; at least one."""

    def is_available(self) -> Availability:
        """A cheap check, without importing the framework."""
        return find_module(self.name, self.name)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Empty when it can run in this mode, otherwise the reason why not."""
        return ""

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """Variables that must be set before the worker's interpreter starts."""
        return {}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """In the worker: import, set threads; returns version and build facts; raises UnavailableError."""
        raise NotImplementedError

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        """In the worker: the model with these weights. Compilation may wait for the first step."""
        raise NotImplementedError


def refuse_layers(network: Network, framework: str) -> str:
    """The reason against a network that is not a chain of layers, or has other pooling than the maximum."""
    previous = IMAGES
    for layer in network.layers:
        if layer.inputs != (previous,):
            return f"{framework} builds chains only, and {layer.name} takes {', '.join(layer.inputs)}"
        if isinstance(layer.spec, Pool2d) and layer.spec.mode != MAX:
            return f"{framework} builds max pooling only, and {layer.name} has {layer.spec.mode}"
        previous = layer.name
    return ""
