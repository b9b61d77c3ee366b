"""A network layer by layer: forward, loss, backward and SGD as Operations, on whatever kernels a library has.

A library's kernels enter as `Kernels`; what they lack (gradients of pooling and normalisation, loss, SGD) is done
with array expressions, and each Operation names who does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from profkit.backends.networks import array_operators as arrays
from profkit.backends.networks.contract import NetworkConditions
from profkit.backends.networks.layer_program import (
    BACKWARD,
    FORWARD,
    LABELS,
    OPTIMISER,
    BuiltProgram,
    Operation,
    Program,
)
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.spec import Spec

LOSS = "loss"


@dataclass(frozen=True)
class Kernel:
    """How a library runs one spec: the call takes the inputs in the spec's order and returns a fresh output."""

    implementation: str
    run: Callable[..., Any]
    workspace_bytes: int = 0
    """Scratch memory that was allocated ahead and is lent to the call."""


class Kernels(Protocol):
    """A library of kernels, and the array module that does what it lacks."""

    xp: Any
    xp_name: str
    fuses_bias_relu: bool
    """Whether it has a kernel for bias with ReLU; otherwise the product adds the bias, and ReLU works in place."""

    def kernel(self, spec: Spec) -> Kernel:
        """The kernel for convolutions and their gradients, products, pooling, normalisation, bias with ReLU."""
        ...


def build_layers(
    network: Network,
    weights: Mapping[str, Any],
    conditions: NetworkConditions,
    kernels: Kernels,
    notes: Iterable[str] = (),
) -> BuiltProgram:
    """The network with these parameters, which training changes in place."""
    inference = _Plan(network, kernels, is_training=False)
    inference.forward()
    programs = [Program(inference.operations, weights, network.layers[-1].name)]
    if conditions.is_training:
        plan = _Plan(network, kernels, is_training=True)
        plan.forward()
        plan.loss()
        plan.backward()
        plan.update(conditions.training, weights)
        programs.append(Program(plan.operations, weights, LOSS))
    return BuiltProgram(programs[0], programs[1] if len(programs) > 1 else None, weights, list(notes))


def refusal(network: Network, is_training: bool) -> str:
    """Why this way of running cannot do a network, or nothing."""
    sources = [layer.inputs[0] for layer in network.layers]
    if len(set(sources)) < len(sources):
        return "two layers take the same input; layer by layer only chains are run"
    pools = [layer.spec for layer in network.layers if isinstance(layer.spec, Pool2d)]
    if is_training and any(spec.mode != MAX for spec in pools):
        return "there is no gradient of average pooling here"
    return ""


def gradient(name: str) -> str:
    """The name of a value's gradient."""
    return f"{name}/gradient"


