"""A Network -> a serialised ONNX model whose nodes are named `<layer>/<part>`, so that profiles show the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array
from profkit.frameworks.layouts import covers_image
from profkit.frameworks.lazy import onnx
from profkit.frameworks.networks.graph import LayerTable
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.network import Network
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.pool2d import AVERAGE, MAX
from profkit.ops.window import Window


@dataclass(frozen=True)
class Dialect:
    """A version of the format, and how exporters of its time wrote."""

    opset: int
    ir_version: int
    lists_weights_as_inputs: bool = False
    """Until IR 3 every initialiser had to be an input of the graph too."""


TODAY = Dialect(22, 10)
"""Opset and IR that runtimes since 2024 read; newer ones add nothing that these operators need."""
CNTK_ERA = Dialect(7, 3, lists_weights_as_inputs=True)
"""What exporters of 2018 (CNTK 2.5 and its contemporaries) wrote."""


def onnx_model(network: Network, weights: Mapping[str, Array], dialect: Dialect) -> bytes:
    """The model from `images` to the value of the last layer; every layer's value has its name."""
    graph = _Graph(weights, dialect)
    for layer in network.layers:
        LAYERS[layer.kind](graph, layer)
    value = onnx.helper.make_tensor_value_info
    element = onnx.TensorProto.FLOAT
    given = onnx.TensorProto.INT64 if network.vocabulary else element
    inputs = [value(kinds.IMAGES, given, network.input_shape())]
    if dialect.lists_weights_as_inputs:
        inputs += [value(tensor.name, tensor.data_type, tensor.dims) for tensor in graph.initialisers]
    outputs = [value(network.layers[-1].name, element, network.output_shape())]
    whole = onnx.helper.make_graph(graph.nodes, network.name, inputs, outputs, graph.initialisers)
    model = serialised(whole, dialect.opset, dialect.ir_version)
    onnx.checker.check_model(model)
    return model


def serialised(graph: Any, opset: int, ir_version: int) -> bytes:
    others = sorted({node.domain for node in graph.node if node.domain})
    imports = [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(domain, 1) for domain in others)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="profkit")
    content: bytes = model.SerializeToString()
    return content


LAYERS = LayerTable()


