"""A Network -> a serialised ONNX model whose nodes are named `<layer>/<part>`, so that profiles show the layers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.frameworks.adapter import Array
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, IMAGES, Layer
from profkit.ops.networks.network import Network
from profkit.ops.pool2d import Pool2d
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
    onnx = importlib.import_module("onnx")
    graph = _Graph(onnx, weights, dialect)
    for layer in network.layers:
        graph.add_layer(layer)
    value = onnx.helper.make_tensor_value_info
    element = onnx.TensorProto.FLOAT
    inputs = [value(IMAGES, element, network.input_shape())]
    if dialect.lists_weights_as_inputs:
        inputs += [value(tensor.name, tensor.data_type, tensor.dims) for tensor in graph.initialisers]
    outputs = [value(network.layers[-1].name, element, network.output_shape())]
    whole = onnx.helper.make_graph(graph.nodes, network.name, inputs, outputs, graph.initialisers)
    model = serialised(whole, dialect.opset, dialect.ir_version)
    onnx.checker.check_model(model)
    return model


def serialised(graph: Any, opset: int, ir_version: int) -> bytes:
    """A model of this graph."""
    onnx = importlib.import_module("onnx")
    imports = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=ir_version, producer_name="profkit")
    content: bytes = model.SerializeToString()
    return content


class _Graph:
    """Collects nodes and initialisers."""

    def __init__(self, onnx: Any, weights: Mapping[str, Array], dialect: Dialect) -> None:
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []
        self._onnx = onnx
        self._weights = weights
        self._dialect = dialect

    def add_layer(self, layer: Layer) -> None:
        name, spec, source = layer.name, layer.spec, layer.inputs[0]
        if isinstance(spec, Conv2d):
            self._activated(
                layer, "Conv", (source, *self._parameters(name)), **window_attributes(spec.window, dilations=True)
            )
        elif isinstance(spec, MatMul):
            self._activated(layer, "Gemm", (source, *self._parameters(name)))
        elif isinstance(spec, Pool2d):
            kind = {"max": "MaxPool", "average": "AveragePool"}[spec.mode]
            self._node(layer, kind, (source,), name, **window_attributes(spec.window))
        elif isinstance(spec, LocalResponseNorm):
            constants = {"size": spec.size, "alpha": spec.alpha, "beta": spec.beta, "bias": spec.k}
            self._node(layer, "LRN", (source,), name, **constants)
        elif layer.kind == DROPOUT:
            # In inference it passes its input on; exporters write it all the same.
            self._node(layer, "Dropout", (source,), name, **self._rate(layer))
        else:
            self._node(layer, "Flatten", (source,), name, axis=1)

    def _activated(self, layer: Layer, kind: str, inputs: tuple[str, ...], **attributes: Any) -> None:
        sums = f"{layer.name}/sums"
        self._node(layer, kind, inputs, sums if layer.activation == "relu" else layer.name, **attributes)
        if layer.activation == "relu":
            self._node(layer, "Relu", (sums,), layer.name)

    def _node(self, layer: Layer, kind: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> None:
        node = self._onnx.helper.make_node(kind, inputs, [output], name=f"{layer.name}/{kind}", **attributes)
        self.nodes.append(node)

    def _parameters(self, name: str) -> tuple[str, str]:
        names = f"{name}.w", f"{name}.b"
        for each in names:
            array = np.ascontiguousarray(self._weights[each], np.float32)
            self.initialisers.append(self._onnx.numpy_helper.from_array(array, each))
        return names

    def _rate(self, layer: Layer) -> dict[str, float]:
        """The ratio became an input with opset 12; inference does not need it."""
        return {"ratio": layer.rate} if self._dialect.opset < 12 else {}


def window_attributes(window: Window, dilations: bool = False) -> dict[str, Any]:
    """Explicit pads: every version reads them alike. Pooling refuses padding that no window reaches: it is left out."""
    reach = [dilation * (kernel - 1) + 1 for kernel, dilation in zip(window.kernel, window.dilation)]
    before = window.pads[::2]
    after = [
        max(0, (out - 1) * stride + far - first - size)
        for out, stride, far, first, size in zip(window.out_size, window.stride, reach, before, window.size)
    ]
    geometry: dict[str, Any] = {
        "kernel_shape": window.kernel,
        "strides": window.stride,
        "pads": [*before, *after],
    }
    return {**geometry, "dilations": window.dilation} if dilations else geometry
