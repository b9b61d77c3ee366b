"""A network as Caffe's two files: prototxt (text) and caffemodel (protobuf, written here byte by byte).

Both are made from one list of CaffeLayers. Field numbers are those of caffe.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array
from profkit.frameworks.layouts import symmetric_padding
from profkit.ops import Conv2d, LocalResponseNorm, MatMul, Pool2d
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import Network
from profkit.ops.pool2d import MAX
from profkit.ops.window import Window

FieldValue = int | float | bool | str
# Messages of a layer: their field number in LayerParameter, and the numbers of their own fields.
MESSAGES: Mapping[str, tuple[int, Mapping[str, int]]] = {
    "convolution_param": (
        106,
        {
            "num_output": 1,
            "bias_term": 2,
            "group": 5,
            "pad_h": 9,
            "pad_w": 10,
            "kernel_h": 11,
            "kernel_w": 12,
            "stride_h": 13,
            "stride_w": 14,
            "dilation": 18,
        },
    ),
    "inner_product_param": (117, {"num_output": 1, "bias_term": 2}),
    "lrn_param": (118, {"local_size": 1, "alpha": 2, "beta": 3, "k": 5}),
    "pooling_param": (
        121,
        {"pool": 1, "kernel_h": 5, "kernel_w": 6, "stride_h": 7, "stride_w": 8, "pad_h": 9, "pad_w": 10},
    ),
}
WORDS = {"MAX": 0}
"""Values of enumerations, which the text has as words."""
_VARINT, _BYTES, _FOUR_BYTES = 0, 2, 5


@dataclass(frozen=True)
class CaffeLayer:
    """One layer as Caffe counts them: a ReLU is a separate layer."""

    name: str
    type: str
    bottom: str
    top: str
    message: str = ""
    """Which of MESSAGES its values belong to."""
    values: Mapping[str, FieldValue] = field(default_factory=dict)
    blobs: Sequence[Array] = ()
    pads: Mapping[str, int] = field(default_factory=dict)
    """Padding that differs between two sides: OpenCV reads it from a block that Caffe itself does not know."""
    layer: str = ""
    """The network's layer that it belongs to."""


def caffe_layers(network: Network, weights: Mapping[str, Array]) -> list[CaffeLayer]:
    """The network in inference. Flatten and dropout need no layer: dense layers take images as rows."""
    layers: list[CaffeLayer] = []
    tops = {IMAGES: IMAGES}
    for layer in network.layers:
        bottom = tops[layer.inputs[0]]
        if layer.spec is None:
            tops[layer.name] = bottom
            continue
        layers.append(_layer(layer, bottom, weights))
        if layer.activation == "relu":
            layers.append(CaffeLayer(f"{layer.name}/relu", "ReLU", layer.name, f"{layer.name}/relu", layer=layer.name))
        tops[layer.name] = layers[-1].top
    return layers


def refusal(network: Network) -> str:
    """Why Caffe cannot express this network, or nothing."""
    try:
        caffe_layers(network, {name: np.empty(0, np.float32) for name in network.parameter_shapes()})
    except UnsupportedError as error:
        return str(error)
    return ""


def prototxt(name: str, input_shape: Shape, layers: Sequence[CaffeLayer]) -> str:
    dimensions = " ".join(f"dim: {extent}" for extent in input_shape)
    lines = [
        f'name: "{name}"',
        f'layer {{ name: "{IMAGES}" type: "Input" top: "{IMAGES}" input_param {{ shape {{ {dimensions} }} }} }}',
    ]
    for layer in layers:
        parts = [f'name: "{layer.name}" type: "{layer.type}" bottom: "{layer.bottom}" top: "{layer.top}"']
        if layer.message:
            parts.append(_block(layer.message, layer.values))
        if layer.pads:
            parts.append(_block("pads_param", layer.pads))
        lines.append(f"layer {{ {' '.join(parts)} }}")
    return "\n".join(lines) + "\n"


def caffemodel(name: str, layers: Sequence[CaffeLayer]) -> bytes:
    """The weights, with the architecture again, as Caffe saves them."""
    return _text(1, name) + b"".join(_message(100, _layer_bytes(layer)) for layer in layers)


