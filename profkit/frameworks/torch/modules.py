"""A network's layers as torch modules, one per layer and under its name. Imports torch: opened by the builder only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from profkit.frameworks.torch.operators import needs_ceil_mode, split_padding
from profkit.ops import Conv2d, MatMul, Pool2d
from profkit.ops.activation import (
    GELU,
    HARD_SIGMOID,
    RELU,
    SCALED_TANH,
    SIGMOID,
    TANH,
    TANH_HEIGHT,
    TANH_SLOPE,
)
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.pool2d import MAX

Tensor = Any
Canonical = dict[str, tuple[str, bool]]
"""By the end of a parameter's name: its attribute of the module, and whether that is transposed."""
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    RELU: functional.relu,
    TANH: torch.tanh,
    SCALED_TANH: lambda x: TANH_HEIGHT * torch.tanh(TANH_SLOPE * x),
    SIGMOID: torch.sigmoid,
    HARD_SIGMOID: lambda x: torch.clamp(0.2 * x + 0.5, 0.0, 1.0),
    GELU: functional.gelu,
}
# Their results are not needed for their gradients, so that a ReLU may overwrite them.
OVERWRITTEN = (kinds.BATCH_NORM, kinds.LAYER_NORM, kinds.ADD, kinds.CONV2D, kinds.DENSE)


class Convolution(nn.Conv2d):  # type: ignore[misc]
    """Convolution, bias and ReLU (in place, as models usually have it); F.pad first where padding is asymmetric."""

    canonical: ClassVar[Canonical] = {"w": ("weight", False), "b": ("bias", False)}

    def __init__(self, spec: Conv2d, has_relu: bool) -> None:
        padding, pad, self.note = split_padding(spec.window)
        shape = (spec.in_channels, spec.out_channels, spec.kernel_size, spec.stride, padding, spec.dilation)
        super().__init__(*shape, spec.groups, spec.bias)
        self.pad, self.has_relu = pad, has_relu

    def forward(self, images: Tensor) -> Tensor:
        if self.pad:
            images = functional.pad(images, self.pad)
        result = super().forward(images)
        return functional.relu(result, inplace=True) if self.has_relu else result


class Dense(nn.Linear):  # type: ignore[misc]
    """x w + b and ReLU (in place)."""

    canonical: ClassVar[Canonical] = {"w": ("weight", True), "b": ("bias", False)}

    def __init__(self, spec: MatMul, has_relu: bool) -> None:
        super().__init__(spec.k, spec.n, spec.bias)
        self.has_relu = has_relu

    def forward(self, rows: Tensor) -> Tensor:
        result = super().forward(rows)
        return functional.relu(result, inplace=True) if self.has_relu else result


class PaddedMaxPool(nn.MaxPool2d):  # type: ignore[misc]
    """Pooling whose padding torch's operator cannot express: F.pad with -inf before it."""

    def __init__(self, spec: Pool2d) -> None:
        super().__init__(spec.kernel_size, spec.stride)
        _, self.pad, self.note = split_padding(spec.window, "-inf")

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(functional.pad(images, self.pad, value=float("-inf")))


