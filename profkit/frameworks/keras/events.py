"""Keras' event source: that of the backend below, with Keras' own names of layers, gradients and the optimiser."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.capture.schema import Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.jax.events import PASS as JAX_PASS
from profkit.frameworks.jax.events import record_jax
from profkit.frameworks.jax.placement import scope_reader
from profkit.frameworks.keras.names import OPTIMISER_SCOPE
from profkit.frameworks.keras.networks import TENSORFLOW_XLA
from profkit.frameworks.keras.operators import JAX, TORCH
from profkit.frameworks.keras.tensorflow import (
    record_tensorflow_memory,
    record_tensorflow_time,
    record_tensorflow_xla,
)
from profkit.frameworks.keras.torch import record_torch, torch_passes
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.events import BFC_NOTE

XLA_NOTE = "TensorFlow does not tell what memory XLA planned for a compiled function: bytes are unknown"


class KerasSource:
    """Follows Source."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Those of the backend."""
        if conditions.mode == JAX:
            return (JAX_PASS,)
        if conditions.mode == TENSORFLOW_XLA:
            return (Pass(TIME, (TIME,), note=XLA_NOTE),)
        if conditions.mode == TORCH:
            return torch_passes(conditions)
        return Pass(TIME, (TIME,)), Pass(MEMORY, (MEMORY,), {"TF_CPU_ALLOCATOR_USE_BFC": "1"}, BFC_NOTE)

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run the steps under this pass."""
        if watched.conditions.mode == JAX:
            layers = [layer.name for layer in watched.network.layers]
            return record_jax(watched, steps, scope_reader(layers, OPTIMISER_SCOPE, strip=True), "keras")
        if watched.conditions.mode == TENSORFLOW_XLA:
            return record_tensorflow_xla(watched, steps)
        if watched.conditions.mode == TORCH:
            return record_torch(watched, name, steps)
        return (record_tensorflow_time if name == TIME else record_tensorflow_memory)(watched, steps)


SOURCE = KerasSource()
