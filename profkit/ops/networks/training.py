"""How a network learns: plain SGD with momentum, the same arithmetic in every framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.fields import Fields


@dataclass(frozen=True)
class Training(Fields):
    """velocity = momentum * velocity + gradient + weight_decay * w; w -= rate * velocity. Decay is the layer's own.

    The tutorial has rate 0.1 without momentum, times 0.1 every 350 epochs, and decay 0.004 on local3 and local4.
    """

    size_formula: ClassVar[str] = "velocity = momentum * velocity + gradient + weight_decay * w; w -= rate * velocity"

    learning_rate: float = axis(axes.NUMBER, 0.1, "of a step")
    momentum: float = axis(axes.NUMBER, 0.0, "share of the last step that is kept; the tutorial has none")
    weight_decay: bool = axis(axes.FLAG, True, "the decay of the layers that have one")

    @property
    def label(self) -> str:
        return "training"
