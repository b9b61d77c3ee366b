"""The networks of the studies and of the papers that they cite, a module each; the registry takes whatever is here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.network import Network
from profkit.ops.networks.training import Training

DEPTHS = axes.choice_of_numbers(1, 2, 3, 4, 5)
SIZE_CHANGES = axes.choice_of_numbers(-3, -2, -1, 0, 1, 2)
"""Sweeps of the Keras study."""


def scaled(count: int, factor: float) -> int:
    """A share of the published filters or neurons, at least one."""
    if not 0 < factor < math.inf:
        raise SpecError(f"a share of the published filters or neurons is above 0, got {factor:g}")
    return max(1, round(count * factor))


@dataclass(frozen=True)
class ForImageNet(Network, data="ImageNet"):
    """What the networks for ImageNet have in common."""

    training: ClassVar[Training] = Training(learning_rate=0.01, momentum=0.9)

    batch: int = axis(axes.COUNT, 16, "images per step")
    classes: int = axis(axes.COUNT, 1000, "outputs")
    factor: float = axis(axes.NUMBER, 1.0, "share of the published filters and neurons")

    def scaled(self, count: int) -> int:
        return scaled(count, self.factor)


@dataclass(frozen=True)
class OfAnySize(ForImageNet):
    """Those that end in an average over the image, or divide it evenly."""

    side: int = axis(axes.COUNT, 224, "height and width of the images, at least 32")

    def input_shape(self) -> Shape:
        return (self.batch, 3, self.side, self.side)


@dataclass(frozen=True)
class Varied(Network):
    """A network of the Keras study, which varies depth, filters and their size."""

    batch: int = axis(axes.COUNT, 128, "images per step")
    depth: int = axis(DEPTHS, 1, "how often each convolution is repeated")
    filters: float = axis(axes.NUMBER, 1.0, "factor of the published filters")
    size_change: int = axis(SIZE_CHANGES, 0, "added to the published filter sizes")

    def repeat(
        self, graph: Graph, stage: int, filters: int, padding: Any, size: int = 5, has_norm: bool = False
    ) -> None:
        """A stage's convolutions, each with ReLU, and with batch normalisation before it."""
        for number in range(1, self.depth + 1):
            name, activation = f"conv{stage}_{number}", "none" if has_norm else "relu"
            graph.conv(name, scaled(filters, self.filters), size + self.size_change, 1, padding, activation)
            if has_norm:
                graph.batch_norm(f"{name}_norm").activate(f"{name}_relu", "relu")
