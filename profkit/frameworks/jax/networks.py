"""JAX on CPU: the network as one jitted function, its training as one jitted step; images are held as NHWC.

Every layer runs under jax.named_scope of its name, so that XLA's instructions tell whose they are.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, require
from profkit.frameworks.jax.operators import ENVIRONMENT, CompileTimes, convolve, jax_facts, normalise, pooling
from profkit.frameworks.networks.contract import NetworkBuilder, NetworkConditions, refuse_layers
from profkit.frameworks.networks.nhwc import images_to_nhwc, weights_from_nhwc, weights_to_nhwc
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, LRN, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import Pool2d

JIT = "jit"
LOSS, OPTIMISER = "loss", "optimiser"
"""Scopes of a training step besides the layers."""
Tensor = Any
Tensors = dict[str, Any]
HELD = "NHWC"


class BuiltJax:
    """A network as two jitted functions over one state (weights, velocities, the key of dropout)."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        jax = importlib.import_module("jax")
        self.model = self
        self.notes: Sequence[str] = _notes(network)
        self.compile_times = CompileTimes()
        self._network = network
        held = weights_to_nhwc(network, weights)
        self._state: dict[str, Any] = {"weights": {name: jax.device_put(array) for name, array in held.items()}}
        if conditions.training.momentum:
            zeros = jax.numpy.zeros_like
            self._state["velocity"] = {name: zeros(array) for name, array in self._state["weights"].items()}
        if any(layer.kind == DROPOUT for layer in network.layers):
            self._state["key"] = jax.random.key(0)
        self._batch: Any = None
        self._infer = jax.jit(_inference(network))
        # The old state is given away, as training loops do: the new one may take its memory.
        self._train = jax.jit(_training_step(network, conditions.training), donate_argnums=0)

    @property
    def held_bytes(self) -> int:
        """Of weights and velocities."""
        held = [*self._state["weights"].values(), *self._state.get("velocity", {}).values()]
        return sum(int(each.nbytes) for each in held)

    def put(self, images: Array, labels: Array) -> tuple[Tensor, Tensor]:
        jax = importlib.import_module("jax")
        if labels.dtype == np.int64:
            labels = labels.astype(np.int32)  # JAX has no 64-bit numbers unless they are switched on
        batch = (jax.device_put(images_to_nhwc(images)), jax.device_put(labels))
        self._batch = batch
        return batch

    def infer(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        return self._infer(self._state["weights"], batch[0]).block_until_ready()

    def train(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        loss, self._state = self._train(self._state, *batch)
        # All parts of a result become ready together: one execution makes them.
        return loss.block_until_ready()

    def to_numpy(self, result: Tensor) -> Array:
        return np.asarray(result)

    def weights(self) -> dict[str, Array]:
        held = {name: np.asarray(array) for name, array in self._state["weights"].items()}
        return weights_from_nhwc(self._network, held)

    def compiled(self, is_training: bool) -> Any:
        """What XLA made of a step (a jax.stages.Compiled), from JAX's own cache; `put` must have been called."""
        if is_training:
            return self._train.lower(self._state, *self._batch).compile()
        return self._infer.lower(self._state["weights"], self._batch[0]).compile()


def _notes(network: Network) -> list[str]:
    notes = []
    if len(network.input_shape()) == 4:
        notes.append(
            "JAX holds images as NHWC, the order of XLA's CPU convolutions; weights are transposed once, at build"
        )
    if any(layer.kind == LRN for layer in network.layers):
        notes.append("JAX has no LRN: reduce_window over the channels, a power and a division")
    return notes


def _inference(network: Network) -> Callable[[Tensors, Tensor], Tensor]:
    def infer(weights: Tensors, images: Tensor) -> Tensor:
        return _forward(network, weights, images, None)

    return infer


def _training_step(
    network: Network, training: Training
) -> Callable[[dict[str, Any], Tensor, Tensor], tuple[Tensor, dict[str, Any]]]:
    jax = importlib.import_module("jax")

    def loss_of(weights: Tensors, images: Tensor, labels: Tensor, key: Any) -> Tensor:
        output = _forward(network, weights, images, key)
        with jax.named_scope(LOSS):
            return _loss(network, output, labels)

    def train_step(state: dict[str, Any], images: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Any]]:
        new = dict(state)
        key = None
        if "key" in state:
            new["key"], key = jax.random.split(state["key"])
        loss, gradients = jax.value_and_grad(loss_of)(state["weights"], images, labels, key)
        with jax.named_scope(OPTIMISER):
            new.update(_updated(network, training, state, gradients))
        return loss, new

    return train_step


def _loss(network: Network, output: Tensor, labels: Tensor) -> Tensor:
    jax = importlib.import_module("jax")
    if network.loss == CROSS_ENTROPY:
        logarithms = jax.nn.log_softmax(output)
        return -jax.numpy.take_along_axis(logarithms, labels[:, None], axis=1).mean()
    return ((output - labels) ** 2).mean()


def _updated(network: Network, training: Training, state: Mapping[str, Any], gradients: Tensors) -> dict[str, Any]:
    """SGD: the new weights and, with momentum, velocities."""
    jax = importlib.import_module("jax")
    weights, velocity = dict(state["weights"]), dict(state.get("velocity", {}))
    for layer in network.layers:
        with jax.named_scope(layer.name):
            for name in layer.parameter_shapes():
                change = gradients[name]
                if training.weight_decay and layer.start.weight_decay and name.endswith(".w"):
                    change = change + layer.start.weight_decay * weights[name]
                if velocity:
                    change = velocity[name] = training.momentum * velocity[name] + change
                weights[name] = weights[name] - training.learning_rate * change
    return {"weights": weights, "velocity": velocity} if velocity else {"weights": weights}


def _forward(network: Network, weights: Tensors, images: Tensor, key: Any) -> Tensor:
    jax = importlib.import_module("jax")
    x = images
    for number, layer in enumerate(network.layers):
        with jax.named_scope(layer.name):
            if layer.kind == DROPOUT:
                x = x if key is None else _dropout(x, layer.rate, jax.random.fold_in(key, number))
            else:
                x = _layer(layer, x, weights)
    return x


def _layer(layer: Layer, x: Tensor, weights: Tensors) -> Tensor:
    jax = importlib.import_module("jax")
    spec = layer.spec
    if isinstance(spec, Conv2d):
        x = convolve(spec.replaced(layout=HELD), x, weights[f"{layer.name}.w"], "HWIO") + weights[f"{layer.name}.b"]
    elif isinstance(spec, MatMul):
        x = x @ weights[f"{layer.name}.w"] + weights[f"{layer.name}.b"]
    elif isinstance(spec, Pool2d):
        x = pooling(spec.replaced(layout=HELD))[0](x)
    elif isinstance(spec, LocalResponseNorm):
        x = normalise(spec.replaced(layout=HELD), x)
    else:
        x = x.reshape(layer.output_shape)
    return jax.nn.relu(x) if layer.activation == "relu" else x


def _dropout(x: Tensor, rate: float, key: Any) -> Tensor:
    jax = importlib.import_module("jax")
    is_kept = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jax.numpy.where(is_kept, x / (1.0 - rate), 0.0)


class JaxBuilder(NetworkBuilder):
    """jit only: op by op, JAX compiles each primitive for itself and its instructions carry no layer's name."""

    name = "jax"
    modes = (JIT,)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        return refuse_layers(network, self.name)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        return {name: value for name, value in ENVIRONMENT.items() if name != "JAX_ENABLE_X64"}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        require(self.is_available())
        return jax_facts()

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltJax:
        return BuiltJax(network, weights, conditions)


BUILDER = JaxBuilder()
