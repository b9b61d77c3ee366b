"""Conv2d: two-dimensional convolution (cross-correlation, as every framework defines it) and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import Pair, axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec
from profkit.ops.window import FORMULA, Window

if TYPE_CHECKING:
    from profkit.ops.axes import PaddingField, PairField

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "forward", "input-gradient", "weight-gradient"


@dataclass(frozen=True)
class Conv2d(Spec):
    """y[n,k,i,j] = sum over c,r,s of x[n,c,i*stride+r*dilation-pad,...] * w[k,c,r,s] (+ bias, ReLU).

    Arrays: x and y in `layout`; weights always [out_channels, in_channels/groups, kernel_h, kernel_w].
    Gradients are those of the bare convolution: bias and activation do not enter them.
    """

    op: ClassVar[str] = "conv2d"
    size_formula: ClassVar[str] = FORMULA

    batch: int = axis(axes.COUNT, 128, "images per call")
    in_channels: int = axis(axes.COUNT, 64, "channels of the input")
    height: int = axis(axes.COUNT, 16, "input height")
    width: int = axis(axes.COUNT, 16, "input width")
    out_channels: int = axis(axes.COUNT, 64, "filters")
    kernel_size: PairField = axis(axes.PAIR, (5, 5), "filter size, 5 or 3x5")
    stride: PairField = axis(axes.PAIR, (1, 1), "step of the filter")
    padding: PaddingField = axis(axes.PADDING, (2, 2, 2, 2), "zeros around the input: a number, same, valid or TxBxLxR")
    dilation: PairField = axis(axes.PAIR, (1, 1), "distance between filter taps")
    groups: int = axis(axes.COUNT, 1, "independent channel groups")
    bias: bool = axis(axes.FLAG, False, "add one value per filter (forward only)")
    activation: str = axis(axes.choice("none", "relu"), "none", "fused activation (forward only)")
    layout: str = axis(axes.choice("NCHW", "NHWC"), "NCHW", "order of the input's and output's dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(
        axes.choice(FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT), FORWARD, "the result, or a gradient of it"
    )

    def check(self) -> None:
        for name in ("in_channels", "out_channels"):
            if getattr(self, name) % self.groups:
                raise SpecError(
                    f"groups {self.groups} does not divide {name} {getattr(self, name)} "
                    f"(remainder {getattr(self, name) % self.groups})"
                )
        self.window.check()

    @property
    def window(self) -> Window:
        """The sliding-window geometry: paddings as numbers, output height and width."""
        return Window((self.height, self.width), self.kernel_size, self.stride, self.padding, self.dilation)

    def image_shape(self, channels: int, size: Pair) -> tuple[int, ...]:
        """Shape of a batch of images in this spec's layout."""
        if self.layout == "NCHW":
            return (self.batch, channels, *size)
        return (self.batch, *size, channels)

    def x_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's input, whatever the direction."""
        return self.image_shape(self.in_channels, (self.height, self.width))

    def y_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's output, whatever the direction."""
        return self.image_shape(self.out_channels, self.window.out_size)

    def w_shape(self) -> tuple[int, ...]:
        """Shape of the weights: [out_channels, in_channels / groups, kernel_h, kernel_w]."""
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def derived_params(self) -> dict[str, int | float]:
        return self.window.params()

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        if self.direction == INPUT_GRADIENT:
            return {"dy": self.y_shape(), "w": self.w_shape()}
        if self.direction == WEIGHT_GRADIENT:
            return {"x": self.x_shape(), "dy": self.y_shape()}
        shapes = {"x": self.x_shape(), "w": self.w_shape()}
        return {**shapes, "b": (self.out_channels,)} if self.bias else shapes

    def output_shape(self) -> tuple[int, ...]:
        if self.direction == INPUT_GRADIENT:
            return self.x_shape()
        return self.w_shape() if self.direction == WEIGHT_GRADIENT else self.y_shape()

    def flops(self) -> int:
        outputs = self.batch * self.out_channels * int(np.prod(self.window.out_size))
        taps = self.in_channels // self.groups * int(np.prod(self.kernel_size))
        extra = (self.bias + (self.activation == "relu")) if self.direction == FORWARD else 0
        return outputs * (2 * taps + extra)

    def least_flops(self) -> int:
        """Without the products with zeros of the padding, which a kernel may leave out."""
        outside = int(np.prod(self.window.out_size)) * int(np.prod(self.kernel_size)) - self.window.taps_inside()
        return self.flops() - 2 * self.batch * self.out_channels * (self.in_channels // self.groups) * outside

    def reduction_length(self) -> int:
        taps = int(np.prod(self.kernel_size))
        if self.direction == INPUT_GRADIENT:
            return self.out_channels // self.groups * taps
        if self.direction == WEIGHT_GRADIENT:
            return self.batch * int(np.prod(self.window.out_size))
        return self.in_channels // self.groups * taps

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        arrays = {name: self._to_nchw(name, array.astype(np.float64)) for name, array in inputs.items()}
        if self.direction == INPUT_GRADIENT:
            result = self._input_gradient(arrays["dy"], arrays["w"])
        elif self.direction == WEIGHT_GRADIENT:
            return self._weight_gradient(arrays["x"], arrays["dy"])
        else:
            result = self._forward(arrays)
        return result if self.layout == "NCHW" else np.ascontiguousarray(result.transpose(0, 2, 3, 1))

    def _to_nchw(self, name: str, array: Array) -> Array:
        return array.transpose(0, 3, 1, 2) if self.layout == "NHWC" and name in ("x", "dy") else array

    def _forward(self, arrays: Mapping[str, Array]) -> NDArray[np.float64]:
        patches = self.window.patches(arrays["x"])
        result: NDArray[np.float64] = np.empty((self.batch, self.out_channels, *self.window.out_size))
        for into, out_of in self._groups():
            result[:, out_of] = np.einsum("ncijrs,kcrs->nkij", patches[:, into], arrays["w"][out_of], optimize=True)
        if self.bias:
            result += arrays["b"][None, :, None, None]
        return np.maximum(result, 0.0) if self.activation == "relu" else result

    def _input_gradient(self, dy: Array, w: Array) -> NDArray[np.float64]:
        padded = self.window.padded_zeros(self.batch, self.in_channels)
        for into, out_of in self._groups():
            for (r, s), view in self.window.taps(padded[:, into]):
                share = np.einsum("nkij,kc->ncij", dy[:, out_of], w[out_of, :, r, s], optimize=True)
                np.add(view, share, out=view)
        return self.window.unpadded(padded)

    def _weight_gradient(self, x: Array, dy: Array) -> NDArray[np.float64]:
        patches = self.window.patches(x)
        result: NDArray[np.float64] = np.empty(self.w_shape())
        for into, out_of in self._groups():
            result[out_of] = np.einsum("ncijrs,nkij->kcrs", patches[:, into], dy[:, out_of], optimize=True)
        return result

    def _groups(self) -> list[tuple[slice, slice]]:
        """Channel slices (input, output) of every group."""
        c, k = self.in_channels // self.groups, self.out_channels // self.groups
        return [(slice(g * c, (g + 1) * c), slice(g * k, (g + 1) * k)) for g in range(self.groups)]
