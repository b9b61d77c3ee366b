"""Spec -> the numbers of the C struct `profkit_<op>_params` (csrc/kernels/params.h), as a dict of its fields.

Serves the native kernels and users' C or C++ candidates; does not import the compiled module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.errors import UnsupportedError
from profkit.ops.spec import Spec
from profkit.ops.window import Window

Params = dict[str, int | float]

# The enumerations of params.h: a field's word -> its number.
_WORDS: dict[str, dict[str, int]] = {
    "dtype": {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3},
    "layout": {"NCHW": 0, "NHWC": 1},
    "direction": {"forward": 0, "input-gradient": 1, "weight-gradient": 2},
    "activation": {"none": 0, "relu": 1},
    "mode": {"max": 0, "average": 1},
}


def native_params(spec: Spec) -> Params:
    """All fields of the operator's C struct, taken from the spec."""
    if spec.op not in _PARAMS:
        raise UnsupportedError(f"{spec.op} has no native parameters; known operators: {', '.join(_PARAMS)}")
    return _PARAMS[spec.op](spec)


def _numbers(spec: Any, *names: str) -> Params:
    """The named fields as numbers; flags become 0 or 1, words their value in params.h."""
    return {name: _number(name, getattr(spec, name)) for name in names}


def _number(name: str, value: Any) -> int | float:
    if isinstance(value, str):
        return _WORDS[name][value]
    return value if isinstance(value, float) else int(value)


def _window(window: Window) -> Params:
    """The fields of a sliding window that conv2d and pool2d share."""
    top, bottom, left, right = window.pads
    return {
        "kernel_h": window.kernel[0],
        "kernel_w": window.kernel[1],
        "stride_h": window.stride[0],
        "stride_w": window.stride[1],
        "pad_top": top,
        "pad_bottom": bottom,
        "pad_left": left,
        "pad_right": right,
        "out_h": window.out_size[0],
        "out_w": window.out_size[1],
    }


def _conv2d(spec: Any) -> Params:
    window = Window((spec.height, spec.width), spec.kernel_size, spec.stride, spec.padding, spec.dilation)
    return {
        **_numbers(spec, "batch", "in_channels", "height", "width", "out_channels", "groups"),
        **_numbers(spec, "bias", "activation", "layout", "dtype", "direction"),
        **_window(window),
        "dilation_h": spec.dilation[0],
        "dilation_w": spec.dilation[1],
    }


def _matmul(spec: Any) -> Params:
    return _numbers(spec, "batch", "m", "n", "k", "transpose_a", "transpose_b", "bias", "dtype", "activation")


def _pool2d(spec: Any) -> Params:
    window = Window((spec.height, spec.width), spec.kernel_size, spec.stride, spec.padding)
    fields = _numbers(spec, "batch", "channels", "height", "width", "mode", "layout", "dtype", "direction")
    return {**fields, **_window(window)}


def _lrn(spec: Any) -> Params:
    fields = _numbers(spec, "batch", "channels", "height", "width", "size", "layout", "dtype")
    return {**fields, "alpha": float(spec.alpha), "beta": float(spec.beta), "k": float(spec.k)}


def _bias_relu(spec: Any) -> Params:
    return _numbers(spec, "batch", "channels", "height", "width", "layout", "dtype")


def _softmax(spec: Any) -> Params:
    return {**_numbers(spec, "rows", "dtype"), "columns": spec.classes}


_PARAMS: dict[str, Callable[[Any], Params]] = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "pool2d": _pool2d,
    "lrn": _lrn,
    "bias_relu": _bias_relu,
    "softmax": _softmax,
}
