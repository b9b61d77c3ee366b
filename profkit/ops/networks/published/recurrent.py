"""The recurrent networks of the Keras study: film reviews (IMDB) and rain (HMDIR-II)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot, orthogonal, uniform
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.networks.published import DEPTHS
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, RMSPROP


@dataclass(frozen=True)
class ImdbLstm(Network, name="imdb_lstm", data="IMDB"):
    """Words as indices, embedding of 32, LSTM layers of 100 cells (tanh, hard sigmoid gates), one logit."""

    loss: ClassVar[str] = BINARY_CROSS_ENTROPY
    size_formula: ClassVar[str] = "length indices -> 32 each -> cells (depth times) -> 1"
    training: ClassVar[Training] = Training(optimizer=ADAM, learning_rate=0.001)
    initialisation: ClassVar[Initialisation] = Initialisation(glorot(), orthogonal())

    batch: int = axis(axes.COUNT, 64, "reviews per step")
    depth: int = axis(DEPTHS, 1, "LSTM layers")
    cells: int = axis(axes.COUNT, 100, "of each LSTM layer")
    length: int = axis(axes.COUNT, 500, "words of a review")
    known_words: int = axis(axes.COUNT, 5000, "of the vocabulary")

    def input_shape(self) -> Shape:
        return (self.batch, self.length)

    def describe(self, graph: Graph) -> None:
        graph.embedding("embedding", self.known_words, 32, start=Initialisation(uniform(0.05)))
        for number in range(1, self.depth + 1):
            graph.lstm(f"lstm{number}", self.cells, "tanh", "hard_sigmoid", returns_sequence=number < self.depth)
        graph.dense("output", 1, "none")


@dataclass(frozen=True)
class HmdirLstm(Network, name="hmdir_lstm", data="HMDIR-II"):
    """24 features per step, LSTM layers of 35 cells (sigmoid, hard sigmoid gates), one value.

    The study names neither the length of its sequences nor the loss: 20 measurements and the squared error are ours.
    """

    loss: ClassVar[str] = SQUARED_ERROR
    size_formula: ClassVar[str] = "24 features of each step -> cells (depth times) -> 1"
    training: ClassVar[Training] = Training(optimizer=RMSPROP, learning_rate=0.001)
    initialisation: ClassVar[Initialisation] = Initialisation(uniform(0.05), glorot())

    batch: int = axis(axes.COUNT, 256, "sequences per step")
    depth: int = axis(DEPTHS, 1, "LSTM layers")
    cells: int = axis(axes.COUNT, 35, "of each LSTM layer")
    length: int = axis(axes.COUNT, 20, "measurements of a sequence")

    def input_shape(self) -> Shape:
        return (self.batch, self.length, 24)

    def describe(self, graph: Graph) -> None:
        for number in range(1, self.depth + 1):
            graph.lstm(f"lstm{number}", self.cells, "sigmoid", "hard_sigmoid", returns_sequence=number < self.depth)
        graph.dense("output", 1, "none")
