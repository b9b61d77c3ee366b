"""Networks in NumPy, layer by layer: im2col and BLAS for products, ufuncs for the rest (numpy/operators.py)."""

from __future__ import annotations

from profkit.frameworks.networks.plain_layers import FillingKernels, LayerBuilder
from profkit.frameworks.numpy.operators import ADAPTER

_ON_BLAS = ("conv2d", "matmul")

BUILDER = LayerBuilder(
    "numpy",
    ADAPTER,
    lambda conditions: FillingKernels(ADAPTER, conditions.threads, _ON_BLAS, fuses_bias_relu=False),
    notes=(
        "every operator allocates its result and its buffers; ReLU and SGD work in place",
        "convolution: image by image, windows gathered into columns, one BLAS product; bias and ReLU in the same call",
    ),
)
