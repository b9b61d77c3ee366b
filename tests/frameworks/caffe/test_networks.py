"""Networks as Caffe models: the files byte by byte, and what OpenCV makes of them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from profkit.frameworks.caffe.files import MESSAGES, caffe_layers, caffemodel, prototxt
from profkit.frameworks.caffe.networks import BUILDER
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import Cifar10, LeNet, Mlp, Network
from tests.frameworks.caffe.cases import CASES, caffe_outcome
from tests.frameworks.networks.foreign_networks import Case, environment_of
from tests.frameworks.networks.network_checks import name_of

Field = tuple[int, Any]


def decoded(data: bytes) -> Iterator[Field]:
    """Number and value of every field of a protobuf message: an int, or bytes; written apart from the writer."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            yield number, varint()
            continue
        assert kind in (2, 5)
        size = varint() if kind == 2 else 4
        yield number, data[at : at + size]
        at += size


def fields_of(data: bytes) -> dict[int, list[Any]]:
    """Values by field number."""
    found: dict[int, list[Any]] = {}
    for number, value in decoded(data):
        found.setdefault(number, []).append(value)
    return found


def array_of(blob: bytes) -> np.ndarray[Any, Any]:
    """A BlobProto: shape is message 7 with packed dimensions, data are packed floats."""
    found = fields_of(blob)
    shape = [value for number, value in decoded(b"".join(b"\x08" + piece for piece in pieces(found[7][0])))]
    return np.frombuffer(found[5][0], "<f4").reshape(shape)


def pieces(shape: bytes) -> list[bytes]:
    """The packed varints of a BlobShape, one by one."""
    packed: bytes = fields_of(shape)[1][0]
    return re.findall(rb"[\x80-\xff]*[\x00-\x7f]", packed, re.DOTALL)


def model_layers(network: Network) -> dict[str, dict[int, list[Any]]]:
    """Layers of the written model by name."""
    layers = caffe_layers(network, network.initial_weights())
    found = fields_of(caffemodel(network.name, layers))
    assert found[1] == [network.name.encode()]
    return {layer[1][0].decode(): layer for layer in map(fields_of, found[100])}


def test_weights_come_back_from_the_model_with_dense_ones_transposed() -> None:
    network = LeNet(batch=2, maps=50)  # 150 maps: dimensions of more than seven bits
    weights = network.initial_weights()

    layers = model_layers(network)

    np.testing.assert_array_equal(array_of(layers["conv2"][7][0]), weights["conv2.w"])
    np.testing.assert_array_equal(array_of(layers["conv2"][7][1]), weights["conv2.b"])
    np.testing.assert_array_equal(array_of(layers["dense1"][7][0]), weights["dense1.w"].T)
    assert array_of(layers["conv2"][7][0]).shape == (150, 150, 5, 5)


def test_the_model_has_types_connections_and_parameters_under_caffes_numbers() -> None:
    layers = model_layers(Cifar10(batch=2))

    assert {name: layer[2][0].decode() for name, layer in layers.items()} == {
        "conv1": "Convolution",
        "conv1/relu": "ReLU",
        "pool1": "Pooling",
        "norm1": "LRN",
        "conv2": "Convolution",
        "conv2/relu": "ReLU",
        "norm2": "LRN",
        "pool2": "Pooling",
        "local3": "InnerProduct",
        "local3/relu": "ReLU",
        "local4": "InnerProduct",
        "local4/relu": "ReLU",
        "softmax_linear": "InnerProduct",
    }
    assert (layers["local3"][3], layers["local3"][4]) == ([b"pool2"], [b"local3"])
    convolution = fields_of(layers["conv1"][106][0])
    assert {name: convolution[number] for name, number in MESSAGES["convolution_param"][1].items()} == {
        "num_output": [64],
        "bias_term": [1],
        "group": [1],
        "pad_h": [2],
        "pad_w": [2],
        "kernel_h": [5],
        "kernel_w": [5],
        "stride_h": [1],
        "stride_w": [1],
        "dilation": [1],
    }
    norm = fields_of(layers["norm1"][118][0])
    assert norm[1] == [9]
    assert [struct.unpack("<f", norm[number][0])[0] for number in (2, 3, 5)] == pytest.approx([0.001, 0.75, 1.0])
    assert fields_of(layers["pool1"][121][0])[1] == [0]


def test_the_text_has_one_line_per_layer() -> None:
    network = Mlp(batch=2, hidden=1, neurons=4)
    layers = caffe_layers(network, network.initial_weights())

    lines = prototxt(network.name, network.input_shape(), layers).splitlines()

    dense = 'layer {{ name: "{0}" type: "InnerProduct" bottom: "{1}" top: "{0}" inner_product_param {{ {2} }} }}'
    assert lines == [
        'name: "mlp"',
        'layer { name: "images" type: "Input" top: "images" input_param { shape { dim: 2 dim: 8 } } }',
        dense.format("hidden1", "images", "num_output: 4 bias_term: true"),
        'layer { name: "hidden1/relu" type: "ReLU" bottom: "hidden1" top: "hidden1/relu" }',
        dense.format("output", "hidden1/relu", "num_output: 7 bias_term: true"),
    ]


@pytest.mark.parametrize(
    ("network", "padded"),
    [
        (Cifar10(), []),
        (Cifar10(stride=2), ["conv1", "conv2"]),
        (Cifar10(stride=3), ["conv1", "pool2"]),
        (Cifar10(stride=5), ["conv1", "conv2"]),
        (Cifar10(pool=5), []),
        (Cifar10(pool=2, pool_stride=1), ["pool1"]),
    ],
    ids=["plain", "stride 2", "stride 3", "stride 5", "pool 5", "pool 2 stride 1"],
)
def test_padding_stands_in_a_block_of_its_own_only_where_caffe_has_no_word_for_it(
    network: Network, padded: list[str]
) -> None:
    layers = caffe_layers(network, network.initial_weights())

    assert [layer.name for layer in layers if layer.pads] == padded
    for name in padded:
        pads = next(layer.pads for layer in layers if layer.name == name)
        spec: Any = network.layer(name).spec
        assert tuple(pads[side] for side in ("pad_t", "pad_b", "pad_l", "pad_r")) == spec.window.pads


@pytest.mark.parametrize("case", CASES, ids=lambda case: name_of(case.network))
def test_opencv_gives_the_logits_of_float64(case: Case) -> None:
    found = caffe_outcome().found[CASES.index(case)]

    assert found["error"] <= found["tolerance"]
    assert found["largest"] > 0


def test_a_whole_run_goes_through_a_worker_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(environment_of("caffe").folder.parent))

    capture = run_network(NetworkRequest(Cifar10(batch=4, crop=24, filters=8), "caffe", steps=2))

    assert (capture.status, capture.reason) == ("ok", "")
    assert capture.versions["opencv"].startswith("4.")
    assert [recording.measures for recording in capture.captures] == [("time",), ("memory",)]


def test_layers_with_unequal_padding_are_told() -> None:
    notes = caffe_outcome().found[CASES.index(next(case for case in CASES if "stride2" in case.name))]["notes"]

    assert any(note.startswith("conv1, conv2: unequal padding of two sides") for note in notes)


def test_without_an_environment_the_line_to_type_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(tmp_path_factory.mktemp("none")))

    availability = BUILDER.is_available()

    assert (availability.available, availability.install) == (False, "python -m profkit.env create caffe")
