"""Steps of a Keras model over each backend: Keras' documented custom loops, compiled where the backend compiles.

Imports keras: opened by the builder only. `fit` would add metrics and a running mean of the loss to every step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from keras import ops

from profkit.frameworks.adapter import Array
from profkit.frameworks.jax.operators import CompileTimes
from profkit.frameworks.keras.layers import FIRST, LAST, GivenMasks
from profkit.frameworks.keras.model import (
    build_model,
    loss_function,
    named_variables,
    optimiser,
    set_numbers,
    slots_of,
)
from profkit.frameworks.keras.networks import TENSORFLOW_XLA
from profkit.frameworks.keras.operators import JAX, TORCH
from profkit.frameworks.lazy import Tensor, jax, tf, torch
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.frameworks.networks.nhwc import images_to_nhwc, masks_to_nhwc, weights_from_nhwc, weights_to_nhwc
from profkit.frameworks.networks.optimisers import Numbers, StepNumbers
from profkit.ops.networks.layer import LRN
from profkit.ops.networks.network import Network

Masks = Mapping[str, Tensor]
Batch = tuple[Tensor, Tensor, Masks]


def build(network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
    if conditions.mode == TORCH:
        return OverTorch(network, weights, conditions)
    if conditions.mode == JAX:
        return OverJax(network, weights, conditions)
    if conditions.mode == TENSORFLOW_XLA:
        return OverTensorflowXla(network, weights, conditions)
    return OverTensorflow(network, weights, conditions)


class _OverBackend(BuiltNetwork):
    """What the backends share: the keras model, its weights in and out, and images as NHWC."""

    data_format = LAST
    backend_note = ""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        self.network = network
        self._training = conditions.training
        self._masks = GivenMasks()
        self.model = self.keras_model = build_model(network, self._training, self.data_format, self._masks)
        self.variables = named_variables(self.keras_model, network)
        """By our names."""
        for name, array in self.to_keras_layout(weights).items():
            self.variables[name].assign(array)
        self.loss = loss_function(network)
        self.optimiser = optimiser(self._training)
        self.optimiser.build(self.keras_model.trainable_variables)
        self.notes: Sequence[str] = self._notes(conditions.is_training)
        self.batch: Batch | None = None
        self.numbers = StepNumbers(self._training)
        self._names = {id(variable): name for name, variable in self.variables.items()}

    @property
    def held_bytes(self) -> int:
        held = [*self.variables.values(), *(each for each, _ in self.slots())]
        return sum(4 * math.prod(variable.shape) for variable in held)

    def layer_of(self, variable: Any) -> str:
        return self._names[id(variable)].rpartition(".")[0]

    def slots(self) -> list[tuple[Any, Any]]:
        """What the optimiser keeps, each with the variable that it belongs to."""
        variables = self.keras_model.trainable_variables
        return [(slot, variable) for variable in variables for slot in slots_of(self.optimiser, variable)]

    def to_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return weights_to_nhwc(self.network, weights)

    def from_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return weights_from_nhwc(self.network, weights)

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Batch:
        given = masks or {}
        if self.data_format == LAST:
            images, given = images_to_nhwc(images), masks_to_nhwc(self.network, given)
        tensors = {name: ops.convert_to_tensor(mask) for name, mask in given.items()}
        self.batch = ops.convert_to_tensor(images), ops.convert_to_tensor(labels), tensors
        return self.batch

    def _last_batch(self) -> Batch:
        if self.batch is None:
            raise RuntimeError("there is no batch yet: put() comes first")
        return self.batch

    def to_numpy(self, result: Tensor) -> Array:
        array: Array = ops.convert_to_numpy(result)
        return array

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self.numbers.rates = learning_rate, momentum

    def weights(self) -> dict[str, Array]:
        return self.from_keras_layout(
            {name: ops.convert_to_numpy(variable) for name, variable in self.variables.items()}
        )  # fmt: skip

    def _named(self, values: Sequence[Tensor]) -> dict[str, Array]:
        """Of the trainable variables, in their order."""
        names = [self._names[id(variable)] for variable in self.keras_model.trainable_variables]
        return self.from_keras_layout({name: ops.convert_to_numpy(value) for name, value in zip(names, values)})

    def set_numbers(self, numbers: Numbers) -> None:
        set_numbers(self.optimiser, self._training, numbers or self.numbers.constant)

    def outputs(self, images: Tensor, masks: Masks) -> Tensor:
        """In training."""
        self._masks.by_name = masks
        return self.keras_model(images, training=True)

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
        options = {"autograph": False, "jit_compile": self.is_compiled}
        self._infer = tf.function(lambda images: self.keras_model(images, training=False), **options)
        self._train = tf.function(self._train_step, **options)

    def infer(self, batch: Batch) -> Tensor:
        """A graph on a CPU returns when its result exists."""
        return self._infer(batch[0])

    def train(self, batch: Batch) -> Tensor:
        return self._train(*batch, _tensors(self.numbers.next()))

    def gradients(self, batch: Batch) -> dict[str, Array]:
        """Of the loss alone, run eagerly; the running values of batch normalisations are put back."""
        images, labels, masks = batch
        before = [(each, ops.convert_to_numpy(each)) for each in self.keras_model.non_trainable_variables]
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.outputs(images, masks))
        found = tape.gradient(loss, [each.value for each in self.keras_model.trainable_variables])
        for variable, value in before:
            variable.assign(value)
        return self._named(found)

    def graph(self, is_training: bool) -> Any:
        """What a step was traced into, as it was before TensorFlow optimised it; `put` must have been called."""
        step, arguments = self._call(is_training)
        return step.get_concrete_function(*arguments).graph

    def _call(self, is_training: bool) -> tuple[Any, tuple[Any, ...]]:
        """The function of a step, and what it is called with."""
        batch = self._last_batch()
        return (self._train, (*batch, _tensors(self.numbers.now()))) if is_training else (self._infer, batch[:1])

    def _train_step(self, images: Tensor, labels: Tensor, masks: Masks, numbers: Numbers) -> Tensor:
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self.outputs(images, masks))
            total = self.total(loss)
        variables = self.keras_model.trainable_variables
        self.set_numbers(numbers)
        # That of an embedding has a row per index: Keras' Adam would square those of one word before it adds them.
        gradients = [tf.convert_to_tensor(each) for each in tape.gradient(total, variables)]
        self.optimiser.apply(gradients, variables)
        return loss


def _tensors(numbers: Numbers) -> dict[str, Tensor]:
    """As arguments of a tf.function: a number would be traced as a constant."""
    return {name: tf.constant(number) for name, number in numbers.items()}


class OverTensorflowXla(OverTensorflow):
    backend_note = "a tf.function compiled by XLA, as Model.fit does on this backend unless jit_compile=False is given"
    is_compiled = True

    def compiled_text(self, is_training: bool) -> str:
        """What XLA made of a step (it compiles it once more for that); `put` must have been called."""
        step, arguments = self._call(is_training)
        return str(step.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo"))


class OverTorch(_OverBackend):
    """Eager, images as NCHW: channels_last over torch would transpose around every layer."""

    data_format = FIRST
    backend_note = "eager, as Model.fit runs it on this backend; images are NCHW (channels_first)"

    def to_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return {name: array.transpose(2, 3, 1, 0) if array.ndim == 4 else array for name, array in weights.items()}

    def from_keras_layout(self, weights: Mapping[str, Array]) -> dict[str, Array]:
        return {
            name: np.ascontiguousarray(array.transpose(3, 2, 0, 1)) if array.ndim == 4 else array.copy()
            for name, array in weights.items()
        }

    def infer(self, batch: Batch) -> Tensor:
        """As predict_on_batch does: no autograd."""
        with torch.no_grad():
            return self.keras_model(batch[0], training=False)

    def train(self, batch: Batch) -> Tensor:
        images, labels, masks = batch
        loss = self.loss(labels, self.outputs(images, masks))
        self.keras_model.zero_grad()
        self.total(loss).backward()
        variables = self.keras_model.trainable_variables
        self.set_numbers({name: float(number) for name, number in self.numbers.next().items()})
        with torch.no_grad():
            self.optimiser.apply([each.value.grad for each in variables], variables)
        return loss

    def gradients(self, batch: Batch) -> dict[str, Array]:
        """Of the loss alone; the running values of batch normalisations are put back."""
        images, labels, masks = batch
        before = [(each, each.value.clone()) for each in self.keras_model.non_trainable_variables]
        loss = self.loss(labels, self.outputs(images, masks))
        found = torch.autograd.grad(loss, [each.value for each in self.keras_model.trainable_variables])
        for variable, value in before:
            variable.assign(value)
        return self._named(found)


class OverJax(_OverBackend):
    """Stateless calls in jax.jit; the state is kept here, as Model.fit keeps it during an epoch."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        super().__init__(network, weights, conditions)
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
        self._differentiate = jax.jit(self._gradient_step)

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Batch:
        # JAX has no 64-bit numbers unless they are switched on.
        images, labels = (each.astype(np.int32) if each.dtype == np.int64 else each for each in (images, labels))
        return super().put(images, labels, masks)

    def infer(self, batch: Batch) -> Tensor:
        return self._infer(*self._state[:2], batch[0]).block_until_ready()

    def train(self, batch: Batch) -> Tensor:
        loss, self._state = self._train(self._state, self.numbers.next(), *batch)
        return loss.block_until_ready()

    def gradients(self, batch: Batch) -> dict[str, Array]:
        return self._named(self._differentiate(*self._state[:2], *batch))

    def weights(self) -> dict[str, Array]:
        model = self.keras_model
        pairs = zip([*model.trainable_variables, *model.non_trainable_variables], [*self._state[0], *self._state[1]])
        found = {self._names[id(each)]: np.asarray(value) for each, value in pairs if id(each) in self._names}
        return self.from_keras_layout({name: found[name] for name in self.variables})

    def compiled(self, is_training: bool) -> Any:
        """What XLA made of a step; `put` must have been called."""
        batch = self._last_batch()
        if is_training:
            return self._train.lower(self._state, self.numbers.now(), *batch).compile()
        return self._infer.lower(*self._state[:2], batch[0]).compile()

    def _predict_step(self, trainable: list[Tensor], others: list[Tensor], images: Tensor) -> Tensor:
        return self.keras_model.stateless_call(trainable, others, images, training=False)[0]

    def _train_step(
        self, state: tuple[list[Tensor], ...], numbers: Numbers, images: Tensor, labels: Tensor, masks: Masks
    ) -> tuple[Tensor, Any]:
        trainable, others, held = state
        gradients, (loss, others) = jax.grad(self._loss_of, has_aux=True)(trainable, others, images, labels, masks)
        self.set_numbers(numbers)
        trainable, held = self.optimiser.stateless_apply(held, gradients, trainable)
        return loss, (trainable, others, held)

    def _gradient_step(
        self, trainable: list[Tensor], others: list[Tensor], images: Tensor, labels: Tensor, masks: Masks
    ) -> list[Tensor]:
        """Of the loss alone."""
        gradients: list[Tensor] = jax.grad(lambda *arguments: self._loss_of(*arguments)[1][0])(
            trainable, others, images, labels, masks
        )
        return gradients

    def _loss_of(
        self, trainable: list[Tensor], others: list[Tensor], images: Tensor, labels: Tensor, masks: Masks
    ) -> Any:
        """With what the decay adds; beside it the loss alone and the new running values."""
        self._masks.by_name = masks
        output, others, decays = self.keras_model.stateless_call(
            trainable, others, images, training=True, return_losses=True
        )
        loss = self.loss(labels, output)
        return sum(decays, loss), (loss, others)
