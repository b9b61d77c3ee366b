"""Conv2d: two-dimensional convolution (cross-correlation, as every framework defines it) and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.layout import LAYOUT, from_nchw, image_shape, to_nchw
from profkit.ops.spec import LENET_MAPS, Array, Spec
from profkit.ops.window import FORMULA, Window

if TYPE_CHECKING:
    from profkit.ops.axes import PaddingField, PairField

MOST_WINDOW_VALUES = 1 << 24
"""Of the float64 reference at once."""
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "forward", "input-gradient", "weight-gradient"


def result_or(*gradients: str) -> Any:
    """The field `direction` of an operator with these gradients."""
    return axis(axes.choice(FORWARD, *gradients), FORWARD, "the result, or a gradient of it")


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
    layout: str = axis(LAYOUT, "NCHW", "order of the input's and output's dimensions")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = result_or(INPUT_GRADIENT, WEIGHT_GRADIENT)

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

    def x_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's input, for every direction."""
        return image_shape(self.layout, self.batch, self.in_channels, (self.height, self.width))

    def y_shape(self) -> tuple[int, ...]:
        """Shape of the convolution's output, for every direction."""
        return image_shape(self.layout, self.batch, self.out_channels, self.window.out_size)

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

    def leading_input(self) -> tuple[str, int]:
        if self.direction == WEIGHT_GRADIENT:
            return "dy", 1 if self.layout == "NCHW" else 3
        return super().leading_input()

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
        arrays = {name: array.astype(np.float64) for name, array in inputs.items()}
        arrays |= {name: to_nchw(self.layout, arrays[name]) for name in ("x", "dy") if name in arrays}
        if self.direction == WEIGHT_GRADIENT:
            return self._weight_gradient(arrays["x"], arrays["dy"])
        if self.direction == INPUT_GRADIENT:
            return from_nchw(self.layout, self._input_gradient(arrays["dy"], arrays["w"]))
        return from_nchw(self.layout, self._forward(arrays))

    def _forward(self, arrays: Mapping[str, Array]) -> NDArray[np.float64]:
        patches = self.window.patches(arrays["x"])
        result: NDArray[np.float64] = np.empty((self.batch, self.out_channels, *self.window.out_size))
        for into, out_of in self._groups():
            for some in self._some_images():
                windows, w = patches[some, into], arrays["w"][out_of]
                result[some, out_of] = np.einsum("ncijrs,kcrs->nkij", windows, w, optimize=True)
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
        result: NDArray[np.float64] = np.zeros(self.w_shape())
        for into, out_of in self._groups():
            for some in self._some_images():
                result[out_of] += np.einsum("ncijrs,nkij->kcrs", patches[some, into], dy[some, out_of], optimize=True)
        return result

    def _some_images(self) -> list[slice]:
        """All images in parts, because their windows are copied for a product."""
        values = self.in_channels * int(np.prod(self.kernel_size)) * int(np.prod(self.window.out_size))
        step = max(1, MOST_WINDOW_VALUES // values)
        return [slice(first, first + step) for first in range(0, self.batch, step)]

    def _groups(self) -> list[tuple[slice, slice]]:
        """Channel slices (input, output) of every group."""
        c, k = self.in_channels // self.groups, self.out_channels // self.groups
        return [(slice(g * c, (g + 1) * c), slice(g * k, (g + 1) * k)) for g in range(self.groups)]

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        presets: dict[str, Spec] = {
            "cifar10.conv2": _conv(128, "64x16x16", 64, 5, pad=2),
            "cifar10.conv1": _conv(128, "3x32x32", 64, 5, pad=2),
            # The tutorial's 24x24 crop, to which the published operation counts belong.
            "cifar10.crop24.conv1": _conv(128, "3x24x24", 64, 5, pad=2),
            "cifar10.crop24.conv2": _conv(128, "64x12x12", 64, 5, pad=2),
            "alexnet.conv1": _conv(32, "3x227x227", 96, 11, stride=4),
            "alexnet.conv2": _conv(32, "96x27x27", 256, 5, pad=2).replaced(groups=2),
            "alexnet.conv3": _conv(32, "256x13x13", 384, 3, pad=1),
            "alexnet.conv4": _conv(32, "384x13x13", 384, 3, pad=1).replaced(groups=2),
            "alexnet.conv5": _conv(32, "384x13x13", 256, 3, pad=1).replaced(groups=2),
            "alexnet.conv2.ungrouped": _conv(32, "96x27x27", 256, 5, pad=2),
            "alexnet.conv4.ungrouped": _conv(32, "384x13x13", 384, 3, pad=1),
            "alexnet.conv5.ungrouped": _conv(32, "384x13x13", 256, 3, pad=1),
            "googlenet.conv1": _conv(32, "3x224x224", 64, 7, stride=2, pad=3),
            "googlenet.conv2.reduce": _conv(32, "64x56x56", 64, 1),
            "googlenet.conv2": _conv(32, "64x56x56", 192, 3, pad=1),
        }
        presets |= _inception("googlenet.3a", 192, 28, (64, 96, 128, 16, 32, 32))
        presets |= _inception("googlenet.5b", 832, 7, (384, 192, 384, 48, 128, 128))
        for maps in LENET_MAPS:
            presets[f"lenet.p{maps}.conv1"] = _conv(128, "3x32x32", 3 * maps, 5)
            presets[f"lenet.p{maps}.conv2"] = _conv(128, f"{3 * maps}x14x14", 3 * maps, 5)
        presets["solar.conv1"] = _conv(512, "1x50x50", 32, 3)
        presets["solar.conv2"] = _conv(512, "32x48x48", 64, 3)
        return presets | _allcnn() | _wide_resnet()

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        base = {"batch": 2, "in_channels": 3, "out_channels": 4, "stride": 1, "padding": 0}
        everywhere = [
            Conv2d(**{**base, **shape, "direction": direction})
            for shape in _CONV_SHAPES
            for direction in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
        ]
        return [*everywhere, *(Conv2d(**{**base, **shape}) for shape in _CONV_FORWARD_ONLY)]

    @classmethod
    def round_shapes(cls) -> list[Spec]:
        return [
            *(Conv2d(1, 8, 6, 6, 8, 3, padding=1, direction=way) for way in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)),
            Conv2d(1, 8, 7, 7, 8, 5, padding=1),
            Conv2d(1, 8, 7, 7, 8, 3, padding=1, groups=8),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            Conv2d(2, 33, 30, 29, 34, 3, stride=stride, padding=1, layout=layout, dtype=dtype, direction=way)
            for way in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
            for stride, layout, dtype in ((1, "NCHW", "float32"), (2, "NHWC", "float32"), (1, "NCHW", "float64"))
        ]


