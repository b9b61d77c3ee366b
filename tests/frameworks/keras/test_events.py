"""What is recorded of Keras: the backend's operators with the layers' names that Keras gives them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from profkit.capture.schema import NONE
from profkit.frameworks.events import load_source
from profkit.frameworks.keras.names import KerasPlacer
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.names import NetworkPlace, layer_of
from tests.frameworks.events.source_checks import rows
from tests.frameworks.networks.network_process import outcome
from tests.frameworks.networks.network_process_runner import CIFAR10


class Node:
    """An operation of a graph, with what tf.Operation has of it; IdentityN has an output for every input."""

    def __init__(self, name: str, *inputs: _Tensor, type: str = "Mul", is_scalar: bool = False) -> None:
        self.name = name
        self.type = type
        self.inputs = inputs
        self.outputs = [_Tensor(self, place, is_scalar) for place in range(len(inputs) if type == "IdentityN" else 1)]
        for each in inputs:
            each.users.append(self)

    @property
    def value(self) -> _Tensor:
        """The first output."""
        return self.outputs[0]


class _Tensor:
    def __init__(self, op: Node, value_index: int, is_scalar: bool) -> None:
        self.op = op
        self.value_index = value_index
        self.users: list[Node] = []
        self.shape = SimpleNamespace(rank=0 if is_scalar else 2)
        self.dtype = SimpleNamespace(name="float32")

    def consumers(self) -> list[Node]:
        return self.users


class Graph:
    """Finds nodes by name as tf.Graph does."""

    def __init__(self, *nodes: Node) -> None:
        self._nodes = {node.name: node for node in nodes}

    def get_operation_by_name(self, name: str) -> Any:
        return self._nodes[name]


LAYERS = ("conv2", "conv2_1", "local3", "norm1")


@pytest.mark.parametrize(
    ("part", "layer"),
    [("conv2", "conv2"), ("conv2_1", "conv2_1"), ("conv2_7", "conv2"), ("local3_1", "local3"), ("network_1", None)],
)
def test_numbers_are_stripped_from_known_layers_only(part: str, layer: str | None) -> None:
    assert layer_of(part, LAYERS) == layer


@pytest.mark.parametrize(
    ("node", "layer", "phase"),
    [
        ("network_1/conv2_3/convolution", "conv2", "forward"),
        ("gradient_tape/network_1/conv2_3/convolution/Conv2DBackpropInput", "conv2", "backward"),
        ("sparse_categorical_crossentropy/Sum", None, "forward"),
        ("gradient_tape/sparse_categorical_crossentropy/mul", None, "backward"),
        ("sgd/Mul", None, "optimiser"),
        ("sgd_1/AssignSubVariableOp_2", None, "optimiser"),
        ("Add_2", None, "host"),
    ],
)
def test_names_of_nodes_say_layer_and_phase(node: str, layer: str | None, phase: str) -> None:
    place = KerasPlacer(Graph(), LAYERS, ("sparse_categorical_crossentropy",))

    assert place(node) == NetworkPlace(layer, phase, "exact")


def test_nodes_without_a_layer_in_their_names_go_by_their_neighbours() -> None:
    product = Node("gradient_tape/network_1/local3_1/MatMul")
    decay = Node("gradient_tape/Mul", Node("Square/ReadVariableOp").value)
    total = Node("AddN", product.value, decay.value)
    other = Node("gradient_tape/network_1/conv2_3/Conv2DBackpropFilter")
    together = Node("sgd/IdentityN", other.value, total.value, type="IdentityN")
    rate = Node("sgd/Cast", is_scalar=True)
    update = Node("sgd/Mul", together.outputs[1], rate.value)
    kept = Node("sgd/Mul_1", Node("sgd/Mul_1/ReadVariableOp").value)
    store = Node("sgd/Sub", kept.value, update.value)
    Node("sgd/Mul_2", together.outputs[0], rate.value)
    place = KerasPlacer(Graph(decay, total, rate, update, kept, store), LAYERS, ())

    assert place("AddN") == NetworkPlace("local3", "backward", "inferred")
    assert place("gradient_tape/Mul") == NetworkPlace("local3", "backward", "inferred")
    assert place("sgd/Mul") == NetworkPlace("local3", "optimiser", "inferred")
    assert place("sgd/Sub") == NetworkPlace("local3", "optimiser", "inferred")
    assert place("sgd/Mul_1") == NetworkPlace(
        "local3", "optimiser", "inferred"
    )  # of the velocity: by what it is added to
    assert place("sgd/Cast") == NetworkPlace(None, "optimiser", "exact")


def test_a_node_between_two_layers_is_that_of_its_inputs() -> None:
    first, second = Node("gradient_tape/network_1/norm1_1/Mul"), Node("gradient_tape/network_1/norm1_1/Div")
    total = Node("AddN", first.value, second.value)
    Node("gradient_tape/network_1/conv2_3/ReluGrad", total.value)
    place = KerasPlacer(Graph(total), LAYERS, ())

    assert place("AddN").layer == "norm1"


def test_over_torch_the_decay_of_weights_belongs_to_their_layers() -> None:
    capture = outcome("keras", "torch").capture("operators", True)

    squares = {row["layer"] for row in rows(capture) if row["type"] == "aten::square"}

    assert squares == {"local3", "local4", "norm1", "norm2"}


def test_bytes_are_unknown_where_the_backend_does_not_tell_and_known_where_it_does() -> None:
    time_only = outcome("keras", "tensorflow").capture("time", False)
    memory = outcome("keras", "tensorflow").capture("memory", False)
    planned = outcome("keras", "jax").capture("time", False)

    assert (time_only.ranges["requested_bytes"] == NONE).all()
    assert (planned.ranges["requested_bytes"] == NONE).all()
    plan = planned.facts["planned_memory"]
    assert planned.facts["peak_bytes"] == plan["total_bytes"] - plan["argument_bytes"]
    convolution = next(row for row in rows(memory) if row["layer"] == "conv1" and row["type"] == "_FusedConv2D")
    assert convolution["requested_bytes"] - convolution["temporary_bytes"] == 4 * 4 * 8 * 24 * 24
    assert memory.facts["peak_bytes"] >= convolution["requested_bytes"]


@pytest.mark.full
def test_bytes_are_unknown_where_tensorflow_is_compiled_by_xla() -> None:
    compiled = outcome("keras", "tensorflow_xla").capture("time", False)

    assert (compiled.ranges["requested_bytes"] == NONE).all()
    assert "peak_bytes" not in compiled.facts
    assert compiled.measures == ("time",)


@pytest.mark.parametrize(("mode", "name"), [("tensorflow", "memory"), ("torch", "operators"), ("jax", "time")])
def test_weights_and_velocities_are_held_beside_what_a_step_allocates(mode: str, name: str) -> None:
    capture = outcome("keras", mode).capture(name, True)

    assert capture.facts["held_bytes"] == 2 * 4 * CIFAR10.parameter_count()


def test_allocations_over_tensorflow_add_up_to_what_operators_requested() -> None:
    memory = outcome("keras", "tensorflow").capture("memory", True)

    taken = memory.memory_events.bytes > 0
    owned = memory.memory_events.range != NONE
    requested = sum(row["requested_bytes"] for row in rows(memory))

    assert requested == int(memory.memory_events.bytes[taken & owned].sum())
    assert (memory.ranges["temporary_bytes"] <= memory.ranges["requested_bytes"]).all()


@pytest.mark.parametrize("mode", load_builder("keras").modes)
def test_the_passes_of_a_mode_are_those_of_its_backend(mode: str) -> None:
    passes = load_source("keras").passes(NetworkConditions(mode=mode))

    measured = {measure for each in passes for measure in each.measures}
    assert measured >= ({"time"} if mode == "tensorflow_xla" else {"time", "memory"})
    assert passes[0].name == ("operators" if mode == "torch" else "time")
