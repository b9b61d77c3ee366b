"""Networks in Keras 3 over its tensorflow, torch and jax backends: a functional model, mostly one mode per backend.

A step is Keras' own custom training loop for the backend (docs/sources/keras.md says why not fit): in a tf.function,
in jax.jit, or eager over torch; over TensorFlow with or without XLA.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array
from profkit.frameworks.keras.operators import JAX, TENSORFLOW, TORCH, open_keras
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.nhwc import refuse_order
from profkit.frameworks.networks.optimisers import ALL_OPTIMIZERS
from profkit.ops.networks.layer import LAYER_KINDS, LRN
from profkit.ops.networks.network import Network

TENSORFLOW_XLA = "tensorflow_xla"
"""The default of Model.fit over TensorFlow: the same graph, compiled."""


def backend_of(mode: str) -> str:
    return TENSORFLOW if mode == TENSORFLOW_XLA else mode


class KerasBuilder(NetworkBuilder):
    """A mode per backend, which `start` selects."""

    name = "keras"
    modes = (TENSORFLOW, TORCH, JAX, TENSORFLOW_XLA)
    kinds = LAYER_KINDS
    composed = (LRN,)
    optimizers = ALL_OPTIMIZERS
    has_schedules = True

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        if backend_of(conditions.mode) == TORCH:
            return ""
        return refuse_order(network)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """The backend is chosen before keras is imported."""
        builder, backend_conditions = _backend(conditions)
        return {"KERAS_BACKEND": backend_of(conditions.mode), **builder.environment(backend_conditions)}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        backend = backend_of(conditions.mode)
        builder, backend_conditions = _backend(conditions)
        try:
            facts = builder.start(backend_conditions)
        except UnavailableError as error:
            raise UnavailableError(f"keras needs its backend {backend}: {error}") from error
        return open_keras(backend, facts)

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        steps = importlib.import_module("profkit.frameworks.keras.steps")
        built: BuiltNetwork = steps.build(network, weights, conditions)
        return built


def _backend(conditions: NetworkConditions) -> tuple[NetworkBuilder, NetworkConditions]:
    """The framework below, and its usual mode."""
    builder = load_builder(backend_of(conditions.mode))
    return builder, replace(conditions, mode=builder.modes[0])


BUILDER = KerasBuilder()
