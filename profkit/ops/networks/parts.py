"""The operators, as specs, that one layer's forward or backward pass is made of: what kernels can be measured for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from profkit.ops.batch_norm import PARAMETER_GRADIENT
from profkit.ops.bias_relu import BIAS_GRADIENT, BiasRelu
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.dropout import Dropout
from profkit.ops.lstm import GATE_GRADIENT
from profkit.ops.matmul import MatMul
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training
from profkit.ops.networks.work import BACKWARD, FORWARD, NO_LAYER, OPTIMISER
from profkit.ops.spec import Spec

LOSS = "loss"
Parts = tuple[tuple[str, Spec], ...]


@dataclass(frozen=True)
class LayerParts:
    """What one layer does in one phase, or the loss or the optimiser of the whole network."""

    layer: str
    kind: str
    phase: str
    specs: Parts = ()
    """What each part is, and its operator."""
    without_spec: tuple[str, ...] = ()
    """Parts that are work too, but that no operator spec describes, so no kernel is measured."""


def layer_parts(network: Network, layer: Layer, phase: str, is_training: bool) -> LayerParts:
    """Forward: the layer with its bias and ReLU. Backward: the gradients that a training step needs."""
    if phase == FORWARD:
        return _forward(layer, is_training)
    if phase == BACKWARD and network.has_gradient(layer.name):
        return _backward(network, layer)
    return LayerParts(layer.name, layer.kind, phase)


def step_parts(network: Network, training: Training) -> list[LayerParts]:
    """What belongs to no layer: the loss, and one step of the optimiser on all parameters at once."""
    decay = max((layer.decay_of(name) for layer in network.layers for name in layer.parameter_shapes()), default=0.0)
    # Its time does not depend on the rate: one measurement serves all.
    step = training.step_spec(network.parameter_count(), decay).replaced(learning_rate=0.1)
    loss = [LayerParts(NO_LAYER, LOSS, phase, without_spec=(LOSS,)) for phase in (FORWARD, BACKWARD)]
    return [*loss, LayerParts(NO_LAYER, OPTIMISER, OPTIMISER, ((OPTIMISER, step),))]


def _forward(layer: Layer, is_training: bool) -> LayerParts:
    if layer.kind == kinds.DROPOUT and is_training:
        return LayerParts(layer.name, layer.kind, FORWARD, ((FORWARD, dropout_spec(layer)),))
    spec: Any = layer.spec_for(is_training)
    if spec is None:
        moves_nothing = layer.kind in (kinds.FLATTEN, kinds.DROPOUT)
        return LayerParts(layer.name, layer.kind, FORWARD, without_spec=() if moves_nothing else (layer.kind,))
    if layer.kind == kinds.LSTM and is_training:
        spec = spec.replaced(returns_sequence=True)
    if layer.kind == kinds.DENSE:
        spec = spec.replaced(activation=layer.activation)
    return LayerParts(layer.name, layer.kind, FORWARD, ((FORWARD, spec),))


def _backward(network: Network, layer: Layer) -> LayerParts:
    if layer.kind in (kinds.FLATTEN, kinds.ADD, kinds.POSITIONS):  # the gradient is that of the result
        return LayerParts(layer.name, layer.kind, BACKWARD)
    make = _BACKWARD.get(layer.kind)
    if make is None:
        return LayerParts(layer.name, layer.kind, BACKWARD, without_spec=(f"{layer.kind} gradient",))
    has_use = network.has_gradient(layer.inputs[0])
    parts = tuple((name, spec) for name, spec in make(layer) if has_use or name != BY_INPUT)
    # The kernel of a bias gradient sees what comes through a ReLU.
    has_bias = layer.kind == kinds.LSTM or getattr(layer.spec, "bias", False)
    lone_bias = has_bias and layer.activation == "none"
    return LayerParts(layer.name, layer.kind, BACKWARD, parts, ("bias gradient",) if lone_bias else ())


BY_INPUT = "input gradient"


def _of_product(layer: Layer) -> Parts:
    spec: Any = layer.spec
    by_input, by_weights = gradient_specs(spec)
    rest: Parts = ()
    if layer.activation == "relu":
        rest = (("ReLU gradient", result_spec(layer).replaced(direction=INPUT_GRADIENT)),)
        rest += (("bias gradient", result_spec(layer).replaced(direction=BIAS_GRADIENT)),) if spec.bias else ()
    return (BY_INPUT, by_input), ("weight gradient", by_weights), *rest


def _of_norm(layer: Layer) -> Parts:
    spec: Any = layer.spec_for(is_training=True)
    by_input, by_parameters = (spec.replaced(direction=way) for way in (INPUT_GRADIENT, PARAMETER_GRADIENT))
    return (BY_INPUT, by_input), ("parameter gradient", by_parameters)


def _of_function(layer: Layer) -> Parts:
    spec: Any = layer.spec
    return ((BY_INPUT, spec.replaced(direction=INPUT_GRADIENT)),)


def _of_table(layer: Layer) -> Parts:
    spec: Any = layer.spec
    return (("weight gradient", spec.replaced(direction=WEIGHT_GRADIENT)),)


def _of_lstm(layer: Layer) -> Parts:
    """Through time to the gates, then products over all steps at once."""
    spec: Any = layer.spec
    by_input, by_weights = gradient_specs(input_product(spec))
    _, by_recurrent = gradient_specs(input_product(spec).replaced(k=spec.cells))
    through_time = ("gate gradient", spec.replaced(direction=GATE_GRADIENT))
    return through_time, (BY_INPUT, by_input), ("weight gradient", by_weights), ("recurrent gradient", by_recurrent)


_BACKWARD: Mapping[str, Callable[[Layer], Parts]] = {
    **dict.fromkeys((kinds.CONV2D, kinds.DENSE), _of_product),
    **dict.fromkeys((kinds.BATCH_NORM, kinds.LAYER_NORM), _of_norm),
    **dict.fromkeys((kinds.POOL2D, kinds.LRN, kinds.ACTIVATION, kinds.ATTENTION), _of_function),
    kinds.LSTM: _of_lstm,
    kinds.DROPOUT: lambda layer: ((BY_INPUT, dropout_spec(layer)),),
    kinds.EMBEDDING: _of_table,
}
"""Of the kinds whose gradients are operators; concat and mean have none."""


def input_product(spec: Any) -> MatMul:
    """x w + b of all steps of an LSTM at once."""
    return MatMul(m=spec.batch * spec.steps, n=4 * spec.cells, k=spec.inputs, bias=True, dtype=spec.dtype)


def gradient_specs(spec: Any) -> tuple[Spec, Spec]:
    """Of a convolution or product: by the input (of dy, w) and by the weights (of x, dy)."""
    if not isinstance(spec, MatMul):
        bare: Spec = spec.replaced(bias=False, activation="none")
        return bare.replaced(direction=INPUT_GRADIENT), bare.replaced(direction=WEIGHT_GRADIENT)
    by_input = MatMul(m=spec.m, n=spec.k, k=spec.n, transpose_b=True, dtype=spec.dtype)  # dy [m,n] w[k,n]^T
    return by_input, MatMul(m=spec.k, n=spec.n, k=spec.m, transpose_a=True, dtype=spec.dtype)  # x[m,k]^T dy[m,n]


def result_spec(layer: Layer) -> BiasRelu:
    """Bias and ReLU of a layer's result, whose gradients have kernels; rows are images of one pixel."""
    if len(layer.output_shape) == 4:
        return BiasRelu(*layer.output_shape)
    *rows, features = layer.output_shape
    return BiasRelu(math.prod(rows), features, 1, 1)


def dropout_spec(layer: Layer) -> Dropout:
    """The product with the mask; its gradient is the same."""
    return Dropout(math.prod(layer.output_shape), layer.rate)
