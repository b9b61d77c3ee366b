"""Odd, tiny and non-multiple shapes, on which every kernel and adapter is tested; each runs in milliseconds."""

from __future__ import annotations

from typing import Any

from profkit.errors import UsageError
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import AVERAGE, MAX, Pool2d
from profkit.ops.softmax import Softmax
from profkit.ops.spec import Spec

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


def _conv2d() -> list[Spec]:
    base = {"batch": 2, "in_channels": 3, "out_channels": 4, "stride": 1, "padding": 0}
    everywhere = [
        Conv2d(**{**base, **shape, "direction": direction})
        for shape in _CONV_SHAPES
        for direction in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
    ]
    return [*everywhere, *(Conv2d(**{**base, **shape}) for shape in _CONV_FORWARD_ONLY)]


def _matmul() -> list[Spec]:
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


def _pool2d() -> list[Spec]:
    shapes: tuple[dict[str, Any], ...] = (
        {"height": 1, "width": 1, "kernel_size": 1, "stride": 1, "padding": 0},
        {"height": 5, "width": 7, "kernel_size": 3, "stride": 2, "padding": "same"},
        {"height": 8, "width": 8, "kernel_size": 3, "stride": 2, "padding": "same", "layout": "NHWC"},
        {"height": 9, "width": 6, "kernel_size": 2, "stride": 2, "padding": 0},
        {"height": 7, "width": 7, "kernel_size": 3, "stride": 1, "padding": 1, "dtype": "float64"},
        {"height": 11, "width": 10, "kernel_size": 2, "stride": 3, "padding": 0},
        {"height": 6, "width": 6, "kernel_size": "2x3", "stride": "1x2", "padding": "1x0x0x1"},
        {"height": 7, "width": 7, "kernel_size": 7, "stride": 1, "padding": 0, "layout": "NHWC"},
        {"height": 9, "width": 5, "kernel_size": 5, "stride": 5, "padding": 2},
        # More than half of the window is padding, yet no window is empty: several frameworks refuse this.
        {"height": 5, "width": 6, "kernel_size": 3, "stride": 1, "padding": 2},
        {"height": 3, "width": 17, "channels": 19, "kernel_size": "1x4", "stride": 1, "padding": "0x0x1x2"},
        # Few values in 16 bits: maxima that are equal are usual here.
        {"height": 9, "width": 8, "kernel_size": 3, "stride": 2, "padding": 1, "dtype": "float16"},
        {"height": 8, "width": 9, "kernel_size": 2, "stride": 2, "padding": 0, "dtype": "bfloat16", "layout": "NHWC"},
    )
    base = {"batch": 2, "channels": 3}
    return [
        Pool2d(**{**base, **shape, "mode": mode, "direction": direction})
        for direction in (FORWARD, INPUT_GRADIENT)
        for shape in shapes
        for mode in (MAX, AVERAGE)
    ]


def _lrn() -> list[Spec]:
    return [
        LocalResponseNorm(1, 1, 1, 1),
        LocalResponseNorm(1, 1, 3, 3, size=1),
        LocalResponseNorm(2, 3, 5, 4),
        LocalResponseNorm(2, 9, 4, 5),
        LocalResponseNorm(2, 16, 3, 7, layout="NHWC"),
        LocalResponseNorm(1, 33, 5, 5, size=5, alpha=0.0001),
        LocalResponseNorm(2, 8, 3, 3, size=2, alpha=0.5),
        LocalResponseNorm(2, 8, 3, 3, size=4, alpha=0.5, layout="NHWC"),
        LocalResponseNorm(2, 5, 3, 3, size=6, alpha=1.0),
        LocalResponseNorm(1, 4, 2, 9, size=20, alpha=1.0),
        LocalResponseNorm(2, 7, 4, 4, size=3, alpha=1.0, beta=0.5, k=2.0),
        LocalResponseNorm(2, 7, 4, 4, size=3, alpha=1.0, beta=1.0, k=0.5),
        LocalResponseNorm(2, 7, 4, 4, size=3, alpha=2.0, beta=0.33),
        LocalResponseNorm(2, 6, 5, 3, dtype="float64", alpha=1.0),
        LocalResponseNorm(1, 17, 3, 3, dtype="float64", layout="NHWC", size=5, alpha=1.0),
        LocalResponseNorm(2, 9, 3, 4, dtype="float16", size=5),
        LocalResponseNorm(2, 9, 3, 4, dtype="bfloat16", size=5),
    ]


