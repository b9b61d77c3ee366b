"""A network's layers as torch modules, one per layer and under its name. Imports torch: opened by the builder only."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from profkit.errors import UnsupportedError
from profkit.frameworks.torch.operators import split_padding
from profkit.frameworks.torch.pool2d import needs_ceil_mode
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, FLATTEN, Layer
from profkit.ops.networks.network import Network
from profkit.ops.pool2d import Pool2d

Tensor = Any


class Convolution(nn.Conv2d):  # type: ignore[misc]
    """Convolution, bias and ReLU (in place, as models usually have it); F.pad first where padding is asymmetric."""

    def __init__(self, spec: Conv2d, has_relu: bool) -> None:
        padding, pad, self.note = split_padding(spec.window)
        super().__init__(
            spec.in_channels, spec.out_channels, spec.kernel_size, spec.stride, padding, spec.dilation, spec.groups
        )
        self.pad, self.has_relu = pad, has_relu

    def forward(self, images: Tensor) -> Tensor:
        """The layer's output."""
        if self.pad:
            images = functional.pad(images, self.pad)
        result = super().forward(images)
        return functional.relu(result, inplace=True) if self.has_relu else result


class Dense(nn.Linear):  # type: ignore[misc]
    """x w + b and ReLU (in place)."""

    def __init__(self, spec: MatMul, has_relu: bool) -> None:
        super().__init__(spec.k, spec.n)
        self.has_relu = has_relu

    def forward(self, rows: Tensor) -> Tensor:
        """The layer's output."""
        result = super().forward(rows)
        return functional.relu(result, inplace=True) if self.has_relu else result


class PaddedMaxPool(nn.MaxPool2d):  # type: ignore[misc]
    """Pooling whose padding torch's operator cannot express: F.pad with -inf before it."""

    def __init__(self, spec: Pool2d) -> None:
        super().__init__(spec.kernel_size, spec.stride)
        _, self.pad, self.note = split_padding(spec.window, "-inf")

    def forward(self, images: Tensor) -> Tensor:
        """The layer's output."""
        return super().forward(functional.pad(images, self.pad, value=float("-inf")))


def build_modules(network: Network) -> nn.Sequential:
    """The whole network."""
    return nn.Sequential(OrderedDict((layer.name, _module(layer)) for layer in network.layers))


def notes_of(model: nn.Module) -> list[str]:
    """What its modules do beside the operator itself."""
    notes = {name: getattr(module, "note", "") for name, module in model.named_children()}
    return [f"{name}: {note}" for name, note in notes.items() if note]


def _module(layer: Layer) -> nn.Module:
    spec, has_relu = layer.spec, layer.activation == "relu"
    if isinstance(spec, Conv2d):
        return Convolution(spec, has_relu)
    if isinstance(spec, MatMul):
        return Dense(spec, has_relu)
    if isinstance(spec, Pool2d):
        ceil_mode = needs_ceil_mode(spec.window)
        if ceil_mode is None:
            return PaddedMaxPool(spec)
        return nn.MaxPool2d(spec.kernel_size, spec.stride, spec.window.pads[::2], ceil_mode=ceil_mode)
    if isinstance(spec, LocalResponseNorm):
        return nn.LocalResponseNorm(spec.size, spec.alpha, spec.beta, spec.k)
    if layer.kind == FLATTEN:
        return nn.Flatten()
    if layer.kind == DROPOUT:
        return nn.Dropout(layer.rate)
    raise UnsupportedError(f"torch has no module for layer {layer.name} of kind {layer.kind}")


def parameter_groups(network: Network, model: nn.Module, has_decay: bool) -> list[dict[str, Any]]:
    """Parameters by their weight decay: the layer's own on its weights, none on biases."""
    groups: dict[float, list[Tensor]] = {}
    for layer in network.layers:
        for name, parameter in getattr(model, layer.name).named_parameters():
            decay = layer.start.weight_decay if has_decay and name == "weight" else 0.0
            groups.setdefault(decay, []).append(parameter)
    return [{"params": parameters, "weight_decay": decay} for decay, parameters in groups.items()]


def set_weights(network: Network, model: nn.Module, weights: Any) -> None:
    """Copy the canonical weights in; a dense layer holds its own transposed."""
    with torch.no_grad():
        for layer in network.layers:
            if not layer.parameter_shapes():
                continue
            module = getattr(model, layer.name)
            matrix = torch.tensor(weights[f"{layer.name}.w"])
            module.weight.copy_(matrix.T if isinstance(module, Dense) else matrix)
            module.bias.copy_(torch.tensor(weights[f"{layer.name}.b"]))


def get_weights(network: Network, model: nn.Module) -> dict[str, Any]:
    """The weights as they are now, in their canonical shapes, copied."""
    found: dict[str, Any] = {}
    for layer in network.layers:
        if not layer.parameter_shapes():
            continue
        module = getattr(model, layer.name)
        matrix = module.weight.detach()
        found[f"{layer.name}.w"] = (matrix.T if isinstance(module, Dense) else matrix).contiguous().clone().numpy()
        found[f"{layer.name}.b"] = module.bias.detach().clone().numpy()
    return found