class _Graph:
    def __init__(self, weights: Mapping[str, Array], dialect: Dialect) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self.dialect = dialect
        self._weights = weights

    def node(self, layer: Layer, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node of a layer; gives the name of its result, which is the layer's unless there is another."""
        output = output or layer.name
        name = f"{layer.name}/{kind}"
        same = sum(node.name.partition("#")[0] == name for node in self.nodes)
        name += f"#{same + 1}" if same else ""
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def inner(self, layer: Layer, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """A node whose result the layer itself takes on."""
        return self.node(layer, kind, inputs, f"{layer.name}/value{len(self.nodes)}", **attributes)

    def parameters(self, layer: Layer, *parts: str) -> list[str]:
        """By their parts; in the form of ONNX, which is ours but for an LSTM."""
        return [self.constant(f"{layer.name}.{part}", self.weight(layer, part)) for part in parts]

    def weight(self, layer: Layer, part: str) -> Array:
        return np.ascontiguousarray(self._weights[f"{layer.name}.{part}"], np.float32)

    def constant(self, name: str, array: Array) -> str:
        self.initialisers.append(onnx.numpy_helper.from_array(array, name))
        return name

    def number(self, layer: Layer, value: float) -> str:
        return self.constant(f"{layer.name}/number{len(self.initialisers)}", np.array(value, np.float32))

    def reshaped(self, layer: Layer, source: str, shape: Sequence[int], output: str = "") -> str:
        wanted = self.constant(f"{layer.name}/shape{len(self.initialisers)}", np.array(shape, np.int64))
        return self.node(layer, "Reshape", [source, wanted], output or f"{layer.name}/value{len(self.nodes)}")

    def activated(self, layer: Layer, kind: str, inputs: Sequence[str], **attributes: Any) -> None:
        """The last node of a layer before its fused activation."""
        if layer.activation == "relu":
            self.node(layer, "Relu", [self.node(layer, kind, inputs, f"{layer.name}/sums", **attributes)])
        else:
            self.node(layer, kind, inputs, **attributes)


@LAYERS.builds(kinds.CONV2D)
def _conv2d(graph: _Graph, layer: Layer) -> None:
    spec: Any = layer.spec
    attributes = {**window_attributes(spec.window, dilations=True), "group": spec.groups}
    inputs = [*layer.inputs, *graph.parameters(layer, "w", *(["b"] if spec.bias else []))]
    graph.activated(layer, "Conv", inputs, **attributes)


@LAYERS.builds(kinds.DENSE)
def _dense(graph: _Graph, layer: Layer) -> None:
    """Gemm takes rows with a bias; MatMul takes anything."""
    spec: Any = layer.spec
    if spec.bias and len(layer.output_shape) == 2:
        graph.activated(layer, "Gemm", [*layer.inputs, *graph.parameters(layer, "w", "b")])
        return
    factors = [*layer.inputs, *graph.parameters(layer, "w")]
    if spec.bias:
        graph.activated(layer, "Add", [graph.inner(layer, "MatMul", factors), *graph.parameters(layer, "b")])
    else:
        graph.activated(layer, "MatMul", factors)


@LAYERS.builds(kinds.POOL2D)
def _pool2d(graph: _Graph, layer: Layer) -> None:
    """The average does not count the padding: ONNX's default."""
    spec: Any = layer.spec
    if spec.mode == AVERAGE and covers_image(spec.window):
        graph.node(layer, "GlobalAveragePool", layer.inputs)
    else:
        kind = {MAX: "MaxPool", AVERAGE: "AveragePool"}[spec.mode]
        graph.node(layer, kind, layer.inputs, **window_attributes(spec.window))


@LAYERS.builds(kinds.LRN)
def _lrn(graph: _Graph, layer: Layer) -> None:
    spec: Any = layer.spec
    graph.node(layer, "LRN", layer.inputs, size=spec.size, alpha=spec.alpha, beta=spec.beta, bias=spec.k)


@LAYERS.builds(kinds.FLATTEN)
def _flatten(graph: _Graph, layer: Layer) -> None:
    graph.node(layer, "Flatten", layer.inputs, axis=1)


@LAYERS.builds(kinds.DROPOUT)
def _dropout(graph: _Graph, layer: Layer) -> None:
    """In inference it passes its input on; exporters write it all the same. The ratio, which inference does not
    need, became an input with opset 12."""
    rate: dict[str, Any] = {"ratio": layer.rate} if graph.dialect.opset < 12 else {}
    graph.node(layer, "Dropout", layer.inputs, **rate)


@LAYERS.builds(kinds.BATCH_NORM)
def _batch_norm(graph: _Graph, layer: Layer) -> None:
    spec: Any = layer.spec
    values = graph.parameters(layer, "scale", "shift", "mean", "variance")
    graph.node(layer, "BatchNormalization", [*layer.inputs, *values], epsilon=spec.epsilon)


@LAYERS.builds(kinds.LAYER_NORM)
def _layer_norm(graph: _Graph, layer: Layer) -> None:
    spec: Any = layer.spec
    inputs = [*layer.inputs, *graph.parameters(layer, "scale", "shift")]
    graph.node(layer, "LayerNormalization", inputs, epsilon=spec.epsilon)


@LAYERS.builds(kinds.ACTIVATION)
def _activation(graph: _Graph, layer: Layer) -> None:
    spec: Any = layer.spec
    if spec.function == "scaled_tanh":
        smaller = graph.inner(layer, "Mul", [*layer.inputs, graph.number(layer, 2 / 3)])
        graph.node(layer, "Mul", [graph.inner(layer, "Tanh", [smaller]), graph.number(layer, 1.7159)])
        return
    kind = {"relu": "Relu", "tanh": "Tanh", **_GATES, "gelu": "Gelu"}[spec.function]
    line: dict[str, Any] = {"alpha": 0.2, "beta": 0.5} if kind == "HardSigmoid" else {}
    graph.node(layer, kind, layer.inputs, **line)


_GATES = {"sigmoid": "Sigmoid", "hard_sigmoid": "HardSigmoid", "tanh": "Tanh"}


@LAYERS.builds(kinds.ADD)
def _add(graph: _Graph, layer: Layer) -> None:
    graph.node(layer, "Add", layer.inputs)


@LAYERS.builds(kinds.CONCAT)
def _concat(graph: _Graph, layer: Layer) -> None:
    graph.node(layer, "Concat", layer.inputs, axis=1)


@LAYERS.builds(kinds.EMBEDDING)
def _embedding(graph: _Graph, layer: Layer) -> None:
    graph.node(layer, "Gather", [*graph.parameters(layer, "w"), *layer.inputs])


@LAYERS.builds(kinds.POSITIONS)
def _positions(graph: _Graph, layer: Layer) -> None:
    table = graph.constant(f"{layer.name}/table", encoded_positions(*layer.output_shape[1:]).astype(np.float32))
    graph.node(layer, "Add", [*layer.inputs, table])


@LAYERS.builds(kinds.LSTM)
def _lstm(graph: _Graph, layer: Layer) -> None:
    """ONNX puts the steps first, its gates in the order input, output, forget, candidate, and has two biases."""
    spec: Any = layer.spec

    def reordered(array: Array) -> Array:
        i, f, candidate, o = np.split(array, 4, axis=-1)
        return np.ascontiguousarray(np.concatenate([i, o, f, candidate], axis=-1).T[None])

    held = {part: reordered(graph.weight(layer, part)) for part in ("w", "u", "b")}
    held["b"] = np.concatenate([held["b"], np.zeros_like(held["b"])], axis=1)
    inputs = [graph.inner(layer, "Transpose", layer.inputs, perm=[1, 0, 2])]
    inputs += [graph.constant(f"{layer.name}.{part}", array) for part, array in held.items()]
    gate, squash = _GATES[spec.recurrent_activation], _GATES[spec.activation]
    attributes: dict[str, Any] = {"hidden_size": spec.cells, "activations": [gate, squash, squash]}
    if gate == "HardSigmoid":
        attributes |= {"activation_alpha": [0.2], "activation_beta": [0.5]}
    result = f"{layer.name}/result"
    outputs = [result] if spec.returns_sequence else ["", result]
    graph.nodes.append(onnx.helper.make_node("LSTM", inputs, outputs, name=f"{layer.name}/LSTM", **attributes))
    if spec.returns_sequence:  # [steps, directions, batch, cells]
        result = graph.inner(layer, "Transpose", [result], perm=[2, 0, 1, 3])
    graph.reshaped(layer, result, layer.output_shape, layer.name)


@LAYERS.builds(kinds.ATTENTION)
def _attention(graph: _Graph, layer: Layer) -> None:
    """MatMul, Softmax and MatMul on [batch, heads, steps, width]; opset 22 has no attention."""
    spec: Any = layer.spec
    shape = [spec.batch, spec.steps, spec.heads, spec.width]
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (
        graph.inner(layer, "Transpose", [graph.reshaped(layer, source, shape)], perm=order)
        for source, order in zip(layer.inputs, orders)
    )
    scores = graph.inner(layer, "MatMul", [q, k])
    scores = graph.inner(layer, "Mul", [scores, graph.number(layer, spec.width**-0.5)])
    if spec.causal:
        later = np.triu(np.full((spec.steps, spec.steps), -np.inf, np.float32), 1)
        scores = graph.inner(layer, "Add", [scores, graph.constant(f"{layer.name}/later", later)])
    seen = graph.inner(layer, "MatMul", [graph.inner(layer, "Softmax", [scores], axis=3), v])
    graph.reshaped(layer, graph.inner(layer, "Transpose", [seen], perm=[0, 2, 1, 3]), layer.output_shape, layer.name)


@LAYERS.builds(kinds.MEAN)
def _mean(graph: _Graph, layer: Layer) -> None:
    """The axes became an input with opset 18."""
    if graph.dialect.opset < 18:
        graph.node(layer, "ReduceMean", layer.inputs, axes=[1], keepdims=0)
    else:
        axes = graph.constant(f"{layer.name}/axes", np.array([1], np.int64))
        graph.node(layer, "ReduceMean", [*layer.inputs, axes], keepdims=0)


def refuse_dialect(network: Network, dialect: Dialect) -> str:
    """The reason against a network with operators that the format got later."""
    for layer in network.layers:
        function = getattr(layer.spec, "function", "")
        for name, since in (("LayerNormalization", 17), ("Gelu", 20)):
            is_used = layer.kind == kinds.LAYER_NORM if name == "LayerNormalization" else function == "gelu"
            if is_used and dialect.opset < since:
                return f"{layer.name}: {name} came with opset {since}, the model is written for {dialect.opset}"
    return ""


def window_attributes(window: Window, dilations: bool = False) -> dict[str, Any]:
    """Explicit pads, the same for every version. Pooling rejects padding that no window reaches: it is omitted."""
    reach = [dilation * (kernel - 1) + 1 for kernel, dilation in zip(window.kernel, window.dilation)]
    before = window.pads[::2]
    after = [
        max(0, (out - 1) * stride + far - first - size)
        for out, stride, far, first, size in zip(window.out_size, window.stride, reach, before, window.size)
    ]
    geometry: dict[str, Any] = {"kernel_shape": window.kernel, "strides": window.stride, "pads": [*before, *after]}
    return {**geometry, "dilations": window.dilation} if dilations else geometry
