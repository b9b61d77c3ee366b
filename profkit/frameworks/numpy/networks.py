"""Networks in NumPy, layer by layer: im2col and BLAS for products, ufuncs for the rest (numpy/operators.py)."""

from __future__ import annotations

from profkit.frameworks.networks.kernels import FillingKernels
from profkit.frameworks.networks.plain_layers import LayerBuilder
from profkit.frameworks.numpy.operators import ADAPTER
from profkit.ops.conv2d import FORWARD
from profkit.ops.networks.layer import ATTENTION, BATCH_NORM, CONV2D, LAYER_NORM, LRN, LSTM, POOL2D
from profkit.ops.spec import Spec

_ON_BLAS = ("conv2d", "matmul")

_FORMULAS = ("lstm", "attention", "optimiser_step")


def _is_composed(spec: Spec) -> bool:
    """Of gradients only those of products have code of their own."""
    return spec.op in _FORMULAS or (spec.op not in _ON_BLAS and getattr(spec, "direction", FORWARD) != FORWARD)


BUILDER = LayerBuilder(
    "numpy",
    ADAPTER,
    lambda conditions: FillingKernels(ADAPTER, conditions.threads, _ON_BLAS, _is_composed),
    composed=(CONV2D, POOL2D, LRN, BATCH_NORM, LAYER_NORM, LSTM, ATTENTION),
    notes=(
        "every operator allocates its result and its buffers; optimisers and sums of gradients work in place",
        "convolution: image by image, windows gathered into columns, one BLAS product; bias and ReLU in the same call",
    ),
)