class _Plan:
    """Collects the operations of a step in their order."""

    def __init__(self, network: Network, kernels: Kernels, is_training: bool) -> None:
        self.operations: list[Operation] = []
        self._network = network
        self._kernels = kernels
        self._is_training = is_training
        self._generator = kernels.xp.random.default_rng(0)

    def forward(self) -> None:
        for layer in self._network.layers:
            self._forward(layer, layer.inputs[0])

    def loss(self) -> None:
        xp, output = self._kernels.xp, self._network.layers[-1].name
        if self._network.loss == CROSS_ENTROPY:
            self._arrays("loss/log_softmax", "log_softmax", "", FORWARD, (output,), arrays.log_softmax(xp))
            inputs: tuple[str, ...] = ("loss/log_softmax", LABELS)
            self._arrays(LOSS, "cross_entropy", "", FORWARD, inputs, arrays.cross_entropy(xp))
            call, kind = arrays.cross_entropy_gradient(xp), "cross_entropy_gradient"
        else:
            self._arrays("loss/difference", "subtract", "", FORWARD, (output, LABELS), xp.subtract)
            inputs = ("loss/difference",)
            self._arrays(LOSS, "squared_error", "", FORWARD, inputs, arrays.squared_error())
            call, kind = arrays.squared_error_gradient(), "squared_error_gradient"
        self._arrays(gradient(LOSS), kind, "", BACKWARD, inputs, call, output=gradient(output))

    def backward(self) -> None:
        for layer in reversed(self._network.layers):
            if layer.activation == "relu":
                call = arrays.relu_gradient(self._kernels.xp)
                inputs = (gradient(layer.name), layer.name)
                self._arrays(
                    f"{layer.name}/relu_gradient", "relu_gradient", layer.name, BACKWARD, inputs, call, inputs[0]
                )
            self._backward(layer, layer.inputs[0])

    def update(self, training: Training, parameters: Mapping[str, Any]) -> None:
        """One call per parameter, after all gradients are known."""
        for layer in self._network.layers:
            for name in layer.parameter_shapes():
                decay = layer.start.weight_decay if training.weight_decay and name.endswith(".w") else 0.0
                velocity = self._kernels.xp.zeros_like(parameters[name]) if training.momentum else None
                call = arrays.sgd(training.learning_rate, training.momentum, decay, velocity)
                self._arrays(f"{name}/sgd", "sgd", layer.name, OPTIMISER, (name, gradient(name)), call, name)

    def _forward(self, layer: Layer, source: str) -> None:
        name, spec = layer.name, layer.spec
        w, b = f"{name}.w", f"{name}.b"
        if isinstance(spec, Conv2d):
            self._kernel(name, layer, FORWARD, spec, (source, w, b), name, fused="conv2d+bias+relu")
        elif isinstance(spec, MatMul):
            self._dense(layer, spec, source)
        elif isinstance(spec, (Pool2d, LocalResponseNorm)):
            self._kernel(name, layer, FORWARD, spec, (source,), name)
        elif layer.kind == DROPOUT and self._is_training:
            call = arrays.dropout_mask(self._generator, layer.rate)
            self._arrays(f"{name}/mask", "dropout_mask", name, FORWARD, (source,), call)
            self._arrays(name, "dropout", name, FORWARD, (source, f"{name}/mask"), self._kernels.xp.multiply)
        else:  # flatten; dropout in inference
            shape = layer.output_shape
            self._arrays(name, "reshape", name, FORWARD, (source,), lambda x: x.reshape(shape))

    def _dense(self, layer: Layer, spec: MatMul, source: str) -> None:
        name, w, b = layer.name, f"{layer.name}.w", f"{layer.name}.b"
        sums = f"{name}/sums"
        if layer.activation != "relu":
            self._kernel(name, layer, FORWARD, spec, (source, w, b), name, fused="matmul+bias")
        elif self._kernels.fuses_bias_relu:
            self._kernel(sums, layer, FORWARD, spec.replaced(bias=False), (source, w), sums)
            images = BiasRelu(spec.m, spec.n, 1, 1)
            call = self._kernels.kernel(images)
            shape = (spec.m, spec.n, 1, 1)
            flat = Kernel(
                call.implementation,
                lambda x, bias: call.run(x.reshape(shape), bias).reshape(spec.m, spec.n),
                call.workspace_bytes,
            )
            self._call(name, "bias_relu", layer, FORWARD, flat, (sums, b), name, "bias+relu")
        else:
            self._kernel(sums, layer, FORWARD, spec, (source, w, b), sums, fused="matmul+bias")
            self._arrays(name, "relu", name, FORWARD, (sums,), arrays.relu(self._kernels.xp))

    def _backward(self, layer: Layer, source: str) -> None:
        """Gradients by the parameters first: then the one by the input may follow, unless nobody needs it."""
        name, spec, xp = layer.name, layer.spec, self._kernels.xp
        w, dy, dx = f"{name}.w", gradient(name), gradient(source)
        if layer.parameter_shapes():
            call = arrays.bias_gradient(len(layer.output_shape))
            bias = f"{name}.b"
            self._arrays(gradient(bias), "bias_gradient", name, BACKWARD, (dy,), call, gradient(bias))
        if isinstance(spec, Conv2d):
            bare = spec.replaced(bias=False, activation="none")
            by_weights = bare.replaced(direction=WEIGHT_GRADIENT)
            self._kernel(gradient(w), layer, BACKWARD, by_weights, (source, dy), gradient(w))
            if source != IMAGES:
                self._kernel(dx, layer, BACKWARD, bare.replaced(direction=INPUT_GRADIENT), (dy, w), dx)
        elif isinstance(spec, MatMul):
            by_w = MatMul(m=spec.k, n=spec.n, k=spec.m, transpose_a=True)
            self._kernel(gradient(w), layer, BACKWARD, by_w, (source, dy), gradient(w))
            if source != IMAGES:
                by_x = MatMul(m=spec.m, n=spec.k, k=spec.n, transpose_b=True)
                self._kernel(dx, layer, BACKWARD, by_x, (dy, w), dx)
        elif source == IMAGES:
            return
        elif isinstance(spec, Pool2d):
            call = arrays.max_pool_gradient(xp, spec)
            self._arrays(dx, "max_pool_gradient", name, BACKWARD, (source, name, dy), call)
        elif isinstance(spec, LocalResponseNorm):
            self._arrays(dx, "lrn_gradient", name, BACKWARD, (source, dy), arrays.lrn_gradient(xp, spec))
        elif layer.kind == DROPOUT:
            self._arrays(dx, "dropout_gradient", name, BACKWARD, (dy, f"{name}/mask"), xp.multiply)
        else:
            shape = self._network.layer(source).output_shape
            self._arrays(dx, "reshape", name, BACKWARD, (dy,), lambda x: x.reshape(shape))

    def _kernel(
        self, name: str, layer: Layer, phase: str, spec: Spec, inputs: tuple[str, ...], output: str, fused: str = ""
    ) -> None:
        kind = spec.op
        if isinstance(spec, Conv2d) and spec.direction != "forward":
            kind = f"{kind}_{spec.direction.replace('-', '_')}"
        self._call(name, kind, layer, phase, self._kernels.kernel(spec), inputs, output, fused)

    def _call(
        self,
        name: str,
        kind: str,
        layer: Layer,
        phase: str,
        kernel: Kernel,
        inputs: tuple[str, ...],
        output: str,
        fused: str = "",
    ) -> None:
        implementation, scratch = kernel.implementation, kernel.workspace_bytes
        operation = Operation(name, kind, layer.name, phase, implementation, inputs, output, kernel.run, fused, scratch)
        self.operations.append(operation)

    def _arrays(
        self,
        name: str,
        kind: str,
        layer: str,
        phase: str,
        inputs: tuple[str, ...],
        call: Callable[..., Any],
        output: str = "",
    ) -> None:
        implementation = self._kernels.xp_name
        self.operations.append(Operation(name, kind, layer, phase, implementation, inputs, output or name, call))


def parameters_of(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Copies that training may change."""
    return {name: np.array(value, np.float32, order="C") for name, value in weights.items()}
