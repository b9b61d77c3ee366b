"""Networks on profkit's Numba kernels, layer by layer; gradients that they lack are NumPy's, and are named so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import BuiltProgram
from profkit.frameworks.networks.plain_layers import FillingKernels, build_layers, parameters_of, refusal
from profkit.frameworks.numba import operators
from profkit.ops.networks.network import Network

NOTES = (
    "every operator allocates its result and its buffers",
    "kernels are compiled by their first call: the first step contains that",
)
TRAINING_NOTE = (
    "gradients of pooling, normalisation, ReLU, bias and loss, and SGD have no Numba kernel: NumPy does them "
    "(implementation numpy)"
)


class NumbaBuilder:
    """profkit's kernels, compiled by Numba."""

    name = "numba"
    modes: Sequence[str] = ("eager",)

    def is_available(self) -> Availability:
        """Whether Numba is installed."""
        return operators.ADAPTER.is_available()

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains."""
        return refusal(network, conditions.is_training)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """The worker's usual variables set the threads."""
        return {}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """As the operators' adapter."""
        implementation = Implementation("network/numba/cpu", self.name)
        return operators.ADAPTER.start(implementation, Conditions(conditions.threads)) | {"numpy": np.__version__}

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltProgram:
        """The layers with copies of the weights."""
        notes = (*NOTES, TRAINING_NOTE) if conditions.is_training else NOTES
        prepare = _prepare(conditions.threads)
        kernels = FillingKernels(self.name, prepare, threaded=prepare)
        return build_layers(network, parameters_of(weights), conditions, kernels, notes)


def _prepare(threads: int) -> dict[str, Callable[[Any, Mapping[str, Array]], operators.Ready]]:
    """The adapter's functions with the number of threads filled in."""
    functions: Mapping[str, Callable[[Any, Mapping[str, Array], int], operators.Ready]] = {
        "conv2d": operators.prepare_conv2d,
        "matmul": operators.prepare_matmul,
        "pool2d": operators.prepare_pool2d,
        "lrn": operators.prepare_lrn,
        "bias_relu": operators.prepare_bias_relu,
    }
    return {op: _with_threads(prepare, threads) for op, prepare in functions.items()}


def _with_threads(
    prepare: Callable[[Any, Mapping[str, Array], int], operators.Ready], threads: int
) -> Callable[[Any, Mapping[str, Array]], operators.Ready]:
    return lambda spec, inputs: prepare(spec, inputs, threads)


BUILDER = NumbaBuilder()
