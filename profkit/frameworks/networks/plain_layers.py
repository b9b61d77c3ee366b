"""Networks layer by layer, on the kernels that a library has: what native, numpy, numba and cupy run.

A library's kernels enter as `Kernels`; what they lack is done with array expressions, and each Operation names who
does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Adapter, Availability, Conditions
from profkit.frameworks.networks.array_training import StepNumbers
from profkit.frameworks.networks.contract import NESTEROV, NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.kernels import Kernels
from profkit.frameworks.networks.layer_plan import LOSS, LayerPlan
from profkit.frameworks.networks.layer_program import (
    HOST,
    ArrayDevice,
    BuiltProgram,
    LayerProgram,
    TrainingPrograms,
    gradient,
    state_names,
)
from profkit.ops import MatMul
from profkit.ops.networks.layer import LAYER_KINDS
from profkit.ops.networks.network import Network
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD


@dataclass
class LayerBuilder(NetworkBuilder):
    """Runs networks layer by layer, on the kernels of a library that has an adapter for its operators."""

    name: str
    adapter: Adapter
    kernels: Callable[[NetworkConditions], Kernels]
    notes: Sequence[str]
    training_note: str = ""
    device: Callable[[], ArrayDevice] = lambda: HOST
    modes: Sequence[str] = ("eager",)
    kinds: Collection[str] | None = LAYER_KINDS
    composed: Collection[str] = ()
    by_numpy: Collection[str] = ()
    optimizers: Sequence[str] = (SGD, NESTEROV, ADAM, RMSPROP)
    has_schedules = True

    def is_available(self) -> Availability:
        return self.adapter.is_available()

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """As the adapter, which sets the threads."""
        implementation = self.adapter.implementations(MatMul.op)[0]
        return {**self.adapter.start(implementation, Conditions(conditions.threads)), "numpy": np.__version__}

    def build(self, network: Network, weights: Mapping[str, Any], conditions: NetworkConditions) -> BuiltProgram:
        """The layers with copies of the weights, which training may change."""
        device, kernels, names = self.device(), self.kernels(conditions), list(network.weight_shapes())
        held = {name: device.put(np.array(weights[name], np.float32, order="C")) for name in names}
        plan = LayerPlan(network, kernels, is_training=False)
        plan.add_forward()
        inference = LayerProgram(plan.operations, held, network.layers[-1].name)
        if not conditions.is_training:
            return BuiltProgram(inference, held, names, self.notes, device)
        numbers = StepNumbers(kernels.xp, conditions.training)
        for name in network.parameter_shapes():
            held.update((state, kernels.xp.zeros_like(held[name])) for state in state_names(name, conditions.training))

        def gradients() -> LayerProgram:
            plan = LayerPlan(network, kernels, is_training=True)
            plan.add_backward()
            return LayerProgram(plan.operations, held, LOSS, map(gradient, network.parameter_shapes()))

        plan = LayerPlan(network, kernels, is_training=True, numbers=numbers)
        plan.add_backward()
        plan.add_update()
        notes = [*self.notes, *([self.training_note] if self.training_note else [])]
        training = TrainingPrograms(LayerProgram(plan.operations, held, LOSS), gradients, numbers)
        return BuiltProgram(inference, held, names, notes, device, training)
