"""LeNet of the study of threads and devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Initialisation, Shape, he_by_input
from profkit.ops.networks.network import Network


@dataclass(frozen=True)
class LeNet(Network, name="lenet", data="CIFAR-10", preparation=("fit", "contrast")):
    """C x (convolution 5x5 without padding, 3 P maps, ReLU, max pooling 2x2), then dense 120, 84 and 10."""

    size_formula: ClassVar[str] = "images are 3x32x32; each convolution takes 4 off, each pooling halves"
    image: ClassVar[Shape] = (3, 32, 32)
    initialisation: ClassVar[Initialisation] = Initialisation(he_by_input())

    batch: int = axis(axes.COUNT, 128, "images per step")
    convolutions: int = axis(axes.choice_of_numbers(1, 2), 2, "C of the study")
    maps: int = axis(axes.COUNT, 8, "P of the study: maps per colour")

    def describe(self, graph: Graph) -> None:
        for number in range(1, self.convolutions + 1):
            graph.conv(f"conv{number}", 3 * self.maps, 5, padding="valid").max_pool(f"pool{number}", 2, 2, "valid")
        graph.flatten().dense("dense1", 120).dense("dense2", 84).dense("output", 10, "none")
