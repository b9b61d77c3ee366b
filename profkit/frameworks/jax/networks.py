"""JAX on CPU: the network as one jitted function, its training as one jitted step; images are held as NHWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from profkit.frameworks.adapter import Array, require
from profkit.frameworks.jax.model import LAYERS, Tensors, first_slots, loss_of, updated
from profkit.frameworks.jax.operators import ENVIRONMENT, CompileTimes, jax_facts
from profkit.frameworks.lazy import Tensor, jax
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.graph import Evaluation
from profkit.frameworks.networks.nhwc import (
    images_to_nhwc,
    masks_to_nhwc,
    refuse_order,
    weights_from_nhwc,
    weights_to_nhwc,
)
from profkit.frameworks.networks.optimisers import ALL_OPTIMIZERS, Numbers, StepNumbers
from profkit.ops.networks.layer import BATCH_NORM, DROPOUT, LAYER_KINDS, LAYER_NORM, LRN, LSTM
from profkit.ops.networks.network import Network

JIT = "jit"


class Batch(NamedTuple):
    images: Tensor
    labels: Tensor
    masks: Tensors


class BuiltJax(BuiltNetwork):
    """A network as jitted functions over one state (weights, running values, the optimiser's slots, dropout's key)."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        self.model = self
        self.notes: Sequence[str] = _notes(network)
        self.compile_times = CompileTimes()
        self._network = network
        self._training = conditions.training
        self._numbers = StepNumbers(conditions.training)
        held = {name: jax.device_put(array) for name, array in weights_to_nhwc(network, weights).items()}
        parameters = {name: held[name] for name in network.parameter_shapes()}
        self._state: dict[str, Any] = {
            "weights": parameters,
            "running": {name: held[name] for name in network.state_shapes()},
            "slots": first_slots(conditions.training, parameters),
            "key": jax.random.key(0) if any(layer.kind == DROPOUT for layer in network.layers) else None,
        }
        self._batch: Batch | None = None
        self._infer = jax.jit(self._infer_step)
        # The old state is given away, as training loops do: the new one may take its memory.
        self._train = jax.jit(self._train_step, donate_argnums=0)
        self._differentiate = jax.jit(self._gradient_step)

    @property
    def held_bytes(self) -> int:
        held = jax.tree.leaves([self._state["weights"], self._state["running"], self._state["slots"]])
        return sum(int(each.nbytes) for each in held)

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Batch:
        # JAX has no 64-bit numbers unless they are switched on.
        images, labels = (each.astype(np.int32) if each.dtype == np.int64 else each for each in (images, labels))
        given = masks_to_nhwc(self._network, masks or {})
        self._batch = Batch(*jax.device_put((images_to_nhwc(images), labels, given)))
        return self._batch

    def infer(self, batch: Batch) -> Tensor:
        return self._infer(self._state["weights"], self._state["running"], batch.images).block_until_ready()

    def train(self, batch: Batch) -> Tensor:
        loss, self._state = self._train(self._state, self._numbers.next(), batch)
        # All parts of a result become ready together: one execution makes them.
        return loss.block_until_ready()

    def gradients(self, batch: Batch) -> dict[str, Array]:
        held = {name: np.asarray(array) for name, array in self._differentiate(self._state, batch).items()}
        return weights_from_nhwc(self._network, held)

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self._numbers.rates = learning_rate, momentum

    def weights(self) -> dict[str, Array]:
        held = {**self._state["weights"], **self._state["running"]}
        return weights_from_nhwc(self._network, {name: np.asarray(array) for name, array in held.items()})

    def compiled(self, is_training: bool) -> Any:
        """What XLA made of a step (a jax.stages.Compiled), from JAX's own cache; `put` must have been called."""
        assert self._batch is not None
        if is_training:
            return self._train.lower(self._state, self._numbers.now(), self._batch).compile()
        return self._infer.lower(self._state["weights"], self._state["running"], self._batch.images).compile()

    def _infer_step(self, weights: Tensors, running: Tensors, images: Tensor) -> Tensor:
        return Evaluation(self._network, {**weights, **running}).run(LAYERS, images, jax.named_scope)

    def _train_step(self, state: dict[str, Any], numbers: Numbers, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        new_key, key = (None, None) if state["key"] is None else jax.random.split(state["key"])
        (loss, running), gradients = self._with_gradients(state, key, batch)
        weights, slots = updated(
            self._network,
            self._training,
            numbers or self._numbers.constant,
            state["weights"],
            state["slots"],
            gradients,
        )
        return loss, {"weights": weights, "running": running, "slots": slots, "key": new_key}

    def _gradient_step(self, state: dict[str, Any], batch: Batch) -> Tensors:
        gradients: Tensors = self._with_gradients(state, state["key"], batch)[1]
        return gradients

    def _with_gradients(self, state: dict[str, Any], key: Any, batch: Batch) -> Any:
        function = jax.value_and_grad(loss_of, has_aux=True)
        return function(state["weights"], state["running"], self._network, batch.images, batch.labels, key, batch.masks)


def _notes(network: Network) -> list[str]:
    notes = []
    if len(network.input_shape()) == 4:
        notes.append(
            "JAX holds images as NHWC, the order of XLA's CPU convolutions; weights are transposed once, at build"
        )
    if any(layer.kind == LRN for layer in network.layers):
        notes.append("JAX has no LRN: reduce_window over the channels, a power and a division")
    return notes


class JaxBuilder(NetworkBuilder):
    """jit only: op by op, JAX compiles each primitive for itself and its instructions carry no layer's name."""

    name = "jax"
    modes = (JIT,)
    kinds = LAYER_KINDS
    composed = (BATCH_NORM, LAYER_NORM, LRN, LSTM)
    optimizers = ALL_OPTIMIZERS
    has_schedules = True

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        return refuse_order(network)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        return {name: value for name, value in ENVIRONMENT.items() if name != "JAX_ENABLE_X64"}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        require(self.is_available())
        return jax_facts()

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltJax:
        return BuiltJax(network, weights, conditions)


BUILDER = JaxBuilder()
