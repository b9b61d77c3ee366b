"""What a network needs to have in memory at once, by formula; frameworks add their workspaces and pools."""

from __future__ import annotations

import math
from dataclasses import dataclass

from profkit.ops.lstm import Lstm
from profkit.ops.networks.layer import DROPOUT, FLATTEN, IMAGES, Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training

FLOAT_BYTES, INDEX_BYTES = 4, 8


@dataclass(frozen=True)
class NetworkMemory:
    """Bytes, in float32."""

    weights: int
    """With the running statistics."""
    gradients: int
    optimiser: int
    activations: int
    """Training keeps every layer's result for the way back, of an LSTM that of every step, and the masks of dropout;
    inference what a later layer still takes. Both with the batch itself; flatten is a view."""

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimiser + self.activations


def network_memory(network: Network, training: Training | None = None) -> NetworkMemory:
    """Of a step of inference; with `training`, of a training step."""
    weights = FLOAT_BYTES * sum(map(math.prod, network.weight_shapes().values()))
    parameters = FLOAT_BYTES * network.parameter_count()
    if training is None:
        return NetworkMemory(weights, 0, 0, _live_bytes(network))
    states = len(training.step_spec(1).state_names)
    return NetworkMemory(weights, parameters, states * parameters, _kept_bytes(network))


def _input_bytes(network: Network) -> int:
    return math.prod(network.input_shape()) * (INDEX_BYTES if network.vocabulary else FLOAT_BYTES)


def _kept_bytes(network: Network) -> int:
    return _input_bytes(network) + FLOAT_BYTES * sum(map(_kept_elements, network.layers))


def _kept_elements(layer: Layer) -> int:
    if layer.kind == FLATTEN:
        return 0
    size, spec = math.prod(layer.output_shape), layer.spec
    if isinstance(spec, Lstm) and not spec.returns_sequence:
        # The least: frameworks that keep gates and states too, and do not make them again, have six times that.
        return size + spec.batch * spec.steps * spec.cells
    return 2 * size if layer.kind == DROPOUT else size


def _live_bytes(network: Network) -> int:
    """The most at any layer: its inputs, its result, and what later layers still take."""
    last = {source: place for place, layer in enumerate(network.layers) for source in layer.inputs}
    live = {IMAGES: _input_bytes(network)}
    most = live[IMAGES]
    for place, layer in enumerate(network.layers):
        changes_nothing = layer.kind in (FLATTEN, DROPOUT)
        live[layer.name] = FLOAT_BYTES * math.prod(layer.output_shape)
        source_bytes = live[layer.inputs[0]] if changes_nothing else 0
        most = max(most, sum(live.values()) - source_bytes)
        live = {name: size for name, size in live.items() if name == IMAGES or last.get(name, place + 1) > place}
    return most
