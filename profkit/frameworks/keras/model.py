"""A network as a functional Keras model, its loss and its optimiser. Imports keras: opened by the builder only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import keras
from keras import ops

from profkit.errors import UnsupportedError
from profkit.frameworks.keras.layers import LAST, GivenMasks, Making
from profkit.frameworks.keras.operators import JAX
from profkit.frameworks.lazy import Tensor
from profkit.frameworks.networks.graph import evaluate
from profkit.frameworks.networks.optimisers import Numbers, change, slot_names
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, SGD

_PARTS = {
    "kernel": "w",
    "embeddings": "w",
    "recurrent_kernel": "u",
    "bias": "b",
    "gamma": "scale",
    "beta": "shift",
    "moving_mean": "mean",
    "moving_variance": "variance",
}


def build_model(network: Network, training: Training, data_format: str, masks: GivenMasks) -> keras.Model:
    shape = network.input_shape()[1:]
    is_last = len(shape) == 3 and data_format == LAST
    index = "int32" if keras.backend.backend() == JAX else "int64"  # as `put` leaves them: else each step would cast
    images = keras.Input((*shape[1:], shape[0]) if is_last else shape, dtype=index if network.vocabulary else "float32")
    making = Making(training, data_format, masks)
    output = evaluate(
        network, images, lambda _: nullcontext(), lambda layer, *inputs: making.layer(layer)(*inputs)
    )  # fmt: skip
    return keras.Model(images, output, name="network")


def named_variables(model: keras.Model, network: Network) -> dict[str, keras.Variable]:
    """Parameters and running values by our names."""
    found = {
        f"{layer.name}.{_PARTS[variable.path.rpartition('/')[2]]}": variable
        for layer in network.layers
        for variable in model.get_layer(layer.name).weights
    }
    expected = network.weight_shapes()
    if found.keys() != expected.keys():
        raise UnsupportedError(f"keras has the parameters {list(found)}, expected {list(expected)}")
    return {name: found[name] for name in expected}


_LOSSES = {
    CROSS_ENTROPY: lambda: keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    SQUARED_ERROR: keras.losses.MeanSquaredError,
    BINARY_CROSS_ENTROPY: lambda: keras.losses.BinaryCrossentropy(from_logits=True),
}


def loss_function(network: Network) -> keras.losses.Loss:
    """Of logits or values; a mean over the batch."""
    return _LOSSES[network.loss]()


class _Declared(keras.optimizers.Optimizer):  # type: ignore[misc]
    """An optimiser by our formulas, for what Keras defines in another way; docs/sources/keras.md says what."""

    def __init__(self, training: Training) -> None:
        super().__init__(training.learning_rate, name=training.optimizer)
        self._training = training
        self._numbers: Numbers = {}

    def build(self, variables: Sequence[keras.Variable]) -> None:
        super().build(variables)
        self._slots = [self.add_optimizer_variables(variables, name) for name in slot_names(self._training)]

    def update_step(self, gradient: Tensor, variable: keras.Variable, learning_rate: Tensor) -> None:
        slots = [each[self._get_variable_index(variable)] for each in self._slots]
        held = tuple(ops.convert_to_tensor(slot) for slot in slots)
        step, kept = change(self._training, self._numbers, gradient, held, ops.sqrt)
        for slot, value in zip(slots, kept):
            self.assign(slot, value)
        self.assign_sub(variable, step)


def optimiser(training: Training) -> keras.optimizers.Optimizer:
    """Keras' own where it computes what is declared: SGD of a constant rate, and Adam."""
    if training.is_constant and training.optimizer == SGD:
        return keras.optimizers.SGD(training.learning_rate, float(training.momentum), training.nesterov)
    if training.is_constant and training.optimizer == ADAM:
        return keras.optimizers.Adam(training.learning_rate, training.beta1, training.beta2, training.epsilon)
    return _Declared(training)


def set_numbers(held: keras.optimizers.Optimizer, training: Training, numbers: Numbers) -> None:
    """Give an optimiser the numbers of a step, before it is applied."""
    if isinstance(held, _Declared):
        held._numbers = numbers
    elif "square_share" in numbers:
        # Keras adds epsilon before it divides by the root of this share.
        held.epsilon = training.epsilon * numbers["square_share"] ** 0.5


def slots_of(held: keras.optimizers.Optimizer, variable: keras.Variable) -> list[keras.Variable]:
    """What an optimiser keeps of a variable: Keras names it after the variable's path."""
    start = variable.path.replace("/", "_") + "_"
    return [each for each in held.variables if each.name.startswith(start) and each.shape == variable.shape]