_CONV_SHAPES: tuple[dict[str, Any], ...] = (
    {"batch": 1, "in_channels": 1, "height": 1, "width": 1, "out_channels": 1, "kernel_size": 1},
    {"batch": 3, "in_channels": 5, "height": 1, "width": 1, "out_channels": 7, "kernel_size": 3, "padding": 1},
    {"in_channels": 4, "height": 10, "width": 8, "out_channels": 6, "kernel_size": 3, "stride": 2, "padding": "same"},
    {"height": 11, "width": 7, "kernel_size": 3, "stride": 3, "padding": 1, "dtype": "float64"},
    {"height": 13, "width": 12, "kernel_size": 2, "stride": 5},
    {"height": 6, "width": 5, "kernel_size": 2, "stride": "1x3", "padding": 4},
    {"height": 7, "width": 9, "kernel_size": "3x4", "padding": "1x2x0x3", "layout": "NHWC"},
    {"height": 12, "width": 11, "kernel_size": 3, "dilation": "2x3", "padding": 2},
    {"in_channels": 6, "out_channels": 9, "height": 8, "width": 8, "kernel_size": 3, "groups": 3, "padding": "same"},
    {"in_channels": 5, "out_channels": 5, "height": 7, "width": 6, "kernel_size": 3, "groups": 5, "padding": 1},
    {"height": 17, "width": 5, "kernel_size": "7x1", "layout": "NHWC", "stride": "2x1"},
    {"in_channels": 9, "height": 6, "width": 7, "kernel_size": 3, "stride": 2, "padding": 1, "dtype": "float16"},
    {"out_channels": 17, "height": 7, "width": 5, "kernel_size": 3, "padding": 1, "dtype": "bfloat16"},
)
_CONV_FORWARD_ONLY: tuple[dict[str, Any], ...] = (
    {"in_channels": 3, "height": 9, "width": 11, "out_channels": 5, "kernel_size": 5, "padding": 2},
    {"height": 5, "width": 17, "kernel_size": "1x7", "padding": "0x0x3x3"},
    {"height": 9, "width": 10, "kernel_size": 3, "padding": 1, "bias": True},
    {"height": 9, "width": 10, "kernel_size": 3, "stride": 2, "bias": True, "activation": "relu", "layout": "NHWC"},
    {"height": 6, "width": 6, "kernel_size": 5, "padding": "same", "activation": "relu", "dtype": "float64"},
    {"height": 9, "width": 7, "kernel_size": 3, "bias": True, "activation": "relu", "dtype": "float16"},
    {"height": 5, "width": 6, "kernel_size": 2, "bias": True, "layout": "NHWC", "dtype": "bfloat16"},
    # One more than a usual vector or tile in every direction.
    {"batch": 1, "in_channels": 17, "out_channels": 33, "height": 17, "width": 19, "kernel_size": 3, "padding": 1},
    {"in_channels": 3, "out_channels": 6, "height": 8, "width": 9, "kernel_size": 3, "groups": 3, "layout": "NHWC"},
)


