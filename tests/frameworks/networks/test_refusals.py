"""What a framework cannot build is refused with the reason, before it is imported."""

from __future__ import annotations

import os

import pytest

from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.frameworks.networks.contract import NetworkConditions, reason_against
from profkit.ops.conv2d import Conv2d
from profkit.ops.networks import NETWORKS, Cifar10, Layer, LeNet, Mlp, Network, Solar
from profkit.ops.networks.graph import Graph
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.layer import IMAGES

_DILATED = Conv2d(2, 3, 8, 8, 4, 3, dilation=2, bias=True)


def network_of(shape: Shape, given: tuple[Layer, ...]) -> Network:
    class Own(Cifar10):
        layers = given

        def input_shape(self) -> Shape:
            return shape

    return Own()


EVEN = network_of((2, 3, 8, 8), Graph((2, 3, 8, 8)).norm("norm", size=4).layers)
RESNET = NETWORKS["resnet50"](batch=2, factor=0.0625, side=32)
DILATED = network_of((2, 3, 8, 8), (Layer("conv1", "conv2d", _DILATED, _DILATED.output_shape()),))
FLAT = network_of((2, 3, 4, 4), Graph((2, 3, 4, 4)).max_pool("pool", 2, 2).flatten("flat").layers)
_SHAPE = (2, 2, 8, 4)
FLAT_PARTS = network_of(
    _SHAPE, Graph(_SHAPE).flatten("a").at(IMAGES).max_pool("half", 2, 2).flatten("b").concat("joined", "a", "b").layers
)
_SUM = Graph(_SHAPE).flatten("a").at(IMAGES).conv("half", 8, 1, 2).flatten("b").add("sum", "a").dense("output", 3)
FLAT_SUM = network_of(_SHAPE, _SUM.layers)
WITHOUT_TRAINING = ("onnxruntime", "caffe")


@pytest.mark.parametrize(
    ("framework", "network", "is_training", "reason"),
    [
        ("theano", RESNET, True, "theano builds layers with a bias, and conv1 has none"),
        ("theano", NETWORKS["transformer"](), False, "theano builds no embedding layers, and embedding is one"),
        (
            "theano",
            NETWORKS["googlenet"](),
            False,
            "theano builds chains only, and inception_3a_3x3_reduce takes pool2",
        ),
        ("theano", Solar(batch=2), True, "theano takes no masks of dropout, without which its step cannot be checked"),
        ("caffe", RESNET, False, "caffe builds layers with a bias, and conv1 has none"),
        ("caffe", NETWORKS["all_cnn_c"](), False, "caffe builds max pooling only, and "),
        ("tensorflow", EVEN, False, "norm: TensorFlow normalises over an odd number of channels, got 4"),
        ("tensorflow", DILATED, True, "conv1: TensorFlow's CPU gradient kernels take no dilation, got 2x2"),
        ("tensorflow", FLAT, False, "flat gives out a flattened image, which is held here as height, width, channels"),
        ("jax", FLAT_PARTS, False, "joined takes a flattened image, which is held here as height, width, channels"),
        ("keras", FLAT_SUM, False, "sum adds rows that were flattened from images of different shapes"),
        ("onnxruntime", EVEN, False, "onnxruntime's LRN takes an odd size, got 4"),
        ("onnxruntime", Mlp(), True, "the onnxruntime package runs inference only: take torch, tensorflow, jax or "),
        ("caffe", EVEN, False, "norm: Caffe normalises over an odd number of channels, not 4"),
        ("caffe", Mlp(), True, "OpenCV runs Caffe models, it does not train them"),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_reason(
    framework: str, network: Network, is_training: bool, reason: str
) -> None:
    builder = load_builder(framework)

    conditions = NetworkConditions(mode=builder.modes[0], is_training=is_training)

    found = reason_against(builder, network, conditions)

    assert found.startswith(reason)


@pytest.mark.parametrize("framework", BUILDERS)
def test_every_framework_takes_the_networks_of_the_studies(framework: str) -> None:
    builder = load_builder(framework)
    conditions = NetworkConditions(mode=builder.modes[0], is_training=framework not in WITHOUT_TRAINING)

    assert [builder.supports(network, conditions) for network in (Cifar10(), LeNet(), Mlp(), Solar())] == [""] * 4


def test_compiling_by_torch_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.delenv("CXX", raising=False)

    assert "needs a C++ compiler" in load_builder("torch").supports(LeNet(), NetworkConditions(mode="compile"))
