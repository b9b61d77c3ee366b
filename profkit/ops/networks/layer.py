"""One layer of a network: an operator spec with its name, where its input comes from, and how its weights begin."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec

IMAGES = "images"
"""The input of a layer that takes what the network is given."""
CONV2D, DENSE, POOL2D, LRN, FLATTEN, DROPOUT = "conv2d", "matmul", "pool2d", "lrn", "flatten", "dropout"
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Initialisation:
    """How the parameters of a layer begin, and which decay its weights have."""

    stddev: float = 0.05
    """Of the truncated normal distribution of the weights."""
    bias: float = 0.0
    weight_decay: float = 0.0
    """Gradient of the weights + weight_decay * weights, as an L2 loss of weight_decay/2 * sum(w^2) gives."""


DEFAULT_START = Initialisation()


@dataclass(frozen=True)
class Layer:
    """kind is the spec's op, or flatten or dropout, which have no spec.

    A convolution's bias and ReLU are part of its spec; a dense layer is MatMul(m=batch, k=inputs, n=outputs,
    bias) followed by `activation`. flatten goes over channels, height, width in this order (NCHW), whatever the
    layout of a framework: one that holds its images as NHWC turns the weights of the next dense layer instead.
    """

    name: str
    kind: str
    spec: Spec | None
    output_shape: Shape
    """With the batch; images as [batch, channels, height, width]."""
    inputs: tuple[str, ...] = (IMAGES,)
    activation: str = "none"
    """relu or none, applied to the result with its bias; the same as spec.activation for a convolution."""
    rate: float = 0.0
    """Of dropout: the share that is set to 0 in training."""
    start: Initialisation = DEFAULT_START

    def parameter_shapes(self) -> dict[str, Shape]:
        """`<layer>.w` and `<layer>.b`: convolutions [out, in, kernel_h, kernel_w], dense layers [inputs, outputs]."""
        if isinstance(self.spec, Conv2d):
            return {f"{self.name}.w": self.spec.w_shape(), f"{self.name}.b": (self.spec.out_channels,)}
        if isinstance(self.spec, MatMul):
            return {f"{self.name}.w": (self.spec.k, self.spec.n), f"{self.name}.b": (self.spec.n,)}
        return {}

    def multiply_adds(self) -> int:
        """Of one image, forward; convolutions and dense layers only, as such counts are published."""
        if isinstance(self.spec, Conv2d):
            return self.spec.replaced(bias=False, activation="none").flops() // 2 // self.spec.batch
        if isinstance(self.spec, MatMul):
            return self.spec.replaced(bias=False).flops() // 2 // self.spec.m
        return 0
