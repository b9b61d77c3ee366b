"""Networks in CuPy on one CUDA device, layer by layer: cuBLAS products, im2col, elementwise kernels.

Not run on a GPU: the machines that this was written on have none. The array code is tested with NumPy in CuPy's
place, whose interface it shares.
"""

from __future__ import annotations

import importlib
from typing import Any

from profkit.frameworks.cupy import operators
from profkit.frameworks.networks.array_operators import array_call
from profkit.frameworks.networks.kernels import Kernels, LayerKernel
from profkit.frameworks.networks.layer_program import ArrayDevice
from profkit.frameworks.networks.plain_layers import LayerBuilder
from profkit.ops.conv2d import FORWARD
from profkit.ops.networks.layer import ATTENTION, BATCH_NORM, CONV2D, LAYER_NORM, LRN, LSTM, POOL2D
from profkit.ops.spec import Spec


class CupyKernels(Kernels):
    """Array functions of `xp`; tests put NumPy there."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def kernel(self, spec: Spec) -> LayerKernel | None:
        """All of it is array expressions; these have the names of the rows of profkit's operators.

        None for gradients of sequences: in a network the forward pass keeps what they need.
        """
        if spec.op in (LSTM, ATTENTION) and getattr(spec, "direction", FORWARD) != FORWARD:
            return None
        return LayerKernel(f"{spec.op}/cupy/cuda", array_call(self.xp, spec))


def _device() -> ArrayDevice:
    cupy = importlib.import_module("cupy")
    return ArrayDevice(cupy.asarray, cupy.asnumpy, cupy.cuda.get_current_stream().synchronize)


BUILDER = LayerBuilder(
    "cupy",
    operators.ADAPTER,
    lambda _: CupyKernels(importlib.import_module("cupy")),
    notes=(
        "not run on a GPU by the authors: they had none",
        "CuPy has no convolution, pooling or normalisation: padding, im2col, products and elementwise kernels instead",
        "a step ends when the device has finished",
    ),
    device=_device,
    composed=(CONV2D, POOL2D, LRN, BATCH_NORM, LAYER_NORM, LSTM, ATTENTION),
)
