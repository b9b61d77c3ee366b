"""The operators, as specs, that one layer's forward or backward pass is made of: what kernels can be measured for."""

from __future__ import annotations

from dataclasses import dataclass

from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.work import BACKWARD, FORWARD
from profkit.ops.spec import Spec


@dataclass(frozen=True)
class LayerParts:
    """What one layer does in one phase."""

    layer: Layer
    phase: str
    specs: tuple[tuple[str, Spec], ...] = ()
    """What each part is, and its operator."""
    without_spec: tuple[str, ...] = ()
    """Parts that are work as well, but that no operator spec describes, hence no kernel is measured for."""


def layer_parts(layer: Layer, phase: str, is_training: bool) -> LayerParts:
    """Forward: the layer with its bias and ReLU. Backward: the gradients that a training step needs."""
    if phase == FORWARD:
        return _forward(layer, is_training)
    if phase == BACKWARD:
        return _backward(layer)
    return LayerParts(layer, phase)


def _forward(layer: Layer, is_training: bool) -> LayerParts:
    spec = layer.spec
    if isinstance(spec, MatMul) and layer.activation == "relu":
        # No product has a fused ReLU; bias and ReLU together are an operator of their own.
        shape = BiasRelu(batch=spec.m, channels=spec.n, height=1, width=1, dtype=spec.dtype)
        specs: tuple[tuple[str, Spec], ...] = (("product", spec.replaced(bias=False)), ("bias and ReLU", shape))
        return LayerParts(layer, FORWARD, specs)
    if spec is not None:
        return LayerParts(layer, FORWARD, ((FORWARD, spec),))
    return LayerParts(layer, FORWARD, without_spec=("dropout",) if layer.kind == DROPOUT and is_training else ())


def _backward(layer: Layer) -> LayerParts:
    spec = layer.spec
    if not isinstance(spec, (Conv2d, MatMul)):
        missing = layer.kind if spec is not None or layer.kind == DROPOUT else ""
        return LayerParts(layer, BACKWARD, without_spec=(f"{missing} gradient",) if missing else ())
    by_input, by_weights = gradient_specs(spec)
    specs = [("weight gradient", by_weights)]
    if layer.inputs != (IMAGES,):  # nobody asks for the gradient of the images
        specs.insert(0, ("input gradient", by_input))
    extra = ("bias gradient", *(("ReLU gradient",) if layer.activation == "relu" else ()))
    return LayerParts(layer, BACKWARD, tuple(specs), extra)


def gradient_specs(spec: Conv2d | MatMul) -> tuple[Spec, Spec]:
    """By the input (of dy, w) and by the weights (of x, dy)."""
    if isinstance(spec, Conv2d):
        bare = spec.replaced(bias=False, activation="none")
        return bare.replaced(direction=INPUT_GRADIENT), bare.replaced(direction=WEIGHT_GRADIENT)
    by_input = MatMul(m=spec.m, n=spec.k, k=spec.n, transpose_b=True, dtype=spec.dtype)  # dy [m,n] w[k,n]^T
    return by_input, MatMul(m=spec.k, n=spec.n, k=spec.m, transpose_a=True, dtype=spec.dtype)  # x[m,k]^T dy[m,n]
