"""The geometry that convolution and pooling share: paddings, output size, and NumPy views of the windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.errors import SpecError
from profkit.ops.axes import Padding, Pair

FORMULA = "out = (in + pad_before + pad_after - dilation*(kernel-1) - 1) // stride + 1"


@dataclass(frozen=True)
class Window:
    size: Pair
    kernel: Pair
    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)

    @property
    def pads(self) -> tuple[int, int, int, int]:
        """Padding as numbers: top, bottom, left, right. `same` puts the odd one after, as TensorFlow does."""
        if self.padding == "valid":
            return 0, 0, 0, 0
        if not isinstance(self.padding, str):
            return self.padding
        pads: list[int] = []
        for extent, kernel, stride, dilation in zip(self.size, self.kernel, self.stride, self.dilation):
            out = -(-extent // stride)
            total = max((out - 1) * stride + dilation * (kernel - 1) + 1 - extent, 0)
            pads += [total // 2, total - total // 2]
        return pads[0], pads[1], pads[2], pads[3]

    @property
    def sides(self) -> tuple[Pair, Pair]:
        """Padding as (top, bottom), (left, right)."""
        top, bottom, left, right = self.pads
        return (top, bottom), (left, right)

    def pad_widths(self, layout: str = "NCHW") -> tuple[Pair, Pair, Pair, Pair]:
        """Padding of every dimension of a batch of images, as np.pad takes it."""
        none, (rows, columns) = (0, 0), self.sides
        return (none, none, rows, columns) if layout == "NCHW" else (none, rows, columns, none)

    @property
    def padded_size(self) -> Pair:
        top, bottom, left, right = self.pads
        return self.size[0] + top + bottom, self.size[1] + left + right

    @property
    def out_size(self) -> Pair:
        rows, columns = (
            (extent - dilation * (kernel - 1) - 1) // stride + 1
            for extent, kernel, stride, dilation in zip(self.padded_size, self.kernel, self.stride, self.dilation)
        )
        return rows, columns

    def params(self) -> dict[str, int | float]:
        """Paddings and output size, as the C structs call them."""
        names = ("pad_top", "pad_bottom", "pad_left", "pad_right", "out_h", "out_w")
        return dict(zip(names, (*self.pads, *self.out_size)))

    def check(self) -> None:
        """Raise SpecError with the formula filled in when no window fits."""
        for i, side in enumerate(("height", "width")):
            reach = self.dilation[i] * (self.kernel[i] - 1) + 1
            if self.padded_size[i] >= reach:
                continue
            before, after = self.pads[2 * i], self.pads[2 * i + 1]
            raise SpecError(
                f"the filter is larger than the padded input: {side} {self.size[i]} + {before} + {after} = "
                f"{self.padded_size[i]}, but the filter reaches {self.dilation[i]}*({self.kernel[i]}-1)+1 = {reach}\n"
                f"  {FORMULA}\n"
                f"      = ({self.size[i]} + {before} + {after} - {self.dilation[i]}*({self.kernel[i]}-1) - 1) // "
                f"{self.stride[i]} + 1 = {self.out_size[i]}"
            )

    def taps_inside(self) -> int:
        """Pairs of an output position and a filter tap that meets the image, not its padding."""
        counts = []
        for side in (0, 1):
            places = np.arange(self.out_size[side])[:, None] * self.stride[side] - self.pads[2 * side]
            meets = places + np.arange(self.kernel[side]) * self.dilation[side]
            counts.append(int(((meets >= 0) & (meets < self.size[side])).sum()))
        return counts[0] * counts[1]

    def element_counts(self) -> NDArray[Any]:
        """[out_h, out_w] numbers of image elements (not padding) under each window: divisors of an average."""
        counts: NDArray[Any] = self.patches(np.ones((1, 1, *self.size))).sum(axis=(4, 5))[0, 0]
        return counts

    def padded(self, images: Any, value: float = 0.0, xp: Any = np) -> Any:
        """NCHW images with their padding, the images themselves without padding; `xp`: NumPy or CuPy."""
        return xp.pad(images, self.pad_widths(), constant_values=value) if any(self.pads) else images

    def padded_zeros(self, batch: int, channels: int) -> NDArray[np.float64]:
        """A zero image batch of the padded size, to scatter gradients into."""
        return np.zeros((batch, channels, *self.padded_size))

    def unpadded(self, padded: Any, xp: Any = np) -> NDArray[Any]:
        """The image inside a padded one."""
        top, _, left, _ = self.pads
        image: NDArray[Any] = xp.ascontiguousarray(padded[:, :, top : top + self.size[0], left : left + self.size[1]])
        return image

    def patches(self, images: Any, value: float = 0.0, xp: Any = np) -> Any:
        """View [n, c, out_h, out_w, kernel_h, kernel_w] of NCHW images, padded with `value`, not to be written to."""
        padded = self.padded(images, value, xp)
        n, c, h, w = padded.strides
        shape = (*padded.shape[:2], *self.out_size, *self.kernel)
        strides = (n, c, h * self.stride[0], w * self.stride[1], h * self.dilation[0], w * self.dilation[1])
        return xp.lib.stride_tricks.as_strided(padded, shape, strides)

    def taps(self, padded: NDArray[Any]) -> Iterator[tuple[Pair, NDArray[Any]]]:
        """For each filter tap (r, s), the view of a padded NCHW image that it meets, one element per output."""
        rows, columns = self.out_size
        for r in range(self.kernel[0]):
            for s in range(self.kernel[1]):
                top, left = r * self.dilation[0], s * self.dilation[1]
                yield (
                    (r, s),
                    padded[
                        :,
                        :,
                        top : top + (rows - 1) * self.stride[0] + 1 : self.stride[0],
                        left : left + (columns - 1) * self.stride[1] + 1 : self.stride[1],
                    ],
                )
