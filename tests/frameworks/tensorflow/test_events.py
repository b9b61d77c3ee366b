"""TensorFlow's captures: every operator once, with its layer, its helpers' work, and the bytes TensorFlow says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.archive import load
from profkit.capture.event_log import threads_of
from profkit.capture.schema import BACKWARD, FORWARD, INFERRED, NONE, OPTIMISER, Capture, Level
from profkit.frameworks.events import load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Cifar10
from tests.frameworks.events.source_checks import Row, rows
from tests.support.processes import answer_of_python

NETWORK = Cifar10(batch=4, crop=24, filters=8)
STEPS = 2
CONV, DENSE = ("Conv2D", "_FusedConv2D"), ("MatMul", "_FusedMatMul")
TYPES: Mapping[str, tuple[str, ...]] = {"conv2d": CONV, "matmul": DENSE, "pool2d": ("MaxPool",), "lrn": ("LRN",)}


@dataclass(frozen=True)
class Runs:
    """What a runner left: recordings by their names, and what it printed."""

    folder: Path
    said: Any

    def capture(self, name: str) -> Capture:
        return load(self.folder / name)

    def rows(self, name: str, level: Level = Level.OPERATOR) -> list[Row]:
        return rows(self.capture(name), level)


def run(folder: Path, environment: Mapping[str, str], *parts: str) -> Runs:
    builder = load_builder("tensorflow")
    if not builder.is_available().available:
        pytest.skip("tensorflow is not installed")
    variables = {**builder.environment(NetworkConditions()), **environment}
    return Runs(
        folder, answer_of_python(["-m", "tests.frameworks.tensorflow.events_runner", str(folder), *parts], variables)
    )


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """With oneDNN where TensorFlow chooses it on this processor."""
    return run(tmp_path_factory.mktemp("usual"), {}, "graph", "reading", "eager_time")


@pytest.fixture(scope="module")
def eigen(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Without oneDNN."""
    return run(tmp_path_factory.mktemp("eigen"), {"TF_ENABLE_ONEDNN_OPTS": "0"}, "graph")


