"""Networks run layer by layer (native, numpy, numba) give what float64 gives, in inference and in training."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from profkit import _core
from profkit.errors import UnsupportedError
from profkit.frameworks.native.policy import choose_kernel
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import LayerProgram, Operation
from profkit.ops.networks import Cifar10, Mlp, Solar, Training
from profkit.ops.networks.graph import Graph
from tests.frameworks.networks.network_checks import built_here

SMALL = Cifar10(batch=4, crop=24, filters=8)
"""The last one is large."""


def test_a_network_that_was_trained_infers_with_its_new_weights() -> None:
    trial = built_here(load_builder("numpy"), Mlp(batch=5, hidden=1, neurons=4), NetworkConditions(is_training=True))
    before = np.array(trial.built.infer(trial.batch))

    trial.built.train(trial.batch)

    assert not np.array_equal(before, trial.built.infer(trial.batch))


def test_training_leaves_the_weights_that_were_given_as_they_were() -> None:
    network = Mlp(batch=5, hidden=1, neurons=4)
    weights = network.initial_weights()
    built = load_builder("numpy").build(network, weights, NetworkConditions(is_training=True))
    rows, labels = np.ones(network.input_shape(), np.float32), np.zeros(5, np.int64)

    built.train(built.put(rows, labels))

    for name, values in network.initial_weights().items():
        np.testing.assert_array_equal(weights[name], values)


def test_dropout_is_random_in_training_and_nothing_in_inference() -> None:
    conditions = NetworkConditions(is_training=True, training=Training(learning_rate=0.0))
    trial = built_here(load_builder("native"), Solar(batch=2), conditions)

    losses = {float(trial.built.train(trial.batch)) for _ in range(3)}
    logits_error = trial.logits_error()

    assert len(losses) == 3
    assert logits_error <= trial.tolerance()


def test_a_network_built_for_inference_cannot_be_trained() -> None:
    trial = built_here(load_builder("numpy"), Mlp(batch=2, hidden=1, neurons=4), NetworkConditions())

    with pytest.raises(UnsupportedError, match="for inference only"):
        trial.built.train(trial.batch)


def test_native_layers_take_the_policys_kernel_and_say_what_numpy_does_for_them() -> None:
    built = load_builder("native").build(SMALL, SMALL.initial_weights(), NetworkConditions(is_training=True))
    found = {operation.name: operation for operation in built.model.operations}

    spec = SMALL.layer("conv1").spec
    assert spec is not None
    assert found["conv1/conv2d"].implementation == choose_kernel(spec, 1).key
    assert found["conv1/conv2d"].fused == "conv2d+bias+relu"
    assert found["conv2/input_gradient"].implementation in _core.kernels("conv2d")[:-1]
    assert found["local3/weight_gradient"].implementation == _core.kernels("matmul")[0]
    assert found["local3/matmul"].implementation == _core.kernels("matmul")[0]
    assert found["local3/matmul"].fused == "matmul+bias+relu"
    assert found["local3/bias_gradient"].implementation == _core.kernels("bias_relu")[0]
    assert found["local3/sgd_w"].implementation == _core.kernels("optimiser_step")[0]
    assert found["softmax_linear/bias_gradient"].implementation == "numpy"
    assert found["local3/sgd_w"].phase == "optimiser"
    assert any("NumPy" in note for note in built.notes)


def test_no_gradient_of_the_images_is_computed() -> None:
    built = load_builder("numpy").build(SMALL, SMALL.initial_weights(), NetworkConditions(is_training=True))

    names = [operation.name for operation in built.model.operations]

    assert "conv1/weight_gradient" in names
    assert "conv1/input_gradient" not in names
    assert len(set(names)) == len(names)


def test_values_are_dropped_after_their_last_use() -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def next_value(x: NDArray[np.float64]) -> NDArray[np.float64]:
        alive.append(sum(value() is not None for value in made))
        result: NDArray[np.float64] = x + 1
        made.append(weakref.ref(result))
        return result

    def operation(source: str, output: str) -> Operation:
        return Operation(output, "add", "", "forward", "numpy", (source,), (output,), next_value)

    chain = [operation("images", "a"), operation("a", "b"), operation("b", "c"), operation("c", "d")]

    result = LayerProgram(chain, {}, "d")({"images": np.zeros(1)})

    assert result == [4.0]
    assert alive == [0, 1, 1, 1]


def test_chains_of_layers_that_a_user_writes_are_run() -> None:
    class Own(Mlp):
        def describe(self, graph: Graph) -> None:
            graph.dense("first", 6).dense("output", 7, "none")

    trial = built_here(load_builder("native"), Own(batch=3), NetworkConditions(is_training=True))

    assert trial.training_error(Training(), 1) <= trial.tolerance(is_training=True)