def _conv(batch: int, image: str, out_channels: int, kernel: int, *, stride: int = 1, pad: int = 0) -> Conv2d:
    """`image` is channels x height x width."""
    channels, height, width = map(int, image.split("x"))
    return Conv2d(batch, channels, height, width, out_channels, kernel, stride, pad)


def _inception(name: str, channels: int, size: int, filters: tuple[int, int, int, int, int, int]) -> dict[str, Spec]:
    """The six convolutions of a module: 1x1; 3x3.reduce, 3x3; 5x5.reduce, 5x5; pool_proj."""
    one, reduce3, three, reduce5, five, proj = filters
    area = f"{size}x{size}"
    return {
        f"{name}.1x1": _conv(32, f"{channels}x{area}", one, 1),
        f"{name}.3x3.reduce": _conv(32, f"{channels}x{area}", reduce3, 1),
        f"{name}.3x3": _conv(32, f"{reduce3}x{area}", three, 3, pad=1),
        f"{name}.5x5.reduce": _conv(32, f"{channels}x{area}", reduce5, 1),
        f"{name}.5x5": _conv(32, f"{reduce5}x{area}", five, 5, pad=2),
        f"{name}.pool_proj": _conv(32, f"{channels}x{area}", proj, 1),
    }


def _allcnn() -> dict[str, Spec]:
    """All-CNN-C. The study gives no padding: 1 around every 3x3 filter but the last, as first published."""
    return {
        "allcnn.conv1": _conv(100, "3x32x32", 96, 3, pad=1),
        "allcnn.conv2": _conv(100, "96x32x32", 96, 3, pad=1),
        "allcnn.conv3": _conv(100, "96x32x32", 96, 3, stride=2, pad=1),
        "allcnn.conv4": _conv(100, "96x16x16", 192, 3, pad=1),
        "allcnn.conv5": _conv(100, "192x16x16", 192, 3, pad=1),
        "allcnn.conv6": _conv(100, "192x16x16", 192, 3, stride=2, pad=1),
        "allcnn.conv7": _conv(100, "192x8x8", 192, 3),
        "allcnn.conv8": _conv(100, "192x6x6", 192, 1),
        "allcnn.conv9": _conv(100, "192x6x6", 10, 1),
    }


def _wide_resnet() -> dict[str, Spec]:
    """WRN-16-4 on 32x32 images: one convolution of each shape in its three groups, and the shortcuts' 1x1."""
    presets: dict[str, Spec] = {
        "wrn16-4.stem": _conv(128, "3x32x32", 16, 3, pad=1),
        "wrn16-4.group1.first": _conv(128, "16x32x32", 64, 3, pad=1),
        "wrn16-4.group1": _conv(128, "64x32x32", 64, 3, pad=1),
    }
    for group, channels, size in ((2, 64, 32), (3, 128, 16)):
        image = f"{channels}x{size}x{size}"
        presets[f"wrn16-4.group{group}.first"] = _conv(128, image, 2 * channels, 3, stride=2, pad=1)
        presets[f"wrn16-4.group{group}.shortcut"] = _conv(128, image, 2 * channels, 1, stride=2)
        presets[f"wrn16-4.group{group}"] = _conv(128, f"{2 * channels}x{size // 2}x{size // 2}", 2 * channels, 3, pad=1)
    return presets