class PaddedAveragePool(nn.Module):  # type: ignore[misc]
    """Average pooling whose padding torch's operator cannot express: sums of the padded images, divided by counts."""

    def __init__(self, spec: Pool2d) -> None:
        super().__init__()
        self.kernel_size, self.stride = spec.kernel_size, spec.stride
        _, self.pad, self.note = split_padding(spec.window)
        counts = torch.tensor(spec.window.element_counts(), dtype=torch.float32)
        self.register_buffer("shares", 1 / counts, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        padded = functional.pad(images, self.pad)
        return functional.avg_pool2d(padded, self.kernel_size, self.stride, divisor_override=1) * self.shares


class BatchNorm(nn.BatchNorm2d):  # type: ignore[misc]
    """Torch's own, with our running variance, which is the biased one; also of rows.

    In training the module holds torch's, the unbiased one, which differs by a constant factor; it changes where the
    module's mode does, so that no step pays for it.
    """

    canonical: ClassVar[Canonical] = {"scale": ("weight", False), "shift": ("bias", False)}

    def __init__(self, spec: Any) -> None:
        super().__init__(spec.channels, spec.epsilon, momentum=0.1)
        count = spec.values_per_channel
        self.factor = count / max(1, count - 1)

    def _check_input_dim(self, images: Tensor) -> None:
        """Images or rows."""

    def train(self, mode: bool = True) -> BatchNorm:
        if mode != self.training:
            with torch.no_grad():
                self.running_var.mul_(self.factor if mode else 1 / self.factor)
        super().train(mode)
        return self

    def states(self) -> dict[str, Tensor]:
        variance = self.running_var / self.factor if self.training else self.running_var
        return {"mean": self.running_mean, "variance": variance}

    def set_states(self, mean: Tensor, variance: Tensor) -> None:
        self.running_mean.copy_(mean)
        self.running_var.copy_(variance * self.factor if self.training else variance)


class LayerNorm(nn.LayerNorm):  # type: ignore[misc]
    """Over the last axis."""

    canonical: ClassVar[Canonical] = {"scale": ("weight", False), "shift": ("bias", False)}

    def __init__(self, spec: Any) -> None:
        super().__init__(spec.width, spec.epsilon)


class Function(nn.Module):  # type: ignore[misc]
    """One function of every element."""

    def __init__(self, function: str, in_place: bool) -> None:
        super().__init__()
        self.function = FUNCTIONS[function]
        if function == RELU and in_place:
            self.function = torch.relu_

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Dropout(nn.Dropout):  # type: ignore[misc]
    """Torch's own, or a product with a mask that was given."""

    mask: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.mask is not None:
            return x * self.mask
        return super().forward(x)


class Embedding(nn.Embedding):  # type: ignore[misc]
    """Rows of a table."""

    canonical: ClassVar[Canonical] = {"w": ("weight", False)}

    def __init__(self, spec: Any) -> None:
        super().__init__(spec.vocabulary, spec.width)


class Lstm(nn.LSTM):  # type: ignore[misc]
    """Torch's own: tanh and sigmoid. Its second bias stays 0."""

    canonical: ClassVar[Canonical] = {
        "w": ("weight_ih_l0", True),
        "u": ("weight_hh_l0", True),
        "b": ("bias_ih_l0", False),
    }

    def __init__(self, spec: Any) -> None:
        super().__init__(spec.inputs, spec.cells, batch_first=True)
        nn.init.zeros_(self.bias_hh_l0)
        self.bias_hh_l0.requires_grad_(False)
        self.returns_sequence = spec.returns_sequence

    def forward(self, x: Tensor) -> Tensor:
        every, _ = super().forward(x)
        return every if self.returns_sequence else every[:, -1]


class StepwiseLstm(nn.Module):  # type: ignore[misc]
    """An LSTM with other functions than torch's: the product with the inputs for all steps, the rest step by step."""

    canonical: ClassVar[Canonical] = {name: (name, False) for name in "wub"}

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec
        self.note = f"{spec.activation} and {spec.recurrent_activation} are not nn.LSTM's: composed step by step"
        for name in "wub":
            setattr(self, name, nn.Parameter(torch.zeros(spec.input_shapes()[name])))

    def forward(self, x: Tensor) -> Tensor:
        spec = self.spec
        function, gate = FUNCTIONS[spec.activation], FUNCTIONS[spec.recurrent_activation]
        ahead = (x @ self.w + self.b).unbind(1)
        h = c = x.new_zeros(spec.batch, spec.cells)
        results = []
        for z in ahead:
            i, f, candidate, o = (z + h @ self.u).chunk(4, 1)
            c = gate(f) * c + gate(i) * function(candidate)
            h = gate(o) * function(c)
            if spec.returns_sequence:
                results.append(h)
        return torch.stack(results, 1) if spec.returns_sequence else h


class Attention(nn.Module):  # type: ignore[misc]
    """scaled_dot_product_attention on views of the heads."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.heads, self.causal = spec.heads, spec.causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (each.unflatten(2, (self.heads, -1)).transpose(1, 2) for each in (q, k, v))
        return functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).flatten(2)


class Joined(nn.Module):  # type: ignore[misc]
    """Along the channels."""

    def forward(self, *images: Tensor) -> Tensor:
        return torch.cat(images, 1)


class Sum(nn.Module):  # type: ignore[misc]
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


class Positions(nn.Module):  # type: ignore[misc]
    """The encoding of positions, a buffer that is no part of the state."""

    def __init__(self, steps: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.from_numpy(encoded_positions(steps, width)).float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class Mean(nn.Module):  # type: ignore[misc]
    """Over the steps."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


class Model(nn.Module):  # type: ignore[misc]
    """Layers as children, which run in their order; values that no later layer takes are dropped."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        readers = Counter(source for layer in network.layers for source in layer.inputs)
        kinds = {layer.name: layer.kind for layer in network.layers}
        last = {source: layer.name for layer in network.layers for source in layer.inputs}
        self._calls: list[tuple[str, tuple[str, ...], list[str]]] = []
        for layer in network.layers:
            source = layer.inputs[0]
            in_place = readers[source] == 1 and kinds.get(source) in OVERWRITTEN
            self.add_module(layer.name, MODULES[layer.kind](layer, in_place))
            self._calls.append(
                (layer.name, layer.inputs, [name for name in {*layer.inputs} if last[name] == layer.name])
            )

    def forward(self, images: Tensor) -> Tensor:
        values = {IMAGES: images}
        name = IMAGES
        for name, sources, dropped in self._calls:
            values[name] = self._modules[name](*[values[source] for source in sources])
            for source in dropped:
                del values[source]
        return values[name]


def _pool(layer: Layer, _in_place: bool) -> nn.Module:
    spec: Any = layer.spec
    ceil_mode = needs_ceil_mode(spec.window)
    if ceil_mode is None:
        return PaddedMaxPool(spec) if spec.mode == MAX else PaddedAveragePool(spec)
    if spec.mode == MAX:
        return nn.MaxPool2d(spec.kernel_size, spec.stride, spec.window.pads[::2], ceil_mode=ceil_mode)
    return nn.AvgPool2d(spec.kernel_size, spec.stride, spec.window.pads[::2], ceil_mode, count_include_pad=False)


def _norm(layer: Layer, _in_place: bool) -> nn.Module:
    spec: Any = layer.spec
    return nn.LocalResponseNorm(spec.size, spec.alpha, spec.beta, spec.k)


def _lstm(layer: Layer, _in_place: bool) -> nn.Module:
    spec: Any = layer.spec
    return Lstm(spec) if (spec.activation, spec.recurrent_activation) == (TANH, SIGMOID) else StepwiseLstm(spec)


def _of_spec(module: Callable[[Any], nn.Module]) -> Callable[[Layer, bool], nn.Module]:
    return lambda layer, _in_place: module(layer.spec)


def _product(layer: Layer, _in_place: bool) -> nn.Module:
    spec: Any = layer.spec
    return (Convolution if layer.kind == kinds.CONV2D else Dense)(spec, layer.activation == "relu")


def _function(layer: Layer, in_place: bool) -> nn.Module:
    spec: Any = layer.spec
    return Function(spec.function, in_place)


MODULES: Mapping[str, Callable[[Layer, bool], nn.Module]] = {
    kinds.CONV2D: _product,
    kinds.DENSE: _product,
    kinds.POOL2D: _pool,
    kinds.LRN: _norm,
    kinds.FLATTEN: lambda _layer, _in_place: nn.Flatten(),
    kinds.DROPOUT: lambda layer, _in_place: Dropout(layer.rate),
    kinds.BATCH_NORM: _of_spec(BatchNorm),
    kinds.LAYER_NORM: _of_spec(LayerNorm),
    kinds.ACTIVATION: _function,
    kinds.ADD: lambda _layer, _in_place: Sum(),
    kinds.CONCAT: lambda _layer, _in_place: Joined(),
    kinds.EMBEDDING: _of_spec(Embedding),
    kinds.POSITIONS: lambda layer, _in_place: Positions(*layer.output_shape[1:]),
    kinds.LSTM: _lstm,
    kinds.ATTENTION: _of_spec(Attention),
    kinds.MEAN: lambda _layer, _in_place: Mean(),
}


def notes_of(model: nn.Module) -> list[str]:
    """What its modules do beside the operator itself."""
    notes = {name: getattr(module, "note", "") for name, module in model.named_children()}
    return [f"{name}: {note}" for name, note in notes.items() if note]


def parameters_of(layer: Layer, model: nn.Module) -> dict[str, tuple[Tensor, bool]]:
    """By their canonical names: the model's own, and whether it is transposed there."""
    module = getattr(model, layer.name)
    found = {}
    for name in layer.parameter_shapes():
        attribute, is_transposed = module.canonical[name.rpartition(".")[2]]
        found[name] = getattr(module, attribute), is_transposed
    return found


def parameter_groups(network: Network, model: nn.Module, has_decay: bool) -> list[dict[str, Any]]:
    """Parameters by their weight decay: the layer's own on its weights, none on biases and scales."""
    groups: dict[float, list[Tensor]] = {}
    for layer in network.layers:
        for name, (parameter, _) in parameters_of(layer, model).items():
            groups.setdefault(layer.decay_of(name) if has_decay else 0.0, []).append(parameter)
    return [{"params": parameters, "weight_decay": decay} for decay, parameters in groups.items()]


def set_weights(network: Network, model: nn.Module, weights: Any) -> None:
    """Copy the canonical weights in; a dense layer holds its own transposed."""
    with torch.no_grad():
        for layer in network.layers:
            for name, (parameter, is_transposed) in parameters_of(layer, model).items():
                given = torch.tensor(weights[name])
                parameter.copy_(given.T if is_transposed else given)
            if layer.kind == kinds.BATCH_NORM:
                states = [torch.tensor(weights[name]) for name in layer.state_shapes()]
                getattr(model, layer.name).set_states(*states)


def get_weights(network: Network, model: nn.Module) -> dict[str, Any]:
    """Parameters and states as they are now, in their canonical shapes, copied."""
    found = {}
    for layer in network.layers:
        for name, (parameter, is_transposed) in parameters_of(layer, model).items():
            found[name] = _copied(parameter, is_transposed)
        if layer.kind == kinds.BATCH_NORM:
            for name, value in getattr(model, layer.name).states().items():
                found[f"{layer.name}.{name}"] = _copied(value, False)
    return {name: found[name] for name in network.weight_shapes()}


def get_gradients(network: Network, model: nn.Module) -> dict[str, Any]:
    """Of every parameter, in its canonical shape, copied."""
    return {
        name: _copied(parameter.grad, is_transposed)
        for layer in network.layers
        for name, (parameter, is_transposed) in parameters_of(layer, model).items()
    }


def _copied(tensor: Tensor, is_transposed: bool) -> Any:
    held = tensor.detach()
    return (held.T if is_transposed else held).contiguous().clone().numpy()
