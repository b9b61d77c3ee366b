"""Pool2d: the maximum or the average of a sliding window, channel by channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.layout import DTYPE, LAYOUT, from_nchw, image_shape, to_nchw
from profkit.ops.spec import Array, Spec
from profkit.ops.window import FORMULA, Window

if TYPE_CHECKING:
    from profkit.ops.axes import PaddingField, PairField

MAX, AVERAGE = "max", "average"


@dataclass(frozen=True)
class Pool2d(Spec):
    """y[n,c,i,j] = max or average of x[n,c] under the window at (i*stride-pad, j*stride-pad).

    Padding never takes part: the average divides by the elements inside the image, and a window that
    would see padding only is an error.
    """

    op: ClassVar[str] = "pool2d"
    size_formula: ClassVar[str] = FORMULA

    batch: int = axis(axes.COUNT, 128, "images per call")
    channels: int = axis(axes.COUNT, 64, "channels")
    height: int = axis(axes.COUNT, 32, "input height")
    width: int = axis(axes.COUNT, 32, "input width")
    kernel_size: PairField = axis(axes.PAIR, (3, 3), "window size, 3 or 3x5")
    stride: PairField = axis(axes.PAIR, (2, 2), "step of the window")
    padding: PaddingField = axis(axes.PADDING, "same", "border around the input: a number, same, valid or TxBxLxR")
    mode: str = axis(axes.choice(MAX, AVERAGE), MAX, "what is taken from a window")
    layout: str = axis(LAYOUT, "NCHW", "order of the input's and output's dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")

    def check(self) -> None:
        window = self.window
        window.check()
        for i, side in enumerate(("height", "width")):
            before, after = window.pads[2 * i], window.pads[2 * i + 1]
            last = (window.out_size[i] - 1) * self.stride[i] - before
            if before < self.kernel_size[i] and last < window.size[i]:
                continue
            raise SpecError(
                f"a window would see padding only: {side} {window.size[i]} with padding {before} before and {after} "
                f"after, kernel {self.kernel_size[i]}, stride {self.stride[i]} (the first window ends at "
                f"{self.kernel_size[i] - before}, which must be above 0; the last of {window.out_size[i]} starts at "
                f"{last}, which must be below {window.size[i]})"
            )

    @property
    def window(self) -> Window:
        """The sliding-window geometry: paddings as numbers, output height and width."""
        return Window((self.height, self.width), self.kernel_size, self.stride, self.padding)

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        return {"x": image_shape(self.layout, self.batch, self.channels, (self.height, self.width))}

    def output_shape(self) -> tuple[int, ...]:
        return image_shape(self.layout, self.batch, self.channels, self.window.out_size)

    def flops(self) -> int:
        """One comparison or addition per window element (padding too), one division per average."""
        outputs = int(np.prod(self.output_shape(), dtype=np.int64))
        return outputs * (self.kernel_size[0] * self.kernel_size[1] + (self.mode == AVERAGE))

    def reduction_length(self) -> int:
        return self.kernel_size[0] * self.kernel_size[1] if self.mode == AVERAGE else 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        if self.mode == MAX:
            result = self.window.patches(x, -np.inf).max(axis=(4, 5))
        else:
            inside = self.window.patches(np.ones((1, 1, self.height, self.width))).sum(axis=(4, 5))
            result = self.window.patches(x).sum(axis=(4, 5)) / inside
        return from_nchw(self.layout, result)