def _bias_relu() -> list[Spec]:
    images = ((1, 1, 1, 1), (3, 1, 5, 7), (1, 5, 1, 1), (2, 3, 7, 5), (2, 17, 3, 3), (1, 33, 9, 2), (5, 4, 8, 8))
    plain = [BiasRelu(*image, layout=layout) for image in images for layout in ("NCHW", "NHWC")]
    double = [BiasRelu(2, 5, 3, 4, dtype="float64"), BiasRelu(2, 5, 3, 4, layout="NHWC", dtype="float64")]
    return [*plain, *double, BiasRelu(2, 5, 3, 7, dtype="float16"), BiasRelu(2, 5, 3, 7, dtype="bfloat16")]


def _softmax() -> list[Spec]:
    sizes = ((1, 1), (1, 2), (7, 1), (3, 5), (5, 10), (2, 16), (4, 17), (17, 33), (1, 1000), (9, 129), (2, 999))
    others = (
        ((1, 1), "float64"),
        ((3, 7), "float64"),
        ((5, 130), "float64"),
        ((5, 33), "float16"),
        ((4, 17), "bfloat16"),
    )
    return [*(Softmax(*size) for size in sizes), *(Softmax(*size, dtype=dtype) for size, dtype in others)]


# Kernels that want sizes which their vectors and tiles divide decline odd ones.
_ROUND: dict[str, tuple[Spec, ...]] = {
    "conv2d": (
        *(Conv2d(1, 8, 6, 6, 8, 3, padding=1, direction=way) for way in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)),
        Conv2d(1, 8, 7, 7, 8, 5, padding=1),
        Conv2d(1, 8, 7, 7, 8, 3, padding=1, groups=8),
    ),
    "matmul": (MatMul(64, 64, 512), MatMul(64, 64, 512, dtype="float16")),
    "pool2d": tuple(
        Pool2d(1, 8, 6, 6, kernel_size=2, stride=2, layout="NHWC", direction=way) for way in (FORWARD, INPUT_GRADIENT)
    ),
}
# Enough work for several threads and several tiles; the float64 reference of each still takes less than a tenth of a
# second.
_LARGER: dict[str, tuple[Spec, ...]] = {
    "conv2d": tuple(
        Conv2d(2, 33, 30, 29, 34, 3, stride=stride, padding=1, layout=layout, dtype=dtype, direction=way)
        for way in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)
        for stride, layout, dtype in ((1, "NCHW", "float32"), (2, "NHWC", "float32"), (1, "NCHW", "float64"))
    ),
    "matmul": (
        MatMul(259, 261, 301),
        MatMul(130, 515, 260, transpose_a=True, transpose_b=True, bias=True, dtype="float64"),
        MatMul(67, 129, 131, batch=5, bias=True, activation="relu"),
    ),
    "pool2d": tuple(
        Pool2d(3, 19, 61, 59, kernel_size=3, stride=2, padding=1, mode=mode, layout=layout, direction=way)
        for way in (FORWARD, INPUT_GRADIENT)
        for mode, layout in ((MAX, "NCHW"), (AVERAGE, "NHWC"))
    ),
    "lrn": (LocalResponseNorm(2, 33, 41, 39, size=5), LocalResponseNorm(2, 33, 41, 39, size=5, layout="NHWC")),
    "bias_relu": (BiasRelu(3, 33, 61, 59), BiasRelu(3, 33, 61, 59, layout="NHWC", dtype="float64")),
    "softmax": (Softmax(257, 1001), Softmax(130, 515, dtype="float64")),
}

_BY_OP = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "pool2d": _pool2d,
    "lrn": _lrn,
    "bias_relu": _bias_relu,
    "softmax": _softmax,
}


def odd_specs(op: str) -> list[Spec]:
    """The operator's odd shapes, always the same list in the same order."""
    if op not in _BY_OP:
        raise UsageError(f"no operator {op!r}: there are {', '.join(_BY_OP)}")
    return _BY_OP[op]()


def round_specs(op: str) -> list[Spec]:
    """Small shapes for kernels that decline odd ones."""
    return list(_ROUND.get(op, ()))


def larger_specs(op: str) -> list[Spec]:
    """Shapes that are worth several threads."""
    return list(_LARGER.get(op, ()))
