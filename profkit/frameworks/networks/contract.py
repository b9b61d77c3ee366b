"""The contract of a framework that runs whole networks. Worker side: standard library and NumPy 1.23 only.

A builder turns a Network and its weights into the framework's own model; what it leaves runs one step at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array, Availability, find_module
from profkit.ops.networks.layer import CONV2D, DENSE, DROPOUT, FLATTEN, IMAGES, LRN, POOL2D
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import SGD
from profkit.ops.pool2d import MAX


@dataclass(frozen=True)
class NetworkConditions:
    """How a network is to run."""

    threads: int = 1
    mode: str = ""
    """One of the builder's modes (`graph`, `eager`, `compile`, ...)."""
    is_training: bool = False
    training: Training = field(default_factory=Training)


@dataclass(frozen=True)
class Allocations:
    """What a framework's allocator gave out (bytes above 0) and took back (below 0), in order of time."""

    time_ns: Array
    """On the clock of time.perf_counter_ns."""
    bytes: Array
    block: Array
    """Blocks are numbered in the order in which they are given out."""
    where: Array
    """What ran then, as a place in `names`."""
    names: Sequence[str]


class BuiltNetwork:
    """A network in a framework, ready to run. One model serves inference, or inference and training."""

    model: Any
    """The framework's own objects, for the event source of the same framework."""
    notes: Sequence[str]
    """Fairness footnotes: layout held, padding done by a separate operator, weights prepacked, ..."""
    no_training = "this network was built for inference only"
    """Why `train` is refused where it is not written."""

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Any:
        """A batch in the framework's own form (converted, copied to the device); never timed.

        Images are float32 as Network.input_shape says, or int64 indices (Network.vocabulary); labels int64 [batch] for
        cross entropy, otherwise float32 [batch, outputs]. With masks, by the names of the dropout layers, training
        multiplies by them; without, by random ones of the framework's own.
        """
        raise NotImplementedError

    def infer(self, batch: Any) -> Any:
        """One forward pass, run to completion (asynchronous frameworks wait inside); the framework's own result."""
        raise NotImplementedError

    def train(self, batch: Any) -> Any:
        """One step: forward, backward, optimiser; run to completion. UnsupportedError where the framework cannot."""
        raise UnsupportedError(self.no_training)

    def gradients(self, batch: Any) -> dict[str, Array]:
        """Of the loss, without decay, by every parameter; the weights stay as they are. For checks, never timed."""
        raise UnsupportedError("gradients cannot be read here")

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        """Of the steps from now on; only called where the Training has a schedule."""
        raise UnsupportedError("the learning rate cannot change here: take --schedule constant")

    def to_numpy(self, result: Any) -> Array:
        """What `infer` returned as float32 [batch, outputs]; what `train` returned as the loss, a scalar array."""
        return np.asarray(result)

    def weights(self) -> dict[str, Array]:
        """Parameters and states as they are now, under the names and in the shapes of Network.weight_shapes."""
        raise NotImplementedError


class NetworkBuilder:
    """One framework; `profkit/frameworks/<name>/networks.py` has one as BUILDER."""

    name: str
    modes: Sequence[str]
    """Ways to run it, the usual one first; at least one."""
    kinds: Collection[str] | None = None
    """Of the layers that it builds, in any graph; None: chains of CHAIN_KINDS only."""
    composed: Collection[str] = ()
    """Of its kinds, those that it puts together from several operators, forward."""
    by_numpy: Collection[str] = ()
    """Of its kinds, those for which it has no operator of its own: one call of NumPy."""
    optimizers: Sequence[str] = (SGD,)
    """Which of sgd, nesterov, adam and rmsprop it trains with, each as Training defines it."""
    has_schedules = False
    """Whether its networks have `set_rates`."""

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

    def record_allocations(self, run: Callable[[], None]) -> Allocations | None:
        """In the worker: run it, and tell what the allocator did meanwhile; None where the framework does not tell."""
        run()
        return None


NESTEROV = "nesterov"
CHAIN_KINDS = (CONV2D, DENSE, POOL2D, LRN, FLATTEN, DROPOUT)
"""What a builder builds that knows chains of layers only."""


def refuse_layers(network: Network, framework: str, kinds: Collection[str] | None = None) -> str:
    """The reason against a network with a layer of none of these kinds; empty when there is none.

    Without kinds: that it is no chain, or has other layers or pooling than the chains of CHAIN_KINDS.
    """
    previous = IMAGES
    for layer in network.layers:
        if layer.kind not in (CHAIN_KINDS if kinds is None else kinds):
            return f"{framework} builds no {layer.kind} layers, and {layer.name} is one"
        if kinds is None and layer.inputs != (previous,):
            return f"{framework} builds chains only, and {layer.name} takes {', '.join(layer.inputs)}"
        spec: Any = layer.spec
        if kinds is None and layer.kind == POOL2D and spec.mode != MAX:
            return f"{framework} builds max pooling only, and {layer.name} has {spec.mode}"
        if kinds is None and layer.kind in (CONV2D, DENSE) and not spec.bias:
            return f"{framework} builds layers with a bias, and {layer.name} has none"
        previous = layer.name
    return ""


def reason_against(builder: NetworkBuilder, network: Network, conditions: NetworkConditions) -> str:
    """Why a framework cannot run this network so; empty when it can."""
    if conditions.is_training and network.no_training:
        return network.no_training
    reason = refuse_layers(network, builder.name, builder.kinds)
    if conditions.is_training and builder.kinds is None and any(layer.kind == DROPOUT for layer in network.layers):
        reason = f"{builder.name} takes no masks of dropout, without which its step cannot be checked"
    reason = reason or builder.supports(network, conditions)
    return reason or (_refuse_training(conditions.training, builder) if conditions.is_training else "")


def _refuse_training(training: Training, builder: NetworkBuilder) -> str:
    way = NESTEROV if training.nesterov else training.optimizer
    if way not in builder.optimizers:
        return f"{builder.name} trains with {', '.join(builder.optimizers) or 'nothing'} here, not {way}"
    return ""
