"""Facts of a tf.Graph's nodes, with operations in place of TensorFlow's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from profkit.frameworks.tensorflow.graph import GraphFacts


def operation(name: str, type: str, *inputs: Any) -> Any:
    return SimpleNamespace(name=name, type=type, inputs=[SimpleNamespace(op=each) for each in inputs], outputs=[])


class Graph:
    def __init__(self, *operations: Any) -> None:
        self._operations = {each.name: each for each in operations}

    def get_operation_by_name(self, name: str) -> Any:
        return self._operations[name]


def test_a_convolution_that_is_fused_over_layers_belongs_to_its_own_layer() -> None:
    images = operation("images", "Placeholder")
    conv = operation("conv1/Conv2D", "Conv2D", images)
    norm = operation("norm1/FusedBatchNormV3", "FusedBatchNormV3", conv)
    relu = operation("relu1/Relu", "Relu", norm)
    facts = GraphFacts(Graph(images, conv, norm, relu))

    assert facts.first("relu1/Relu", "_FusedConv2D") == "conv1/Conv2D"
    assert facts.first("relu1/Relu", "Relu") == "relu1/Relu"
    assert facts.first("norm1/FusedBatchNormV3", "_FusedBatchNormEx") == "norm1/FusedBatchNormV3"
    assert facts.first("made/by/the/optimiser", "_FusedConv2D") == "made/by/the/optimiser"