@pytest.fixture(scope="module")
def bfc(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """With the environment of the pass that watches eager memory."""
    memory = load_source("tensorflow").passes(NetworkConditions(mode="eager"))[1]
    return run(tmp_path_factory.mktemp("bfc"), memory.environment, "eager_memory")


@pytest.fixture(params=["usual", pytest.param("eigen", marks=pytest.mark.full)])
def runs(request: pytest.FixtureRequest) -> Runs:
    found: Runs = request.getfixturevalue(request.param)
    return found


TIMES = ["graph inference time", "graph training time", "session training time"]


@pytest.mark.parametrize("name", TIMES)
def test_spans_lie_in_the_steps_that_our_clock_saw(runs: Runs, name: str) -> None:
    capture = runs.capture(name)
    starts, ends = capture.steps["start_ns"], capture.steps["end_ns"]

    operators, runtime = (rows(capture, level) for level in (Level.OPERATOR, Level.RUNTIME))

    assert len(starts) == STEPS
    assert capture.facts["notes"][0].startswith("operators that TensorFlow calls cheap")
    for found in (operators, runtime):
        assert {row["step"] for row in found} == set(range(STEPS))
        assert all(starts[row["step"]] - capture.clock_error_ns <= row["start_ns"] for row in found)
    # The executor's own code may end after it has told the caller that all is done.
    assert all(row["end_ns"] <= ends[row["step"]] + capture.clock_error_ns for row in operators)


@pytest.mark.parametrize("name", TIMES)
def test_every_layer_has_its_operator_exactly_once_per_step_forward(runs: Runs, name: str) -> None:
    rows = runs.rows(name)

    found = Counter(
        (row["step"], row["layer"], row["type"] in types)
        for row in rows
        for kind, types in TYPES.items()
        if row["phase"] == FORWARD and row["type"] in types and NETWORK.layer(row["layer"]).kind == kind
    )

    layers = [layer.name for layer in NETWORK.layers if layer.kind in TYPES]
    assert found == {(step, layer, True): 1 for step in range(STEPS) for layer in layers}


@pytest.mark.parametrize("name", ["graph training time", "session training time"])
def test_backward_operators_belong_to_the_layer_that_they_derive(runs: Runs, name: str) -> None:
    rows = [row for row in runs.rows(name) if row["phase"] == BACKWARD and row["step"] == 0]

    kinds = Counter((row["layer"], row["type"].removesuffix("WithBias")) for row in rows)

    for layer in NETWORK.layers:
        if layer.kind == "conv2d":
            assert kinds[layer.name, "Conv2DBackpropFilter"] == 1
            assert kinds[layer.name, "Conv2DBackpropInput"] == (layer.name != "conv1")  # images need no gradient
        elif layer.kind == "matmul":
            assert kinds[layer.name, "MatMul"] == 2
        elif layer.kind in {"pool2d", "lrn"}:
            assert kinds[layer.name, "MaxPoolGrad" if layer.kind == "pool2d" else "LRNGrad"] == 1


@pytest.mark.parametrize("name", TIMES)
def test_only_operators_of_the_loss_have_no_layer(runs: Runs, name: str) -> None:
    nameless = {row["name"] for row in runs.rows(name) if row["layer"] is None}

    is_training = "training" in name
    assert bool(nameless) == is_training
    assert all(node.removeprefix("gradient_tape/").startswith("loss/") for node in nameless)


def test_updates_are_the_optimiser_s_and_know_their_layer(runs: Runs) -> None:
    rows = [row for row in runs.rows("graph training time") if row["type"] == "ResourceApplyGradientDescent"]

    found = Counter((row["layer"], row["phase"]) for row in rows if row["step"] == 0)

    with_weights = [layer.name for layer in NETWORK.layers if layer.parameter_shapes()]
    assert found == {(layer, OPTIMISER): 2 for layer in with_weights}


def test_a_fused_operator_says_what_it_does_together_and_on_which_shapes(runs: Runs) -> None:
    rows = [row for row in runs.rows("graph inference time") if row["step"] == 0]

    [conv] = [row for row in rows if row["layer"] == "conv1" and row["type"] in CONV]
    [last] = [row for row in rows if row["layer"] == "softmax_linear" and row["type"] in DENSE]

    assert (conv["name"], conv["type"], conv["fused"]) == ("conv1/Relu", "_FusedConv2D", "Conv2D+BiasAdd+Relu")
    assert (conv["shapes"], conv["output_bytes"]) == ("4x24x24x3, 5x5x3x8, 8", 4 * 24 * 24 * 8 * 4)
    assert (last["type"], last["fused"]) == ("_FusedMatMul", "MatMul+BiasAdd")


@pytest.mark.full
def test_without_onednn_kernels_have_the_operators_own_names(eigen: Runs) -> None:
    implementations = {row["implementation"] for row in eigen.rows("graph training time")}

    assert implementations == {None}


@pytest.mark.parametrize("name", TIMES)
def test_all_work_of_pool_threads_is_somebody_s(runs: Runs, name: str) -> None:
    capture = runs.capture(name)
    operators, tasks = (rows(capture, level) for level in (Level.OPERATOR, Level.POOL))

    unlinked = [task for task in tasks if task["owner"] == NONE]

    assert tasks
    assert not unlinked
    assert capture.facts["pool"]["unlinked_ns"] == 0
    by_owner: Counter[int] = Counter()
    for task in tasks:
        by_owner[task["owner"]] += task["end_ns"] - task["start_ns"]
    assert {row["row"]: row["pool_cpu_ns"] for row in operators if row["pool_cpu_ns"]} == by_owner
    ends = {row["row"]: row["end_ns"] for row in operators}
    assert all(task["end_ns"] <= ends[task["owner"]] for task in tasks)
    roles = {threads_of(capture)[task["thread"]].role for task in tasks}
    assert roles == {"pool"}


def test_the_calling_thread_is_ours_and_operators_run_on_the_executor(usual: Runs) -> None:
    capture = usual.capture("graph training time")

    main = [thread for thread in threads_of(capture) if thread.role == "main"]
    used = {threads_of(capture)[row["thread"]].role for row in rows(capture, Level.OPERATOR)}

    assert len(main) == 1
    assert main[0].os_id > 0
    assert used == {"executor"}


def test_one_network_has_the_same_operators_in_the_time_and_in_the_memory_pass(runs: Runs) -> None:
    times, memories = (
        {(row["name"], row["layer"], row["phase"], row["type"]) for row in runs.rows(f"graph training {measure}")}
        for measure in ("time", "memory")
    )

    assert times <= memories  # the cheap ones are in the memory pass only


def test_bytes_are_those_of_stepstats_and_temporaries_are_counted_once(runs: Runs) -> None:
    stats = runs.said["graph"]["stepstats"]["FULL_TRACE"]
    expected = {name: total for name, _, total, _, _ in stats if not name.startswith("optimiser/")}

    rows = [row for row in runs.rows("session training memory") if row["step"] == 0 and row["phase"] != OPTIMISER]

    assert {row["name"]: row["requested_bytes"] for row in rows} == expected
    assert sum(row["requested_bytes"] for row in rows) == sum(expected.values())
    assert all(0 <= row["temporary_bytes"] <= row["requested_bytes"] for row in rows)


def test_temporaries_of_convolutions_are_those_of_stepstats(runs: Runs) -> None:
    temporaries = {name: size for name, _, _, size, _ in runs.said["graph"]["stepstats"]["FULL_TRACE"]}

    rows = [row for row in runs.rows("session training memory") if row["step"] == 0 and "Conv2D" in row["type"]]

    assert len(rows) == 5  # two forward, two by weights, one by input
    assert {row["name"]: row["temporary_bytes"] for row in rows} == {
        row["name"]: temporaries[row["name"]] for row in rows
    }
    assert any(row["temporary_bytes"] for row in rows)


def test_the_graph_s_memory_pass_sees_what_the_session_sees(runs: Runs) -> None:
    graph, session = (
        {
            (row["step"], row["name"]): row["requested_bytes"]
            for row in runs.rows(f"{mode} training memory")
            if row["phase"] != OPTIMISER  # an update copies the weights if somebody still reads them, which is chance
        }
        for mode in ("graph", "session")
    )

    assert graph == session


def test_software_trace_gives_the_records_of_full_trace(runs: Runs) -> None:
    stats = runs.said["graph"]["stepstats"]

    full, software = (
        sorted(node for node in stats[level] if not node[0].startswith("optimiser/"))
        for level in ("FULL_TRACE", "SOFTWARE_TRACE")
    )

    assert full == software


def test_operators_that_work_in_place_request_nothing(runs: Runs) -> None:
    rows = runs.rows("not optimised memory")

    in_place = {row["name"]: row["requested_bytes"] for row in rows if row["type"] in {"BiasAdd", "Relu"}}
    [conv] = [row for row in rows if row["layer"] == "conv1" and row["type"] in {"Conv2D", "Conv2DWithBias"}]

    assert {"conv1/Relu", "conv2/Relu", "local3/BiasAdd", "local3/Relu"} <= in_place.keys()
    assert set(in_place.values()) == {0}
    assert conv["requested_bytes"] - conv["temporary_bytes"] == 4 * 24 * 24 * 8 * 4
    # oneDNN adds the bias itself even when nothing is optimised.
    assert conv["fused"] == (None if conv["type"] == "Conv2D" else "Conv2D+BiasAdd")


def test_allocations_of_a_step_are_given_back_except_new_weights(runs: Runs) -> None:
    capture = runs.capture("session training memory")
    sizes = capture.memory_events.bytes

    requested = sum(row["requested_bytes"] for row in rows(capture, Level.OPERATOR))

    assert sizes[sizes > 0].sum() == requested
    assert -sizes[sizes < 0].sum() <= requested
    assert 0 < capture.facts["peak_bytes"] <= requested


def test_what_is_held_is_the_weights(usual: Runs) -> None:
    held = usual.capture("graph training memory").facts["held_bytes"]

    assert held == NETWORK.parameter_count() * 4


def test_eager_operators_have_layers_forward_and_backward(usual: Runs) -> None:
    rows = [row for row in usual.rows("eager training time") if row["step"] == 1]

    forward = Counter((row["layer"], row["type"]) for row in rows if row["phase"] == FORWARD)
    backward = Counter((row["layer"], row["type"]) for row in rows if row["phase"] == BACKWARD)

    for layer in NETWORK.layers:
        if layer.kind in TYPES:
            assert forward[layer.name, TYPES[layer.kind][0]] == 1
    for name, kind in (("conv1", "Conv2DBackpropFilter"), ("conv2", "Conv2DBackpropInput"), ("norm1", "LRNGrad")):
        assert backward[name, kind] == 1
    assert backward["local3", "MatMul"] == backward["local4", "MatMul"] == 2
    assert backward["pool2", "MaxPoolGrad"] == 1
    assert {row["quality"] for row in rows if row["phase"] == BACKWARD and row["layer"]} == {INFERRED}


def test_eager_layers_enclose_their_operators(usual: Runs) -> None:
    capture = usual.capture("eager training time")
    layers = {row["row"]: row for row in rows(capture, Level.LAYER)}
    parents = capture.ranges["parent"].tolist()

    outside = []
    for row in rows(capture, Level.OPERATOR):
        above = row["parent"]
        while above != NONE and above not in layers:
            above = parents[above]
        if above == NONE or layers[above]["layer"] != row["layer"]:
            outside.append(row["name"])

    assert not outside


def test_eager_bytes_are_exact(bfc: Runs) -> None:
    rows = [row for row in bfc.rows("eager training memory") if row["step"] == 0 and row["layer"] == "conv1"]

    forward = {row["type"]: row for row in rows if row["phase"] == FORWARD}

    output = 4 * 24 * 24 * 8 * 4
    assert forward["Conv2D"]["requested_bytes"] - forward["Conv2D"]["temporary_bytes"] == output
    assert (forward["BiasAdd"]["requested_bytes"], forward["BiasAdd"]["temporary_bytes"]) == (output, 0)
    assert forward["ReadVariableOp"]["requested_bytes"] == 0


def test_eager_allocations_have_addresses_and_a_peak(bfc: Runs) -> None:
    capture = bfc.capture("eager training memory")
    addresses, sizes = capture.memory_events.address, capture.memory_events.bytes

    requested = sum(row["requested_bytes"] for row in rows(capture, Level.OPERATOR))

    assert (addresses > 0).all()
    owned = capture.memory_events.range != NONE
    assert sizes[owned & (sizes > 0)].sum() == requested
    assert capture.facts["peak_bytes"] > 4 * 24 * 24 * 8 * 4
    assert "bfc" in capture.facts["allocator"]


def test_our_reading_of_a_profile_is_that_of_tensorflow_s_own_classes(usual: Runs) -> None:
    reading = usual.said["reading"]

    assert reading["events"] > 100
    assert reading["is_equal"]


def test_tensorflow_still_ignores_the_options_of_its_profiler(usual: Runs) -> None:
    """When this fails, shapes (level 3) can be asked for: docs/sources/tensorflow.md and the notes must change."""
    levels = usual.said["reading"]["levels"]

    assert levels == {"host": 2, "device": 1, "python": 0}


def test_networks_are_right_with_and_without_onednn(runs: Runs) -> None:
    error, tolerance = runs.said["graph"]["error"]

    assert error <= tolerance


def test_passes_say_which_allocator_and_which_graph_they_record() -> None:
    source = load_source("tensorflow")

    passes = {mode: source.passes(NetworkConditions(mode=mode)) for mode in ("graph", "eager", "session")}

    assert all([each.name for each in found] == ["time", "memory"] for found in passes.values())
    assert "Session" in passes["graph"][1].note
    assert passes["eager"][1].environment == {"TF_CPU_ALLOCATOR_USE_BFC": "1"}
    assert "allocator" in passes["eager"][1].note
    assert not passes["session"][1].environment
