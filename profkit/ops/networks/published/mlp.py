"""Multilayer perceptrons of the studies of threads and devices and of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import MOST_LAYERS, Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, glorot, he_by_input
from profkit.ops.networks.network import Network

if TYPE_CHECKING:
    from profkit.ops.axes import CountsField

DATA = {8: ("Shuttle", "columns"), 960: ("CIFAR-10", "gist"), 154: ("SVHN", "hog_hue"), 784: ("MNIST", "scale")}
"""By the number of features: the data set, and what makes them of it."""
HE_BY_INPUT, GLOROT = "he-by-input", "glorot"


@dataclass(frozen=True)
class Mlp(Network, name="mlp"):
    """L dense layers of N neurons with ReLU, or a pyramid of layers of given widths; 8 features and 7 classes."""

    size_formula: ClassVar[str] = "inputs -> neurons (hidden times), or the widths of hidden -> outputs"

    batch: int = axis(axes.COUNT, 128, "rows per step")
    hidden: CountsField = axis(axes.COUNTS, (4,), "L of the study: hidden layers; or their widths, as 800,400,208")
    neurons: int = axis(axes.COUNT, 200, "N of the study: neurons of each")
    halving: bool = axis(axes.FLAG, False, "each layer half of the one before, together as many neurons as inputs")
    inputs: int = axis(axes.COUNT, 8, "features")
    outputs: int = axis(axes.COUNT, 7, "classes")
    start: str = axis(axes.choice(HE_BY_INPUT, GLOROT), HE_BY_INPUT, "how weights begin; the Keras study has glorot")

    def check(self) -> None:
        if len(self.hidden) != 1 and self.halving:
            raise SpecError("halving takes hidden as the number of layers, not their widths")
        if len(self.hidden) == 1 and self.hidden[0] > MOST_LAYERS:
            raise SpecError(f"the network has more than {MOST_LAYERS:,} layers")

    @property
    def data(self) -> str:  # type: ignore[override]
        return DATA.get(self.inputs, ("", ""))[0]

    @property
    def preparation(self) -> tuple[str, ...]:  # type: ignore[override]
        return DATA[self.inputs][1:] if self.inputs in DATA else ()

    @property
    def initialisation(self) -> Initialisation:  # type: ignore[override]
        return Initialisation(he_by_input() if self.start == HE_BY_INPUT else glorot())

    def input_shape(self) -> Shape:
        return (self.batch, self.inputs)

    def describe(self, graph: Graph) -> None:
        widths = self.hidden
        if len(widths) == 1:
            (layers,) = widths
            widths = halving_widths(self.inputs, layers) if self.halving else (self.neurons,) * layers
        pyramid(graph, widths).dense("output", self.outputs, "none")


def pyramid(graph: Graph, widths: Sequence[int]) -> Graph:
    """Dense layers with ReLU."""
    for number, width in enumerate(widths, start=1):
        graph.dense(f"hidden{number}", width)
    return graph


def halving_widths(inputs: int, layers: int) -> tuple[int, ...]:
    """inputs * 2^(L-i) / (2^L - 1) for i from 1 to L, cut to whole numbers; the last ones get what is missing."""
    whole = 2**layers - 1
    widths = [inputs * 2 ** (layers - number) // whole for number in range(1, layers + 1)]
    missing = inputs - sum(widths)
    return tuple(width + (place >= layers - missing) for place, width in enumerate(widths))
