"""Networks in NumPy, layer by layer: im2col and BLAS for products, ufuncs for the rest (numpy/operators.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import BuiltProgram
from profkit.frameworks.networks.plain_layers import FillingKernels, build_layers, parameters_of, refusal
from profkit.frameworks.numpy import operators
from profkit.frameworks.numpy.conv2d import prepare_conv2d
from profkit.ops.networks.network import Network

NOTES = (
    "every operator allocates its result and its buffers; ReLU and SGD work in place",
    "convolution: image by image, windows gathered into columns, one BLAS product; bias and ReLU in the same call",
)
_PREPARE: Mapping[str, Callable[[Any, Mapping[str, Array]], operators.Ready]] = {
    "conv2d": prepare_conv2d,
    "matmul": operators.prepare_matmul,
    "pool2d": operators.prepare_pool2d,
    "lrn": operators.prepare_lrn,
}
_ON_BLAS = ("conv2d", "matmul")


class NumpyBuilder:
    """Always there."""

    name = "numpy"
    modes: Sequence[str] = ("eager",)

    def is_available(self) -> Availability:
        """profkit itself needs NumPy."""
        return Availability(True)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains."""
        return refusal(network, conditions.is_training)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """The worker's usual variables set the threads of BLAS."""
        return {}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """As the operators' adapter."""
        return operators.ADAPTER.start(Implementation("network/numpy/cpu", self.name), Conditions(conditions.threads))

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltProgram:
        """The layers with copies of the weights."""
        kernels = FillingKernels(self.name, _PREPARE, threaded=_ON_BLAS)
        return build_layers(network, parameters_of(weights), conditions, kernels, NOTES)


BUILDER = NumpyBuilder()
