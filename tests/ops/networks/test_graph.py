"""Graphs: branches, and the errors of those that cannot run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from profkit.errors import SpecError
from profkit.ops.networks.graph import Graph, check_graph
from profkit.ops.networks.initialisers import Initialisation, he_by_input
from profkit.ops.networks.layer import IMAGES, Layer

IMAGE = (2, 3, 8, 8)


def flat(name: str, *inputs: str) -> Layer:
    """A layer that fits 2x4 rows."""
    return Layer(name, "dropout", None, (2, 4), inputs, rate=0.5)


def test_a_branch_continues_from_the_layer_that_is_named() -> None:
    graph = Graph(IMAGE).conv("a", 4, 3).conv("b", 4, 1).at("a").conv("c", 6, 3)
    graph.concat("joined", "b", "c").conv("d", 10, 1).add("sum", "joined").global_average_pool("pool").flatten()

    inputs = {layer.name: layer.inputs for layer in graph.layers}

    assert inputs["c"] == ("a",) and inputs["joined"] == ("b", "c") and inputs["sum"] == ("d", "joined")
    assert graph.layers[3].output_shape == (2, 10, 8, 8) and graph.shape == (2, 10)


def test_sequences_and_functions_have_their_shapes() -> None:
    graph = Graph((3, 7)).embedding("table", 11, 6).layer_norm("norm").dense("q", 4, "none")
    graph.at("norm").dense("k", 4, "none").at("norm").dense("v", 4, "none").attention("attention", "q", "k", "v", 2)
    assert graph.shape == (3, 7, 4)
    assert graph.lstm("lstm1", 5, returns_sequence=True).shape == (3, 7, 5)
    assert graph.mean("mean").shape == (3, 5)
    assert graph.at("lstm1").lstm("lstm2", 9).shape == (3, 9)
    assert graph.dense("dense", 2, "gelu").last == "dense_gelu"
    parameters = {name: shape for layer in graph.layers for name, shape in layer.parameter_shapes().items()}
    assert parameters["lstm2.w"] == (5, 36) and parameters["lstm2.u"] == (9, 36) and parameters["lstm2.b"] == (36,)
    assert parameters["table.w"] == (11, 6) and parameters["norm.scale"] == (6,)


def test_he_by_input_takes_the_size_of_the_layers_input() -> None:
    graph = Graph(IMAGE, Initialisation(he_by_input())).conv("a", 4, 3)

    assert graph.layers[0].start.weights.spread == pytest.approx((2 / (3 * 8 * 8)) ** 0.5)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda graph: graph.conv("a", 4, 3).conv("a", 4, 3), "two layers are called a"),
        (lambda graph: graph.conv("a", 4, 3).add("b", "c"), "b: unknown layer 'c'"),
        (lambda graph: graph.conv("a", 4, 3).at("b"), "unknown layer 'b'"),
        (lambda graph: graph.conv("a", 4, 3).add("b", IMAGES), "b takes 2x4x8x8, but images gives 2x3x8x8"),
        (
            lambda graph: graph.conv("a", 4, 3).conv("b", 4, 3, 2).concat("c", "a", "b"),
            "c takes 2x4x8x8, but b gives 2x4x4x4",
        ),
        (lambda graph: graph.concat("a", IMAGES), "a joins at least two layers, got images"),
        (lambda graph: graph.dense("a", 5), "a takes rows, but images gives 2x3x8x8: flatten it first"),
        (lambda graph: graph.flatten().conv("a", 4, 3), "a is a conv2d of images, but flatten gives 2x192"),
        (lambda graph: graph.flatten().lstm("a", 4), r"a takes \[batch, steps, features\], but flatten gives 2x192"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_layer_and_both_shapes(
    build: Callable[[Graph], object], words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        build(Graph(IMAGE))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([flat("a", "c"), flat("b", "a"), flat("c", "b")], "a takes c, which is made from a itself: a cycle"),
        ([flat("a", "a")], "a takes a, which is made from a itself: a cycle"),
        ([flat("a", "b"), flat("b", IMAGES)], "a takes b, which is a later layer"),
        ([flat("a", "x")], "a: unknown layer 'x'"),
        ([flat("a", IMAGES), flat("b", IMAGES)], "no layer takes a: only the last layer, b, is the network's result"),
        ([flat("a", IMAGES), flat("a", "a")], "two layers are called a"),
        ([flat("a", IMAGES, IMAGES)], r"a takes 1 inputs \(dropout\), got images, images"),
    ],
)
def test_layers_in_a_bad_order_are_refused(layers: list[Layer], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_graph((2, 4), layers)
