"""A transformer's encoder (Vaswani 2017) with normalisation before each part, classifying sequences of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot, uniform
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM


@dataclass(frozen=True)
class Transformer(Network, name="transformer", data="IMDB"):
    """Embedding with positions, blocks of attention and of two dense layers with GELU (4 x width), mean, dense 2."""

    size_formula: ClassVar[str] = "length indices -> width each -> (depth times) -> classes; heads divides width"
    training: ClassVar[Training] = Training(optimizer=ADAM, learning_rate=0.001)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot())

    batch: int = axis(axes.COUNT, 32, "sequences per step")
    depth: int = axis(axes.COUNT, 2, "blocks")
    heads: int = axis(axes.COUNT, 4, "of each attention")
    width: int = axis(axes.COUNT, 128, "features of a step")
    length: int = axis(axes.COUNT, 128, "words of a sequence")
    known_words: int = axis(axes.COUNT, 5000, "of the vocabulary")
    causal: bool = axis(axes.FLAG, False, "a step sees only itself and those before it")
    classes: int = axis(axes.COUNT, 2, "outputs")

    def check(self) -> None:
        if self.width % self.heads:
            raise SpecError(f"heads {self.heads} does not divide width {self.width}")

    def input_shape(self) -> Shape:
        return (self.batch, self.length)

    def describe(self, graph: Graph) -> None:
        graph.embedding("embedding", self.known_words, self.width, start=Initialisation(uniform(0.05)))
        graph.positions("positions")
        for number in range(1, self.depth + 1):
            self._block(graph, f"block{number}")
        graph.layer_norm("norm").mean("mean").dense("output", self.classes, "none")

    def _block(self, graph: Graph, name: str) -> None:
        source = graph.last
        normed = graph.layer_norm(f"{name}_norm1").last
        q, k, v = (graph.at(normed).dense(f"{name}_{part}", self.width, "none").last for part in ("q", "k", "v"))
        graph.attention(f"{name}_attention", q, k, v, self.heads, self.causal)
        source = graph.dense(f"{name}_projection", self.width, "none").add(f"{name}_add1", source).last
        graph.layer_norm(f"{name}_norm2").dense(f"{name}_dense1", 4 * self.width, "gelu")
        graph.dense(f"{name}_dense2", self.width, "none").add(f"{name}_add2", source)
