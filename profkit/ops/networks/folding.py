"""Batch normalisation as a part of the convolution before it: a network enters, one with the same result leaves.

Inference only: in training, a normalisation depends on the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.layer import BATCH_NORM, CONV2D, Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training
from profkit.ops.spec import Array

FOLDS = "fold_batch_norm"
"""What a folded network has among its words beside those of the network that it was made from."""


def fold_batch_norm(network: Network) -> FoldedNetwork:
    """The same for inference; SpecError where nothing can be folded."""
    return FoldedNetwork(original=network)


def _network(name: str, value: Any) -> Network:
    if not isinstance(value, Network):
        raise SpecError(f"{name}: expected a network, got {value!r}")
    return value


@dataclass(frozen=True)
class FoldedNetwork(Network):
    """A network without the batch normalisations that followed a convolution directly.

    Each such convolution has a bias and other weights: w scale / sqrt(variance + epsilon), and with the same factor
    (b - mean) factor + shift. Normalisations elsewhere stay.
    """

    original: Network = axis(axes.Kind("NETWORK", _network), None, "what it was made from")

    def check(self) -> None:
        if not _folds(self.original):
            raise SpecError(
                f"{self.original.name}: no batch_norm takes the result of a convolution directly and alone: there is "
                "nothing to fold"
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.original.name

    @property
    def loss(self) -> str:  # type: ignore[override]
        return self.original.loss

    @property
    def data(self) -> str:  # type: ignore[override]
        return self.original.data

    @property
    def preparation(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.original.preparation

    @property
    def declared(self) -> Network:
        return self.original

    @property
    def no_training(self) -> str:
        return "a folded batch_norm has the statistics of inference: train the network without folding"

    @property
    def training(self) -> Training:  # type: ignore[override]
        return self.original.training

    def input_shape(self) -> Shape:
        return self.original.input_shape()

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        folds = _folds(self.original)
        renamed = {norm.name: conv.name for conv, norm in folds.items()}
        layers = []
        for layer in self.original.layers:
            if layer.name in renamed:
                continue
            changes: dict[str, Any] = {"inputs": tuple(renamed.get(source, source) for source in layer.inputs)}
            if layer in folds and layer.spec is not None:
                changes["spec"] = layer.spec.replaced(bias=True)
            layers.append(replace(layer, **changes))
        return tuple(layers)

    def weights_from(self, declared: Mapping[str, Array]) -> dict[str, Array]:
        """Made in float64, rounded once."""
        weights = dict(declared)
        for conv, norm in _folds(self.original).items():
            spec: Any = norm.spec
            scale, shift, mean, variance = (
                weights.pop(f"{norm.name}.{part}").astype(np.float64) for part in ("scale", "shift", "mean", "variance")
            )
            factor = scale / np.sqrt(variance + spec.epsilon)
            w, bias = f"{conv.name}.w", f"{conv.name}.b"
            before = weights[bias].astype(np.float64) if bias in weights else 0.0
            weights[w] = (weights[w] * factor[:, None, None, None]).astype(np.float32)
            weights[bias] = ((before - mean) * factor + shift).astype(np.float32)
        return {name: weights[name] for name in self.weight_shapes()}

    def initial_weights(self, seed: int = 0) -> dict[str, Array]:
        return self.weights_from(self.original.initial_weights(seed))

    def field_values(self) -> dict[str, Any]:
        return {**self.original.field_values(), FOLDS: True}

    def words(self) -> dict[str, str]:
        return {**self.original.words(), FOLDS: "yes"}

    def replaced(self, **changes: Any) -> FoldedNetwork:
        """With other fields of the original."""
        return fold_batch_norm(self.original.replaced(**changes))


def _folds(network: Network) -> dict[Layer, Layer]:
    """Convolutions, each with the batch normalisation that alone takes its bare result."""
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)
    found = {}
    for layer in network.layers:
        taking = readers.get(layer.name, [])
        if layer.kind == CONV2D and layer.activation == "none" and [each.kind for each in taking] == [BATCH_NORM]:
            found[layer] = taking[0]
    return found
