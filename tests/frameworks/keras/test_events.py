"""What is recorded of Keras: the backend's operators with the layers' names that Keras gives them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from profkit.capture.schema import NONE, Capture, Level
from profkit.frameworks.events import load_source
from profkit.frameworks.keras.names import KerasPlacer, layer_of
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.tensorflow.names import NetworkPlace
from tests.frameworks.events.source_checks import rows
from tests.frameworks.networks.network_process import outcome
from tests.frameworks.networks.network_process_runner import CIFAR10, STEPS

TIME_PASS = {"tensorflow": "time", "torch": "operators", "jax": "time", "tensorflow_xla": "time"}
WEIGHTED = [layer.name for layer in CIFAR10.layers if layer.parameter_shapes()]
CONVOLUTIONS = {
    "tensorflow": ({"_FusedConv2D"}, {"Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv2DBackpropFilterWithBias"}),
    "torch": ({"aten::conv2d"}, {"aten::convolution_backward"}),
    "jax": ({"convolution"}, {"convolution"}),
    "tensorflow_xla": ({"convolution"}, {"convolution"}),
}
by_mode = pytest.mark.parametrize(
    "mode", ["tensorflow", "torch", "jax", pytest.param("tensorflow_xla", marks=pytest.mark.full)]
)


def recording_of(mode: str, is_training: bool) -> Capture:
    return outcome("keras", mode).capture(TIME_PASS[mode], is_training)


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


@by_mode
@pytest.mark.parametrize("is_training", [True, False])
def test_spans_lie_in_their_steps(mode: str, is_training: bool) -> None:
    capture = recording_of(mode, is_training)

    spans, begin, end = capture.ranges, capture.steps["start_ns"], capture.steps["end_ns"]

    assert capture.framework == "keras"
    assert len(begin) == STEPS
    inside = spans["step"] != NONE
    assert inside.all()
    assert (spans["start_ns"] >= begin[spans["step"]]).all()
    is_operator = spans["level"] == Level.OPERATOR
    assert (spans["end_ns"][is_operator] <= end[spans["step"][is_operator]]).all()
    assert set(spans["step"][is_operator].tolist()) == set(range(STEPS))


@by_mode
def test_every_layer_with_weights_has_time_forward_and_backward_and_there_are_updates(mode: str) -> None:
    found = {(row["layer"], row["phase"]) for row in rows(recording_of(mode, True)) if row["end_ns"] > row["start_ns"]}

    assert {(name, phase) for name in WEIGHTED for phase in ("forward", "backward")} <= found
    assert any(phase == "optimiser" for _, phase in found)


@by_mode
def test_convolutions_are_those_of_their_layers_in_every_step(mode: str) -> None:
    forward, backward = CONVOLUTIONS[mode]
    capture = recording_of(mode, True)

    for step in range(STEPS):
        found = rows(capture, step=step)
        ahead = [row["layer"] for row in found if row["type"] in forward and row["phase"] == "forward"]
        back = {row["layer"] for row in found if row["type"] in backward and row["phase"] == "backward"}
        assert ahead == ["conv1", "conv2"]
        assert back == {"conv1", "conv2"}


@by_mode
def test_inference_is_all_forward(mode: str) -> None:
    found = rows(recording_of(mode, False))

    assert {row["phase"] for row in found} <= {"forward", "copy", "host"}
    assert {row["layer"] for row in found} >= set(WEIGHTED) | {"pool1", "norm1", "norm2", "pool2"}


@by_mode
def test_what_has_no_layer_is_as_small_as_the_loss_and_is_listed(mode: str) -> None:
    capture = recording_of(mode, True)

    nowhere = [row for row in rows(capture) if row["layer"] is None]

    # Of the loss: a number per image and class, and as much for its parts; everything else here is larger.
    batch, classes = CIFAR10.output_shape()
    made = "requested_bytes" if mode == "torch" else "output_bytes"
    assert max(row[made] for row in nowhere) <= 2 * 4 * batch * classes
    listed = {(row["name"], row["phase"]) for row in capture.facts["without_layer"]}
    assert listed == {(row["name"], row["phase"]) for row in nowhere}


def test_over_torch_the_decay_of_weights_belongs_to_their_layers() -> None:
    capture = recording_of("torch", True)

    squares = {row["layer"] for row in rows(capture) if row["type"] == "aten::square"}

    assert squares == {"local3", "local4", "norm1", "norm2"}


@by_mode
def test_no_python_frames_are_recorded(mode: str) -> None:
    capture = recording_of(mode, True)

    assert not any((name or "").startswith("$") for name in capture.texts(capture.ranges.name))
    assert capture.facts.get("profiler_levels", {}).get("python", 0) == 0


def test_bytes_are_unknown_where_the_backend_does_not_tell_and_known_where_it_does() -> None:
    time_only = recording_of("tensorflow", False)
    memory = outcome("keras", "tensorflow").capture("memory", False)
    planned = recording_of("jax", False)

    assert (time_only.ranges["requested_bytes"] == NONE).all()
    assert (planned.ranges["requested_bytes"] == NONE).all()
    plan = planned.facts["planned_memory"]
    assert planned.facts["peak_bytes"] == plan["total_bytes"] - plan["argument_bytes"]
    convolution = next(row for row in rows(memory) if row["layer"] == "conv1" and row["type"] == "_FusedConv2D")
    assert convolution["requested_bytes"] - convolution["temporary_bytes"] == 4 * 4 * 8 * 24 * 24
    assert memory.facts["peak_bytes"] >= convolution["requested_bytes"]


@pytest.mark.full
def test_bytes_are_unknown_where_tensorflow_is_compiled_by_xla() -> None:
    compiled = recording_of("tensorflow_xla", False)

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


@by_mode
def test_the_passes_of_a_mode_are_those_of_its_backend(mode: str) -> None:
    passes = load_source("keras").passes(NetworkConditions(mode=mode))

    measured = {measure for each in passes for measure in each.measures}
    assert measured >= ({"time"} if mode == "tensorflow_xla" else {"time", "memory"})
    assert passes[0].name == TIME_PASS[mode]
