"""A network layer by layer: forward, loss, backward and SGD as Operations, on whatever kernels a library has.

A library's kernels enter as `Kernels`; what they lack (gradients of pooling and normalisation, loss, SGD) is done
with array expressions, and each Operation names who does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from profkit.frameworks.adapter import Adapter, Availability, Conditions
from profkit.frameworks.filling import FillingFramework
from profkit.frameworks.networks import array_operators as arrays
from profkit.frameworks.networks.contract import NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.layer_program import HOST, LABELS, ArrayDevice, BuiltProgram, LayerProgram, Operation
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD as RESULT
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.parts import gradient_specs
from profkit.ops.networks.training import Training
from profkit.ops.networks.work import BACKWARD, FORWARD, NO_LAYER, OPTIMISER
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.spec import Spec

LOSS = "loss"
Names = tuple[str, ...]


@dataclass(frozen=True)
class LayerKernel:
    """How a library runs one spec: the call takes the inputs in the spec's order and returns a fresh output."""

    implementation: str
    run: Callable[..., Any]
    workspace_bytes: int = 0
    """Scratch memory that was allocated ahead and is lent to the call."""
    uses_threads: bool = True


class Kernels(Protocol):
    """A library of kernels, and the array module that does what it lacks."""

    @property
    def xp(self) -> Any:
        """NumPy or CuPy."""
        ...

    @property
    def fuses_bias_relu(self) -> bool:
        """Whether it has a kernel for bias with ReLU; otherwise the product adds the bias, and ReLU works in place."""
        ...

    def kernel(self, spec: Spec) -> LayerKernel:
        """The kernel for convolutions and their gradients, products, pooling, normalisation, bias with ReLU."""
        ...


class FillingKernels:
    """The operators of an adapter that prepare a function which fills an output.

    Its set-up (views, buffers) needs the arrays, which are new in each step: so it is part of the call.
    """

    xp = np

    def __init__(
        self, adapter: FillingFramework, threads: int, threaded: Collection[str], fuses_bias_relu: bool
    ) -> None:
        self.fuses_bias_relu = fuses_bias_relu
        self._adapter = adapter
        self._threads = threads
        self._threaded = threaded

    def kernel(self, spec: Spec) -> LayerKernel:
        """The adapter's only implementation."""
        prepare, names, threads = self._adapter.prepares[spec.op], list(spec.input_shapes()), self._threads
        empty, shape, dtype = np.empty, spec.output_shape(), spec.numpy_dtype

        def run(*inputs: Any) -> Any:
            output = empty(shape, dtype)
            fill, _ = prepare(spec, dict(zip(names, inputs)), threads)
            fill(output)
            return output

        return LayerKernel(f"{spec.op}/{self._adapter.name}/cpu", run, uses_threads=spec.op in self._threaded)


