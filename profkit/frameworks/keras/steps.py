"""Steps of a Keras model over each backend: Keras' documented custom loops, compiled where the backend compiles.

Imports keras: opened by the builder only. `fit` would add metrics and a running mean of the loss to every step.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from profkit.frameworks.adapter import Array
from profkit.frameworks.jax.operators import CompileTimes
from profkit.frameworks.keras.model import (
    FIRST,
    LAST,
    build_model,
    loss_function,
    optimiser,
    parameter_names,
    set_weights,
)
from profkit.frameworks.keras.networks import TENSORFLOW_XLA
from profkit.frameworks.keras.operators import JAX, TORCH
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.frameworks.networks.nhwc import images_to_nhwc, weights_from_nhwc, weights_to_nhwc
from profkit.ops.networks.layer import LRN
from profkit.ops.networks.network import Network

Tensor = Any
Batch = tuple[Tensor, Tensor]


def build(network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
    """The model over the backend that is the mode."""
    if conditions.mode == TORCH:
        return OverTorch(network, weights, conditions)
    if conditions.mode == JAX:
        return OverJax(network, weights, conditions)
    if conditions.mode == TENSORFLOW_XLA:
        return OverTensorflowXla(network, weights, conditions)
    return OverTensorflow(network, weights, conditions)


class _OverBackend:
    """What the backends share: the keras model, its weights in and out, and images as NHWC."""

    data_format = LAST
    backend_note = ""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        training = conditions.training
        self.network = network
        self.keras_model = build_model(network, training, self.data_format)
        set_weights(self.keras_model, network, self.to_keras_layout(weights))
        self.loss = loss_function(network)
        self.optimiser = optimiser(training)
        self.optimiser.build(self.keras_model.trainable_variables)
        self.notes: Sequence[str] = self._notes(conditions.is_training)
        self.batch: Batch | None = None
        self._names = parameter_names(self.keras_model, network)

    @property
    def held_bytes(self) -> int:
        """Of weights and velocities."""
        held = [*self.keras_model.trainable_variables, *self.optimiser.momentums]
        return sum(4 * math.prod(variable.shape) for variable in held)

    def to_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """Weights as Keras holds them."""
        return weights_to_nhwc(self.network, weights)

    def from_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        """The canonical weights."""
        return weights_from_nhwc(self.network, weights)

    def put(self, images: Array, labels: Array) -> Batch:
        """Tensors of the backend."""
        self.batch = ops.convert_to_tensor(self.held(images)), ops.convert_to_tensor(labels)
        return self.batch

    def held(self, images: Array) -> Array:
        """Images in the model's order of dimensions."""
        return images_to_nhwc(images) if self.data_format == LAST else images

    def _last_batch(self) -> Batch:
        if self.batch is None:
            raise RuntimeError("there is no batch yet: put() comes first")
        return self.batch

    def to_numpy(self, result: Tensor) -> Array:
        """Logits or the loss."""
        array: Array = ops.convert_to_numpy(result)
        return array

    def weights(self) -> dict[str, Array]:
        """In canonical shapes."""
        return self._named([ops.convert_to_numpy(each) for each in self.keras_model.trainable_variables])

    def _named(self, values: list[Array]) -> dict[str, Array]:
        return self.from_keras_layout(dict(zip(self._names, values)))

    def total(self, loss: Tensor) -> Tensor:
        """With what the decay of weights adds."""
        return sum(self.keras_model.losses, loss)

    def _notes(self, is_training: bool) -> list[str]:
        notes = [self.backend_note] if self.backend_note else []
        if is_training:
            notes.append("a step is Keras' custom training loop: no metrics, no running mean of the loss as in fit")
        if len(self.network.input_shape()) == 4 and self.data_format == LAST:
            notes.append(
                "Keras holds images as NHWC (channels_last); the first dense layer's rows are permuted at build"
            )
        if any(layer.kind == LRN for layer in self.network.layers):
            notes.append("Keras has no LRN: a layer of keras.ops (squares times a band matrix, power, division)")
        return notes


class OverTensorflow(_OverBackend):
    """In tf.function, as Model.fit runs it with jit_compile=False."""

    backend_note = "a tf.function without XLA; Model.fit would compile with XLA (jit_compile) on this backend"
    is_compiled = False

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        super().__init__(network, weights, conditions)
        tf = importlib.import_module("tensorflow")
        self.model = self.keras_model
        options = {"autograph": False, "jit_compile": self.is_compiled}
        self._infer = tf.function(lambda images: self.keras_model(images, training=False), **options)
        self._train = tf.function(self._train_step, **options)

    def infer(self, batch: Batch) -> Tensor:
        """A graph on a CPU returns when its result exists."""
        return self._infer(batch[0])

    def train(self, batch: Batch) -> Tensor:
        """The loss without decay."""
        return self._train(*batch)

    def graph(self, is_training: bool) -> Any:
        """What a step was traced into, as it was before TensorFlow optimised it; `put` must have been called."""
        images, labels = self._last_batch()
        if is_training:
            return self._train.get_concrete_function(images, labels).graph
        return self._infer.get_concrete_function(images).graph

    def _train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        tf = importlib.import_module("tensorflow")
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.keras_model(images, training=True))
            total = self.total(loss)
        variables = self.keras_model.trainable_variables
        self.optimiser.apply(tape.gradient(total, variables), variables)
        return loss


