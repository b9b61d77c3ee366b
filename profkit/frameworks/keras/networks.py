"""Networks in Keras 3 over its tensorflow, torch and jax backends: a Sequential model, mostly one mode per backend.

A step is Keras' own custom training loop for the backend (docs/sources/keras.md says why not fit): in a tf.function,
in jax.jit, or eager over torch; over TensorFlow with or without XLA.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array
from profkit.frameworks.framework import padding_word
from profkit.frameworks.keras.operators import JAX, TENSORFLOW, TORCH, open_keras
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions, refuse_layers
from profkit.ops.conv2d import Conv2d
from profkit.ops.networks.network import Network
from profkit.ops.pool2d import Pool2d

TENSORFLOW_XLA = "tensorflow_xla"
"""What Model.fit does over TensorFlow unless it is told otherwise: the same graph, compiled."""


def backend_of(mode: str) -> str:
    """The framework below."""
    return TENSORFLOW if mode == TENSORFLOW_XLA else mode


class KerasBuilder(NetworkBuilder):
    """A mode per backend; that is asked for in `start`."""

    name = "keras"
    modes = (TENSORFLOW, TORCH, JAX, TENSORFLOW_XLA)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains of layers that Keras has."""
        for layer in network.layers:
            if isinstance(layer.spec, Conv2d | Pool2d) and not padding_word(layer.spec.window):
                return f"Keras' layers pad as same or valid, and {layer.name} pads {layer.spec.window.pads}"
        return refuse_layers(network, self.name)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """The backend is chosen before keras is imported."""
        builder, backend_conditions = _backend(conditions)
        return {"KERAS_BACKEND": backend_of(conditions.mode), **builder.environment(backend_conditions)}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """Import the backend with its threads, then keras over it."""
        backend = backend_of(conditions.mode)
        builder, backend_conditions = _backend(conditions)
        try:
            facts = builder.start(backend_conditions)
        except UnavailableError as error:
            raise UnavailableError(f"keras needs its backend {backend}: {error}") from error
        return open_keras(backend, facts)

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        """The model with these weights and a step in the backend's way."""
        steps = importlib.import_module("profkit.frameworks.keras.steps")
        built: BuiltNetwork = steps.build(network, weights, conditions)
        return built


def _backend(conditions: NetworkConditions) -> tuple[NetworkBuilder, NetworkConditions]:
    """The framework below, and its usual mode."""
    builder = load_builder(backend_of(conditions.mode))
    return builder, replace(conditions, mode=builder.modes[0])


BUILDER = KerasBuilder()
