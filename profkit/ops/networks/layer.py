"""One layer of a network: an operator spec with its name, where its inputs come from, and how its weights begin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from profkit.ops.networks.initialisers import DEFAULT_START, Initialisation, Shape
from profkit.ops.spec import Spec

IMAGES = "images"
"""The input of a layer that takes what the network is given."""
CONV2D, DENSE, POOL2D, LRN, FLATTEN, DROPOUT = "conv2d", "matmul", "pool2d", "lrn", "flatten", "dropout"
BATCH_NORM, LAYER_NORM, ACTIVATION, ADD, CONCAT = "batch_norm", "layer_norm", "activation", "add", "concat"
EMBEDDING, POSITIONS, LSTM, ATTENTION, MEAN = "embedding", "positions", "lstm", "attention", "mean"
LAYER_KINDS = (
    *(CONV2D, DENSE, POOL2D, LRN, FLATTEN, DROPOUT, BATCH_NORM, LAYER_NORM, ACTIVATION, ADD, CONCAT),
    *(EMBEDDING, POSITIONS, LSTM, ATTENTION, MEAN),
)
DECAYING = (".w", ".u")
"""Endings of the parameters that weight decay pulls at: neither biases nor scales."""


def _filters(spec: Any) -> dict[str, Shape]:
    return {"w": spec.w_shape(), **({"b": (spec.out_channels,)} if spec.bias else {})}


def _matrix(spec: Any) -> dict[str, Shape]:
    return {"w": (spec.k, spec.n), **({"b": (spec.n,)} if spec.bias else {})}


def _gates(spec: Any) -> dict[str, Shape]:
    return {"w": (spec.inputs, 4 * spec.cells), "u": (spec.cells, 4 * spec.cells), "b": (4 * spec.cells,)}


_PARAMETERS: dict[str, Callable[[Any], dict[str, Shape]]] = {
    CONV2D: _filters,
    DENSE: _matrix,
    BATCH_NORM: lambda spec: {"scale": (spec.channels,), "shift": (spec.channels,)},
    LAYER_NORM: lambda spec: {"scale": (spec.width,), "shift": (spec.width,)},
    EMBEDDING: lambda spec: {"w": (spec.vocabulary, spec.width)},
    LSTM: _gates,
}
_MULTIPLY_ADDS: dict[str, Callable[[Any], int]] = {
    CONV2D: lambda spec: spec.replaced(bias=False, activation="none").flops() // 2,
    DENSE: lambda spec: spec.replaced(bias=False).flops() // 2,
    LSTM: lambda spec: spec.batch * spec.steps * 4 * spec.cells * (spec.inputs + spec.cells),
    ATTENTION: lambda spec: 2 * spec.pairs * spec.width,
}


@dataclass(frozen=True)
class Layer:
    """kind is the spec's op, or flatten, concat or mean, which have no spec, or positions, whose spec is an addition.

    A convolution's bias and ReLU are part of its spec; a dense layer is MatMul(m=rows, k=inputs, n=outputs,
    bias) followed by `activation`; other functions are layers of their own. flatten goes over channels, height, width
    in this order (NCHW), whatever the layout of a framework: one that holds its images as NHWC turns the weights of
    the next dense layer instead. concat joins images along their channels; mean is that over the steps of a sequence;
    positions adds the constant of positions.py to each sequence.
    """

    name: str
    kind: str
    spec: Spec | None
    output_shape: Shape
    """With the batch: [batch, channels, height, width], [batch, features] or [batch, steps, features]."""
    inputs: tuple[str, ...] = (IMAGES,)
    """Names of earlier layers, or IMAGES."""
    activation: str = "none"
    """relu or none, applied to the result with its bias; the same as spec.activation for a convolution."""
    rate: float = 0.0
    """Of dropout: the share that is set to 0 in training."""
    start: Initialisation = DEFAULT_START

    def parameter_shapes(self) -> dict[str, Shape]:
        """`<layer>.w` and `<layer>.b`: convolutions [out, in, kernel_h, kernel_w], dense layers [inputs, outputs].

        Normalisations have `.scale` and `.shift`, an LSTM `.w` of its inputs, `.u` of its last result and `.b`, each
        with its gates in the order input, forget, candidate, output.
        """
        shapes = _PARAMETERS[self.kind](self.spec) if self.kind in _PARAMETERS else {}
        return {f"{self.name}.{name}": shape for name, shape in shapes.items()}

    def state_shapes(self) -> dict[str, Shape]:
        """What training changes without a gradient: the running `.mean` and `.variance` of a batch normalisation."""
        if self.kind != BATCH_NORM:
            return {}
        spec: Any = self.spec
        return {f"{self.name}.mean": (spec.channels,), f"{self.name}.variance": (spec.channels,)}

    def decay_of(self, parameter: str) -> float:
        """The weight decay of one of its parameters."""
        return self.start.weight_decay if parameter.endswith(DECAYING) else 0.0

    def spec_for(self, is_training: bool) -> Spec | None:
        """A batch normalisation does something else in training."""
        if self.kind != BATCH_NORM or self.spec is None:
            return self.spec
        return self.spec.replaced(mode="training" if is_training else "inference")

    def multiply_adds(self) -> int:
        """Of one image, forward; convolutions, dense layers, LSTM and attention only, as such counts are published."""
        count = _MULTIPLY_ADDS.get(self.kind)
        return count(self.spec) // self.output_shape[0] if count else 0
