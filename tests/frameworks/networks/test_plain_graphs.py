"""Graphs of layers run layer by layer (native, numpy, numba's place in test_numpy_numba.py, cupy on NumPy): results,
every gradient and every updated weight against float64, and how gradients of several readers are added."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from profkit.attribution.passes import run_usage
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.kernels import Kernels
from profkit.frameworks.networks.layer_plan import LOSS, LayerPlan
from profkit.frameworks.networks.layer_program import LayerProgram, gradient
from profkit.frameworks.networks.plain_layers import LayerBuilder
from profkit.ops.networks import Training
from profkit.ops.networks.work import network_work
from profkit.ops.spec import Spec
from tests.capture.network_captures import network_capture
from tests.frameworks.events.source_checks import recorded
from tests.frameworks.networks.graphs import GRAPHS, MORE_GRAPHS, Recurrent, SharedTwice, graph_problems
from tests.ops.networks.small import small_networks
from tests.support.fake_cupy import FakeCupy

NO_WORK = ("reshape", "positions_table")


@pytest.mark.parametrize("framework", ["native", "numpy", "cupy"])
def test_graphs_are_equal_to_float64(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if framework == "cupy":
        monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    trials = GRAPHS + MORE_GRAPHS

    problems = [graph_problems(load_builder(framework), network, training, "") for network, training in trials]

    assert problems == [{}] * len(trials)


def test_gradients_of_several_readers_are_added_by_operations_of_their_own() -> None:
    built = load_builder("numpy").build(
        SharedTwice(), SharedTwice().initial_weights(), NetworkConditions(is_training=True)
    )

    sums = [each for each in built.model.operations if each.type == "gradient_sum"]

    assert [(each.layer, each.phase) for each in sums] == [("c", "backward"), ("a", "backward"), ("a", "backward")]


def test_gradients_agree_with_differences_of_the_loss() -> None:
    class Nothing(Kernels):
        def kernel(self, spec: Spec) -> None:
            return None

    network, generator = SharedTwice(), np.random.default_rng(3)
    weights = {name: value.astype(np.float64) for name, value in network.initial_weights().items()}
    plan = LayerPlan(network, Nothing(), is_training=True)
    plan.add_backward()
    program = LayerProgram(plan.operations, weights, LOSS, map(gradient, network.parameter_shapes()))
    given = {"images": generator.standard_normal((3, 4)), "labels": np.array([0, 2, 1])}

    found = program.values(given)

    for name in network.parameter_shapes():
        losses = []
        for change in (1e-5, -1e-5):
            weights[name].flat[1] += change
            losses.append(float(program(given)))
            weights[name].flat[1] -= change
        assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(found[gradient(name)].flat[1], rel=1e-6)


def test_a_schedule_sets_the_rates_of_later_steps() -> None:
    network = SharedTwice()
    built = load_builder("numpy").build(
        network, network.initial_weights(), NetworkConditions(is_training=True, training=Training(learning_rate=1.0))
    )
    batch = built.put(np.ones((3, 4), np.float32), np.array([0, 1, 2]))
    built.set_rates(0.0, 0.0)

    built.train(batch)

    for name, values in network.initial_weights().items():
        np.testing.assert_array_equal(built.weights()[name], values)


@pytest.mark.parametrize("framework", ["native", "numpy", "numba"])
def test_builders_say_truly_which_layers_are_one_operator_of_theirs(framework: str) -> None:
    """Forward, in inference, as the matrix of docs/networks.md has it."""
    builder = load_builder(framework)
    assert isinstance(builder, LayerBuilder)
    for network in [*small_networks(), Recurrent()]:
        plan = LayerPlan(network, builder.kernels(NetworkConditions()), is_training=False)
        plan.add_forward()
        for layer in network.layers:
            own = [each for each in plan.operations if each.layer == layer.name and each.type not in NO_WORK]
            keys = [each.implementation for each in own if f"/{framework}/" in each.implementation]
            if layer.kind in builder.by_numpy or (layer.kind in builder.composed and framework == "numba"):
                assert (len(own), keys) == (1, []), (network.name, layer.name)
            elif layer.kind not in builder.composed and own:
                assert len(own) == 1 and (keys or framework == "numpy"), (network.name, layer.name)


def test_every_operator_of_every_network_has_a_kind_and_every_formula_an_operator() -> None:
    for network in small_networks():
        capture = recorded("numpy", network, "time", NetworkConditions(is_training=True), steps=1, warm_up=0)
        run = network_capture(capture, network=network, is_training=True, training=Training().field_values())

        usage = run_usage(run)

        told = [note for note in usage.notes if note.startswith(("kind other", "flops"))]
        flops = sum(row or 0 for row in usage.rows.column("flops"))
        assert not told, network.name
        assert flops == sum(part.flops for part in network_work(network, Training()).values()), network.name
