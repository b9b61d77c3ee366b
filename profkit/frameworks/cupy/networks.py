"""Networks in CuPy on one CUDA device, layer by layer: cuBLAS products, im2col, elementwise kernels.

Not run on a GPU: the machines that this was written on have none. The array code is tested with NumPy in CuPy's
place, whose interface it shares.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from profkit.errors import UnsupportedError
from profkit.frameworks.cupy import operators
from profkit.frameworks.framework import product
from profkit.frameworks.networks import array_operators as arrays
from profkit.frameworks.networks.contract import NetworkConditions, refuse_layers
from profkit.frameworks.networks.layer_program import ArrayDevice
from profkit.frameworks.networks.plain_layers import LayerBuilder, LayerKernel
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.network import Network
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.spec import Spec


class CupyKernels:
    """Array functions of `xp`; tests put NumPy there."""

    fuses_bias_relu = False

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def kernel(self, spec: Spec) -> LayerKernel:
        """One way for each operator."""
        return LayerKernel(f"{spec.op}/cupy/cuda", self._call(spec))

    def _call(self, spec: Spec) -> Callable[..., Any]:
        if isinstance(spec, Conv2d):
            if spec.direction == FORWARD:
                return operators.convolution(self.xp, spec)
            if spec.direction == INPUT_GRADIENT:
                return arrays.convolution_gradient_by_input(self.xp, spec)
            return arrays.convolution_gradient_by_weights(self.xp, spec)
        if isinstance(spec, MatMul):
            return product(self.xp, spec)
        if isinstance(spec, Pool2d) and spec.mode == MAX:
            return arrays.max_pool(self.xp, spec)
        if isinstance(spec, LocalResponseNorm):
            return arrays.lrn(self.xp, spec)
        raise UnsupportedError(f"{spec} is not written for cupy")


class CupyBuilder(LayerBuilder):
    """CuPy on device 0."""

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains with maximum pooling."""
        return refuse_layers(network, self.name)


def _device() -> ArrayDevice:
    cupy = importlib.import_module("cupy")
    return ArrayDevice(cupy.asarray, cupy.asnumpy, cupy.cuda.get_current_stream().synchronize)


BUILDER = CupyBuilder(
    "cupy",
    operators.ADAPTER,
    lambda _: CupyKernels(importlib.import_module("cupy")),
    notes=(
        "not run on a GPU by the authors: they had none",
        "CuPy has no convolution, pooling or normalisation: padding, im2col, products and elementwise kernels instead",
        "a step ends when the device has finished",
    ),
    device=_device,
)
