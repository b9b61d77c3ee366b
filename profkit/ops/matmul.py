"""MatMul: c = a b (+ bias, ReLU), one product or a batch of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import LENET_MAPS, Array, Spec


@dataclass(frozen=True)
class MatMul(Spec):
    """c[m,n] = sum over k of a[m,k] * b[k,n] (+ bias[n], ReLU).

    Arrays: a is [m,k], or [k,m] with transpose_a; b is [k,n], or [n,k] with transpose_b; c is [m,n].
    Only with batch > 1 do a, b and c have a leading batch dimension; the bias [n] is shared by the batch.
    """

    op: ClassVar[str] = "matmul"
    size_formula: ClassVar[str] = "c[m,n] = a[m,k] b[k,n] + bias[n]; m, n, k and batch are at least 1"

    m: int = axis(axes.COUNT, 1024, "rows of the result")
    n: int = axis(axes.COUNT, 1024, "columns of the result")
    k: int = axis(axes.COUNT, 1024, "terms summed into one element")
    batch: int = axis(axes.COUNT, 1, "independent products per call")
    transpose_a: bool = axis(axes.FLAG, False, "a is stored as [k,m]")
    transpose_b: bool = axis(axes.FLAG, False, "b is stored as [n,k], as dense layers often do")
    bias: bool = axis(axes.FLAG, False, "add one value per column")
    activation: str = axis(axes.choice("none", "relu"), "none", "fused activation")
    dtype: str = axis(DTYPE, "float32", "element type")

    def _batched(self, *shape: int) -> tuple[int, ...]:
        return (self.batch, *shape) if self.batch > 1 else shape

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = {
            "a": self._batched(self.k, self.m) if self.transpose_a else self._batched(self.m, self.k),
            "b": self._batched(self.n, self.k) if self.transpose_b else self._batched(self.k, self.n),
        }
        return {**shapes, "bias": (self.n,)} if self.bias else shapes

    def leading_input(self) -> tuple[str, int]:
        return "a", int(self.transpose_a and self.batch == 1)

    def output_shape(self) -> tuple[int, ...]:
        return self._batched(self.m, self.n)

    def flops(self) -> int:
        """One multiply-add per term, one operation per element for bias and ReLU: batch m n (2k + bias + relu)."""
        return self.batch * self.m * self.n * (2 * self.k + self.bias + (self.activation == "relu"))

    def reduction_length(self) -> int:
        return self.k

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
        a, b = inputs["a"].astype(np.float64), inputs["b"].astype(np.float64)
        a = np.swapaxes(a, -1, -2) if self.transpose_a else a
        b = np.swapaxes(b, -1, -2) if self.transpose_b else b
        result: NDArray[np.float64] = np.matmul(a, b)
        result = result + inputs["bias"].astype(np.float64) if self.bias else result
        return np.maximum(result, 0.0) if self.activation == "relu" else result

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        presets: dict[str, Spec] = {
            "square.1024": MatMul(1024, 1024, 1024),
            "square.256": MatMul(256, 256, 256),
            "cifar10.local3": _dense(128, 4096, 384),
            "cifar10.local4": _dense(128, 384, 192),
            "cifar10.softmax_linear": _dense(128, 192, 10),
            "cifar10.crop24.local3": _dense(128, 2304, 384),
            "alexnet.fc6": _dense(32, 9216, 4096),
            "alexnet.fc6.slim": _dense(32, 6400, 4096),
            "alexnet.fc7": _dense(32, 4096, 4096),
            "alexnet.fc8": _dense(32, 4096, 1000),
            "googlenet.fc": _dense(32, 1024, 1000),
            "mlp.cifar10.hidden": _dense(32, 960, 960),
            "mlp.cifar10.out": _dense(32, 960, 10),
        }
        for width in (25, 50, 100, 200, 400, 1600):
            presets[f"mlp.shuttle.n{width}.hidden"] = _dense(128, width, width)
        for width in (400, 1600, 6400):
            presets[f"mlp.solar.w{width}.layer1"] = _dense(1000, 50, width)
            presets[f"mlp.solar.w{width}.layer2"] = _dense(1000, width, width // 2)
            presets[f"mlp.solar.w{width}.layer3"] = _dense(1000, width // 2, 13 * width // 50)
        for maps in LENET_MAPS:
            presets[f"lenet.p{maps}.dense1"] = _dense(128, 75 * maps, 120)
        presets["transformer.scores"] = MatMul(128, 128, 32, 32 * 8, transpose_b=True)
        presets["transformer.values"] = MatMul(128, 32, 128, 32 * 8)
        presets["lenet.dense2"] = _dense(128, 120, 84)
        presets["lenet.dense3"] = _dense(128, 84, 10)
        presets["solar.dense"] = _dense(512, 33856, 128)
        presets["solar.out"] = _dense(512, 128, 1)
        return presets

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        return [
            MatMul(1, 1, 1),
            MatMul(1, 7, 5),
            MatMul(7, 1, 5),
            MatMul(37, 1, 29, transpose_a=True, bias=True),
            MatMul(37, 1, 29, batch=2, transpose_b=True, bias=True, dtype="float64"),
            MatMul(5, 7, 1),
            MatMul(1, 33, 129, bias=True),
            MatMul(3, 5, 7),
            MatMul(17, 19, 23, transpose_a=True),
            MatMul(17, 19, 23, transpose_b=True),
            MatMul(17, 19, 23, transpose_a=True, transpose_b=True, bias=True),
            MatMul(31, 33, 65, dtype="float64"),
            MatMul(9, 13, 17, dtype="float64", transpose_b=True, bias=True),
            MatMul(64, 64, 64),
            MatMul(65, 63, 257),
            MatMul(129, 7, 300),
            MatMul(6, 16, 400),
            MatMul(4, 3, 6, batch=5),
            MatMul(4, 3, 6, batch=5, transpose_a=True, bias=True),
            MatMul(1, 1, 1, batch=3),
            MatMul(13, 11, 9, batch=2, transpose_b=True, dtype="float64"),
            MatMul(1, 33, 29, bias=True, activation="relu"),
            MatMul(3, 35, 29, transpose_b=True, activation="relu"),
            MatMul(37, 1, 29, bias=True, activation="relu"),
            MatMul(41, 1, 17, transpose_a=True, activation="relu", dtype="float64"),
            MatMul(33, 31, 300, bias=True, activation="relu"),
            MatMul(9, 7, 11, batch=3, bias=True, activation="relu", transpose_a=True),
            MatMul(17, 19, 23, dtype="float16"),
            MatMul(9, 130, 65, dtype="float16", transpose_b=True, bias=True, activation="relu"),
            MatMul(17, 33, 70, dtype="bfloat16", transpose_a=True),
            MatMul(5, 6, 40, batch=2, dtype="bfloat16", bias=True, activation="relu"),
        ]

    @classmethod
    def round_shapes(cls) -> list[Spec]:
        return [MatMul(64, 64, 512), MatMul(64, 64, 512, dtype="float16")]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [
            MatMul(259, 261, 301),
            MatMul(130, 515, 260, transpose_a=True, transpose_b=True, bias=True, dtype="float64"),
            MatMul(67, 129, 131, batch=5, bias=True, activation="relu"),
        ]


def _dense(batch: int, inputs: int, outputs: int) -> MatMul:
    return MatMul(m=batch, n=outputs, k=inputs)
