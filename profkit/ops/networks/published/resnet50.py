"""ResNet-50 (He 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, he
from profkit.ops.networks.published import OfAnySize
from profkit.ops.networks.training import Training

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks of each stage, and the filters of their 3x3 convolution; a block gives four times as many channels."""


@dataclass(frozen=True)
class ResNet50(OfAnySize, name="resnet50"):
    """conv 7x7, max pooling, sixteen bottleneck blocks of 1x1, 3x3 and 1x1 convolutions, average pooling, dense 1000.

    A stage's first block halves in its first 1x1 convolution, as the paper has it; torch's model halves in the 3x3.
    """

    size_formula: ClassVar[str] = "images are 3 x side x side; conv1, pool1 and the last three stages halve"
    training: ClassVar[Training] = Training(learning_rate=0.1, momentum=0.9)
    initialisation: ClassVar[Initialisation] = Initialisation(he(), weight_decay=0.0001)

    def describe(self, graph: Graph) -> None:
        _normed(graph, "conv1", self.scaled(64), 7, 2, 3).max_pool("pool1", 3, 2, 1)
        for stage, (blocks, filters) in enumerate(STAGES, start=2):
            for number in range(blocks):
                stride = 2 if stage > 2 and number == 0 else 1
                self._block(graph, f"block{stage}_{number + 1}", self.scaled(filters), stride)
        graph.global_average_pool("pool5").flatten().dense("output", self.classes, "none")

    def _block(self, graph: Graph, name: str, filters: int, stride: int) -> None:
        """1x1, 3x3 and 1x1 beside a shortcut, which is a convolution where the shape changes."""
        source, outputs = graph.last, 4 * filters
        if stride > 1 or graph.shape[1] != outputs:
            shortcut = _normed(graph, f"{name}_shortcut", outputs, 1, stride, 0, has_relu=False).last
        else:
            shortcut = source
        _normed(graph.at(source), f"{name}_conv1", filters, 1, stride, 0)
        _normed(graph, f"{name}_conv2", filters, 3, 1, 1)
        _normed(graph, f"{name}_conv3", outputs, 1, 1, 0, has_relu=False)
        graph.add(f"{name}_add", shortcut).activate(f"{name}_relu", "relu")


def _normed(
    graph: Graph, name: str, filters: int, kernel: int, stride: int, padding: int, has_relu: bool = True
) -> Graph:
    """Convolution without bias, batch normalisation, ReLU."""
    graph.conv(name, filters, kernel, stride, padding, "none", bias=False).batch_norm(f"{name}_norm")
    return graph.activate(f"{name}_relu", "relu") if has_relu else graph