@dataclass
class LayerBuilder(NetworkBuilder):
    """Runs networks layer by layer, on the kernels of a library that has an adapter for its operators."""

    name: str
    adapter: Adapter
    kernels: Callable[[NetworkConditions], Kernels]
    notes: Sequence[str]
    training_note: str = ""
    device: Callable[[], ArrayDevice] = lambda: HOST
    modes: Sequence[str] = ("eager",)

    def is_available(self) -> Availability:
        """As the adapter."""
        return self.adapter.is_available()

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Chains."""
        return refusal(network, conditions.is_training)

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """As the adapter, which sets the threads."""
        implementation = self.adapter.implementations(MatMul.op)[0]
        return {**self.adapter.start(implementation, Conditions(conditions.threads)), "numpy": np.__version__}

    def build(self, network: Network, weights: Mapping[str, Any], conditions: NetworkConditions) -> BuiltProgram:
        """The layers with copies of the weights, which training may change."""
        device = self.device()
        parameters = {name: device.put(np.array(value, np.float32, order="C")) for name, value in weights.items()}
        notes = [*self.notes, *([self.training_note] if conditions.is_training and self.training_note else [])]
        return build_layers(network, parameters, conditions, self.kernels(conditions), notes, device)


def build_layers(
    network: Network,
    parameters: Mapping[str, Any],
    conditions: NetworkConditions,
    kernels: Kernels,
    notes: Sequence[str],
    device: ArrayDevice,
) -> BuiltProgram:
    """The network with these parameters, which live on the device, and which training changes in place."""
    inference = _Plan(network, kernels, is_training=False)
    inference.add_forward()
    program = LayerProgram(inference.operations, parameters, network.layers[-1].name)
    if not conditions.is_training:
        return BuiltProgram(program, None, parameters, notes, device)
    plan = _Plan(network, kernels, is_training=True)
    plan.add_forward()
    plan.add_loss()
    plan.add_backward()
    velocities = plan.add_update(conditions.training, parameters)
    training = LayerProgram(plan.operations, {**parameters, **velocities}, LOSS)
    return BuiltProgram(program, training, parameters, notes, device)


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
    """Collects the operations of a step in order; keeps track of the current layer and phase."""

    def __init__(self, network: Network, kernels: Kernels, is_training: bool) -> None:
        self.operations: list[Operation] = []
        self._network = network
        self._kernels = kernels
        self._xp = kernels.xp
        self._is_training = is_training
        self._generator = self._xp.random.default_rng(0)
        self._layer, self._phase = NO_LAYER, FORWARD

    def add_forward(self) -> None:
        for layer in self._network.layers:
            self._layer, self._phase = layer.name, FORWARD
            self._forward(layer, layer.inputs[0])

    def add_loss(self) -> None:
        output = self._network.layers[-1].name
        arguments: Names
        self._layer, self._phase = NO_LAYER, FORWARD
        if self._network.loss == CROSS_ENTROPY:
            part, arguments = "loss/log_softmax", ("loss/log_softmax", LABELS)
            self._array("log_softmax", arrays.log_softmax(self._xp), (output,), part)
            self._array("cross_entropy", arrays.cross_entropy(self._xp), arguments, LOSS)
            backward = arrays.cross_entropy_gradient(self._xp)
        else:
            part, arguments = "loss/difference", ("loss/difference",)
            self._array("subtract", self._xp.subtract, (output, LABELS), part)
            self._array("squared_error", arrays.squared_error(), arguments, LOSS)
            backward = arrays.squared_error_gradient()
        self._phase = BACKWARD
        self._array(f"{self._network.loss}_gradient", backward, arguments, gradient(output))

    def add_backward(self) -> None:
        for layer in reversed(self._network.layers):
            self._layer, self._phase = layer.name, BACKWARD
            if layer.activation == "relu":
                arriving = gradient(layer.name)
                self._array("relu_gradient", arrays.relu_gradient(self._xp), (arriving, layer.name), arriving)
            self._backward(layer, layer.inputs[0])

    def add_update(self, training: Training, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """One call per parameter, after all gradients are known; returns the velocities, if there are any."""
        velocities: dict[str, Any] = {}
        for layer in self._network.layers:
            self._layer, self._phase = layer.name, OPTIMISER
            for name in layer.parameter_shapes():
                decay = layer.start.weight_decay if training.weight_decay and name.endswith(".w") else 0.0
                arguments: Names = (name, gradient(name))
                if training.momentum:
                    arguments = (*arguments, f"{name}/velocity")
                    velocities[f"{name}/velocity"] = self._xp.zeros_like(parameters[name])
                call = arrays.sgd(self._xp, training.learning_rate, training.momentum, decay)
                self._array("sgd", call, arguments, name, part=f"sgd_{name[-1]}")
        return velocities

    def _forward(self, layer: Layer, source: str) -> None:
        name, spec = layer.name, layer.spec
        if isinstance(spec, Conv2d):
            self._kernel("conv2d", spec, (source, f"{name}.w", f"{name}.b"), name)
        elif isinstance(spec, MatMul):
            self._dense(layer, spec, source)
        elif isinstance(spec, (Pool2d, LocalResponseNorm)):
            self._kernel(spec.op, spec, (source,), name)
        elif layer.kind == DROPOUT and self._is_training:
            mask = f"{name}/mask"
            self._array("dropout_mask", arrays.dropout_mask(self._generator, layer.rate), (source,), mask)
            self._array("dropout", self._xp.multiply, (source, mask), name)
        else:  # flatten; dropout in inference
            self._array("reshape", arrays.reshape(layer.output_shape), (source,), name)

    def _dense(self, layer: Layer, spec: MatMul, source: str) -> None:
        """Product, bias and perhaps ReLU, in as few calls as the kernels allow."""
        name = layer.name
        w, b, sums = f"{name}.w", f"{name}.b", f"{name}/sums"
        if layer.activation != "relu":
            self._kernel("matmul", spec, (source, w, b), name)
        elif self._kernels.fuses_bias_relu:
            self._kernel("matmul", spec.replaced(bias=False), (source, w), sums)
            self._kernel("bias_relu", BiasRelu(spec.m, spec.n, 1, 1, "NHWC"), (sums, b), name)
        else:
            self._kernel("matmul", spec, (source, w, b), sums)
            self._array("relu", arrays.relu(self._xp), (sums,), name)

    def _backward(self, layer: Layer, source: str) -> None:
        """Gradients by the parameters, then the one by the input, unless that is what the network is given."""
        name, spec = layer.name, layer.spec
        dy, dx = gradient(name), gradient(source)
        if isinstance(spec, (Conv2d, MatMul)):
            w = f"{name}.w"
            by_input, by_weight = gradient_specs(spec)
            self._array("bias_gradient", arrays.bias_gradient(len(layer.output_shape)), (dy,), gradient(f"{name}.b"))
            self._kernel("weight_gradient", by_weight, (source, dy), gradient(w))
            if source != IMAGES:
                self._kernel("input_gradient", by_input, (dy, w), dx)
        elif source == IMAGES:
            return
        elif isinstance(spec, Pool2d):
            self._array("max_pool_gradient", arrays.max_pool_gradient(self._xp, spec), (source, name, dy), dx)
        elif isinstance(spec, LocalResponseNorm):
            self._array("lrn_gradient", arrays.lrn_gradient(self._xp, spec), (source, dy), dx)
        elif layer.kind == DROPOUT:
            self._array("dropout_gradient", self._xp.multiply, (dy, f"{name}/mask"), dx)
        else:
            shape = self._network.layer(source).output_shape
            self._array("reshape", arrays.reshape(shape), (dy,), dx, part="reshape_gradient")

    def _kernel(self, part: str, spec: Spec, inputs: Names, output: str) -> None:
        kernel = self._kernels.kernel(spec)
        run = _on_rows(kernel.run, spec) if isinstance(spec, BiasRelu) else kernel.run
        operation = Operation(
            f"{self._layer}/{part}",
            _type(spec),
            self._layer,
            self._phase,
            kernel.implementation,
            inputs,
            output,
            run,
            _fused(spec),
            kernel.workspace_bytes,
            kernel.uses_threads,
        )
        self.operations.append(operation)

    def _array(self, kind: str, call: Callable[..., Any], inputs: Names, output: str, part: str = "") -> None:
        name = f"{self._layer or LOSS}/{part or kind}"
        who = str(self._xp.__name__)
        self.operations.append(Operation(name, kind, self._layer, self._phase, who, inputs, output, call))


def _on_rows(run: Callable[..., Any], spec: BiasRelu) -> Callable[..., Any]:
    """The rows of a dense layer are images of one pixel to a kernel for images."""
    images, rows = spec.output_shape(), (spec.batch, spec.channels)
    return lambda x, bias: run(x.reshape(images), bias).reshape(rows)


def _type(spec: Spec) -> str:
    """The operator; gradients of a convolution are operators of their own."""
    if isinstance(spec, Conv2d) and spec.direction != RESULT:
        return f"{spec.op}_{spec.direction.replace('-', '_')}"
    return spec.op


def _fused(spec: Spec) -> str:
    """What the one kernel does together."""
    if isinstance(spec, BiasRelu):
        return "bias+relu"
    parts = [spec.op]
    parts += ["bias"] if isinstance(spec, (Conv2d, MatMul)) and spec.bias else []
    parts += ["relu"] if isinstance(spec, Conv2d) and spec.activation == "relu" else []
    return "+".join(parts) if len(parts) > 1 else ""