class OverTensorflowXla(OverTensorflow):
    """The same graph compiled by XLA."""

    backend_note = "a tf.function compiled by XLA, as Model.fit does on this backend unless jit_compile=False is given"
    is_compiled = True

    def compiled_text(self, is_training: bool) -> str:
        """What XLA made of a step (it compiles it once more for that); `put` must have been called."""
        images, labels = self._last_batch()
        make = self._train.experimental_get_compiler_ir if is_training else self._infer.experimental_get_compiler_ir
        return str(make(*((images, labels) if is_training else (images,)))(stage="optimized_hlo"))


class OverTorch(_OverBackend):
    """Eager, images as NCHW: channels_last over torch would transpose around every layer."""

    data_format = FIRST
    backend_note = "eager, as Model.fit runs it on this backend; images are NCHW (channels_first)"

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        super().__init__(network, weights, conditions)
        self.model = self.keras_model

    def to_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array.transpose(2, 3, 1, 0) if array.ndim == 4 else array for name, array in weights.items()}

    def from_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: np.ascontiguousarray(array.transpose(3, 2, 0, 1)) if array.ndim == 4 else array.copy()
            for name, array in weights.items()
        }

    def infer(self, batch: Batch) -> Tensor:
        """As predict_on_batch does: no autograd."""
        with importlib.import_module("torch").no_grad():
            return self.keras_model(batch[0], training=False)

    def train(self, batch: Batch) -> Tensor:
        """The loss without decay."""
        torch = importlib.import_module("torch")
        images, labels = batch
        loss = self.loss(labels, self.keras_model(images, training=True))
        self.keras_model.zero_grad()
        self.total(loss).backward()
        variables = self.keras_model.trainable_variables
        with torch.no_grad():
            self.optimiser.apply([each.value.grad for each in variables], variables)
        return loss


class OverJax(_OverBackend):
    """Stateless calls in jax.jit; the state is kept here, as Model.fit keeps it during an epoch."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        super().__init__(network, weights, conditions)
        jax = importlib.import_module("jax")
        self.model = self
        self.compile_times = CompileTimes()
        self._state = tuple(
            [variable.value for variable in variables]
            for variables in (
                self.keras_model.trainable_variables,
                self.keras_model.non_trainable_variables,
                self.optimiser.variables,
            )
        )
        self._infer = jax.jit(self._predict_step)
        self._train = jax.jit(self._train_step, donate_argnums=0)

    def put(self, images: Array, labels: Array) -> Batch:
        # JAX has no 64-bit numbers unless they are switched on.
        return super().put(images, labels.astype(np.int32) if labels.dtype == np.int64 else labels)

    def infer(self, batch: Batch) -> Tensor:
        """Logits, ready."""
        return self._infer(*self._state[:2], batch[0]).block_until_ready()

    def train(self, batch: Batch) -> Tensor:
        """The loss without decay."""
        loss, self._state = self._train(self._state, *batch)
        return loss.block_until_ready()

    def weights(self) -> dict[str, Array]:
        return self._named([np.asarray(each) for each in self._state[0]])

    def compiled(self, is_training: bool) -> Any:
        """What XLA made of a step; `put` must have been called."""
        images, labels = self._last_batch()
        if is_training:
            return self._train.lower(self._state, images, labels).compile()
        return self._infer.lower(*self._state[:2], images).compile()

    def _predict_step(self, trainable: list[Tensor], others: list[Tensor], images: Tensor) -> Tensor:
        return self.keras_model.stateless_call(trainable, others, images, training=False)[0]

    def _train_step(self, state: tuple[list[Tensor], ...], images: Tensor, labels: Tensor) -> tuple[Tensor, Any]:
        jax = importlib.import_module("jax")
        trainable, others, held = state
        gradients, (loss, others) = jax.grad(self._loss_of, has_aux=True)(trainable, others, images, labels)
        trainable, held = self.optimiser.stateless_apply(held, gradients, trainable)
        return loss, (trainable, others, held)

    def _loss_of(self, trainable: list[Tensor], others: list[Tensor], images: Tensor, labels: Tensor) -> Any:
        output, others, decays = self.keras_model.stateless_call(
            trainable, others, images, training=True, return_losses=True
        )
        loss = self.loss(labels, output)
        return sum(decays, loss), (loss, others)
