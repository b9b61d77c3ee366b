"""Pool2d: the maximum or the average of a sliding window, channel by channel, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, Images, from_nchw, image_shape, to_nchw
from profkit.ops.spec import LENET_MAPS, Array, Spec
from profkit.ops.window import FORMULA, Window

if TYPE_CHECKING:
    from profkit.ops.axes import PaddingField, PairField

MAX, AVERAGE = "max", "average"


@dataclass(frozen=True)
class Pool2d(Images, Spec):
    """y[n,c,i,j] = max or average of x[n,c] under the window at (i*stride-pad, j*stride-pad).

    Padding never takes part: the average divides by the elements inside the image, and a window that
    would see padding only is an error. The gradient of a maximum goes to the first element of the window that
    equals it, row by row, as in torch and cuDNN; that of an average in equal shares to the elements inside the image.
    """

    op: ClassVar[str] = "pool2d"
    size_formula: ClassVar[str] = FORMULA

    kernel_size: PairField = axis(axes.PAIR, (3, 3), "window size, 3 or 3x5")
    stride: PairField = axis(axes.PAIR, (2, 2), "step of the window")
    padding: PaddingField = axis(axes.PADDING, "same", "border around the input: a number, same, valid or TxBxLxR")
    mode: str = axis(axes.choice(MAX, AVERAGE), MAX, "what is taken from a window")
    layout: str = axis(LAYOUT, "NCHW", "order of the input's and output's dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(axes.choice(FORWARD, INPUT_GRADIENT), FORWARD, "the result, or the gradient of its input")

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

    def y_shape(self) -> tuple[int, ...]:
        """Shape of the pooled images, for every direction."""
        return image_shape(self.layout, self.batch, self.channels, self.window.out_size)

    def derived_params(self) -> dict[str, int | float]:
        return self.window.params()

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.direction == FORWARD:
            return {"x": self.x_shape()}
        # Only a maximum has to look where its value came from.
        return {"x": self.x_shape(), "dy": self.y_shape()} if self.mode == MAX else {"dy": self.y_shape()}

    def output_shape(self) -> tuple[int, ...]:
        return self.y_shape() if self.direction == FORWARD else self.x_shape()

    def flops(self) -> int:
        """One comparison or addition per window element (padding too); one division per average, and one addition per
        window for the gradient of a maximum."""
        windows = int(np.prod(self.y_shape(), dtype=np.int64))
        extra = self.mode == AVERAGE or self.direction == INPUT_GRADIENT
        return windows * (self.kernel_size[0] * self.kernel_size[1] + extra)

    def reduction_length(self) -> int:
        if self.direction == INPUT_GRADIENT:  # as many as there are windows over one element
            rows, columns = (-(-size // step) for size, step in zip(self.kernel_size, self.stride))
            return rows * columns
        return self.kernel_size[0] * self.kernel_size[1] if self.mode == AVERAGE else 1

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        if self.direction == INPUT_GRADIENT:
            return self._gradient(inputs)
        x = to_nchw(self.layout, inputs["x"].astype(np.float64))
        if self.mode == MAX:
            result = self.window.patches(x, -np.inf).max(axis=(4, 5))
        else:
            inside = self.window.element_counts()
            result = self.window.patches(x).sum(axis=(4, 5)) / inside
        return from_nchw(self.layout, result)

    def _gradient(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        """Tap by tap: what each window gives to its element at (r, s)."""
        window = self.window
        dy = to_nchw(self.layout, inputs["dy"].astype(np.float64))
        padded = window.padded_zeros(self.batch, self.channels)
        if self.mode == MAX:
            patches = window.patches(to_nchw(self.layout, inputs["x"].astype(np.float64)), -np.inf)
            first = patches.reshape(*patches.shape[:4], -1).argmax(axis=4)
            for (r, s), met in window.taps(padded):
                np.add(met, np.where(first == r * self.kernel_size[1] + s, dy, 0.0), out=met)
        else:
            shares = dy / window.element_counts()
            for _, met in window.taps(padded):
                np.add(met, shares, out=met)
        return from_nchw(self.layout, window.unpadded(padded))

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        # SAME at stride 2 pads after only, and so does Caffe's rounding up in GoogLeNet: the odd one is 0x1x0x1.
        presets: dict[str, Spec] = {
            "cifar10.pool1": _pool(128, "64x32x32", 3, 2, "same"),
            "cifar10.pool2": _pool(128, "64x16x16", 3, 2, "same"),
            "alexnet.pool1": _pool(32, "96x55x55", 3, 2),
            "alexnet.pool2": _pool(32, "256x27x27", 3, 2),
            "alexnet.pool5": _pool(32, "256x13x13", 3, 2),
            "googlenet.pool1": _pool(32, "64x112x112", 3, 2, "same"),
            "googlenet.pool2": _pool(32, "192x56x56", 3, 2, "same"),
            "googlenet.3a.pool": _pool(32, "192x28x28", 3, 1, "1"),
            "googlenet.pool5": _pool(32, "1024x7x7", 7, 1).replaced(mode=AVERAGE),
            "allcnn.pool": _pool(100, "10x6x6", 6, 1).replaced(mode=AVERAGE),
            "solar.pool": _pool(512, "64x46x46", 2, 2),
        }
        for maps in LENET_MAPS:
            presets[f"lenet.p{maps}.pool1"] = _pool(128, f"{3 * maps}x28x28", 2, 2)
            presets[f"lenet.p{maps}.pool2"] = _pool(128, f"{3 * maps}x10x10", 2, 2)
        return presets

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        shapes: tuple[dict[str, Any], ...] = (
            {"height": 1, "width": 1, "kernel_size": 1},
            {"height": 5, "width": 7, "kernel_size": 3, "stride": 2, "padding": "same"},
            {"height": 8, "width": 8, "kernel_size": 3, "stride": 2, "padding": "same", "layout": "NHWC"},
            {"height": 9, "width": 6, "kernel_size": 2, "stride": 2},
            {"height": 7, "width": 7, "kernel_size": 3, "padding": 1, "dtype": "float64"},
            {"height": 11, "width": 10, "kernel_size": 2, "stride": 3},
            {"height": 6, "width": 6, "kernel_size": "2x3", "stride": "1x2", "padding": "1x0x0x1"},
            {"height": 7, "width": 7, "kernel_size": 7, "layout": "NHWC"},
            {"height": 9, "width": 5, "kernel_size": 5, "stride": 5, "padding": 2},
            # More than half of the window is padding, yet no window is empty: several frameworks refuse this.
            {"height": 5, "width": 6, "kernel_size": 3, "padding": 2},
            {"height": 3, "width": 17, "channels": 19, "kernel_size": "1x4", "padding": "0x0x1x2"},
            # Few values in 16 bits: maxima that are equal are usual here.
            {"height": 9, "width": 8, "kernel_size": 3, "stride": 2, "padding": 1, "dtype": "float16"},
            {"height": 8, "width": 9, "kernel_size": 2, "stride": 2, "dtype": "bfloat16", "layout": "NHWC"},
        )
        base = {"batch": 2, "channels": 3, "stride": 1, "padding": 0}
        return [
            Pool2d(**{**base, **shape, "mode": mode, "direction": direction})
            for direction in (FORWARD, INPUT_GRADIENT)
            for shape in shapes
            for mode in (MAX, AVERAGE)
        ]

    @classmethod
    def round_shapes(cls) -> list[Spec]:
        return [
            Pool2d(1, 8, 6, 6, kernel_size=2, stride=2, layout="NHWC", direction=way)
            for way in (FORWARD, INPUT_GRADIENT)
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            Pool2d(3, 19, 61, 59, kernel_size=3, stride=2, padding=1, mode=mode, layout=layout, direction=way)
            for way in (FORWARD, INPUT_GRADIENT)
            for mode, layout in ((MAX, "NCHW"), (AVERAGE, "NHWC"))
        ]


def _pool(batch: int, image: str, kernel: int, stride: int, padding: str = "valid") -> Pool2d:
    channels, height, width = map(int, image.split("x"))
    return Pool2d(batch, channels, height, width, kernel, stride, padding)