def _layer(layer: Layer, bottom: str, weights: Mapping[str, Array]) -> CaffeLayer:
    spec = layer.spec
    blobs = [weights[name] for name in layer.parameter_shapes()]
    values: dict[str, FieldValue]
    pads: dict[str, int] = {}
    if isinstance(spec, Conv2d):
        kind, message, (values, pads) = "Convolution", "convolution_param", _convolution(layer.name, spec)
    elif isinstance(spec, MatMul):
        kind, message, values = "InnerProduct", "inner_product_param", {"num_output": spec.n, "bias_term": True}
        blobs[0] = np.ascontiguousarray(blobs[0].T)  # Caffe has the outputs first
    elif isinstance(spec, Pool2d):
        if spec.mode != MAX:
            raise UnsupportedError(f"{layer.name}: averages of windows that reach over the border differ in Caffe")
        kind, message, (values, pads) = "Pooling", "pooling_param", _pooling(spec.window)
    elif isinstance(spec, LocalResponseNorm):
        if spec.size % 2 == 0:
            raise UnsupportedError(f"{layer.name}: Caffe normalises over an odd number of channels, not {spec.size}")
        kind, message = "LRN", "lrn_param"
        values = {"local_size": spec.size, "alpha": spec.alpha, "beta": spec.beta, "k": spec.k}
    else:
        raise UnsupportedError(f"{layer.name}: Caffe has no {layer.kind}")
    return CaffeLayer(layer.name, kind, bottom, layer.name, message, values, blobs, pads, layer.name)


def _convolution(name: str, spec: Conv2d) -> tuple[dict[str, FieldValue], dict[str, int]]:
    window = spec.window
    if window.dilation[0] != window.dilation[1]:
        raise UnsupportedError(f"{name}: dilation {window.dilation[0]}x{window.dilation[1]} differs between two sides")
    values: dict[str, FieldValue] = {"num_output": spec.out_channels, "bias_term": True, "group": spec.groups}
    values.update(_sides(window), dilation=window.dilation[0])
    pad = symmetric_padding(window)
    if pad is None:
        return values, _pads(window)
    return {**values, "pad_h": pad[0], "pad_w": pad[1]}, {}


def _pooling(window: Window) -> tuple[dict[str, FieldValue], dict[str, int]]:
    """Caffe rounds the number of windows up and leaves out a last one that would see padding only."""
    values: dict[str, FieldValue] = {"pool": "MAX", **_sides(window)}
    top, _, left, _ = window.pads
    counts = []
    for extent, kernel, stride, pad in zip(window.size, window.kernel, window.stride, (top, left)):
        count = -(-(extent + 2 * pad - kernel) // stride) + 1
        counts.append(count - 1 if pad and (count - 1) * stride >= extent + pad else count)
    # OpenCV refuses a window that is larger than the image with the same padding on both sides.
    fits = all(extent + 2 * pad >= kernel for extent, kernel, pad in zip(window.size, window.kernel, (top, left)))
    if fits and tuple(counts) == window.out_size:
        return {**values, "pad_h": top, "pad_w": left}, {}
    return values, {**_pads(window), "ceil_mode": 0}


def _sides(window: Window) -> dict[str, int]:
    (kernel_h, kernel_w), (stride_h, stride_w) = window.kernel, window.stride
    return {"kernel_h": kernel_h, "kernel_w": kernel_w, "stride_h": stride_h, "stride_w": stride_w}


def _pads(window: Window) -> dict[str, int]:
    top, bottom, left, right = window.pads
    return {"pad_t": top, "pad_b": bottom, "pad_l": left, "pad_r": right}


def _block(name: str, values: Mapping[str, FieldValue]) -> str:
    words = ((key, str(value).lower() if isinstance(value, bool) else value) for key, value in values.items())
    return f"{name} {{ {' '.join(f'{key}: {word}' for key, word in words)} }}"


def _layer_bytes(layer: CaffeLayer) -> bytes:
    parts = [_text(1, layer.name), _text(2, layer.type), _text(3, layer.bottom), _text(4, layer.top)]
    for blob in layer.blobs:  # a BlobProto: its shape, and its numbers in one piece
        shape = b"".join(_varint(extent) for extent in blob.shape)
        numbers = _message(5, np.ascontiguousarray(blob, "<f4").tobytes())
        parts.append(_message(7, _message(7, _message(1, shape)) + numbers))
    if layer.message:
        number, fields = MESSAGES[layer.message]
        parts.append(_message(number, b"".join(_value(fields[name], value) for name, value in layer.values.items())))
    return b"".join(parts)


def _value(number: int, value: FieldValue) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | _FOUR_BYTES) + struct.pack("<f", value)
    return _varint(number << 3 | _VARINT) + _varint(WORDS[value] if isinstance(value, str) else int(value))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Seven bits at a time, the lowest first; the eighth says that more follow."""
    pieces = bytearray()
    while value > 127:
        pieces.append(value & 127 | 128)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
