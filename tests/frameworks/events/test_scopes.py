"""What is recorded of networks that profkit runs call by call: operators, layers, kernels, pool time, bytes."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from profkit import _core
from profkit.capture.schema import NONE
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.networks.layer_program import Operation
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import Cifar10, Mlp
from tests.frameworks.events.source_checks import assert_sound, recorded, rows
from tests.frameworks.networks.graphs import Residual
from tests.frameworks.networks.network_checks import built_here

SMALL = Cifar10(batch=4, crop=24, filters=8)
INFERENCE, TRAINING = NetworkConditions(threads=1), NetworkConditions(threads=2, is_training=True)


@pytest.mark.parametrize("framework", ["native", "numpy"])
@pytest.mark.parametrize("name", ["time", "memory"])
def test_every_operator_of_a_training_step_is_a_span_in_its_step(framework: str, name: str) -> None:
    capture = recorded(framework, SMALL, name, TRAINING, steps=2)

    assert capture.measures == (name,)
    assert_sound(capture, steps=2)
    first, second = rows(capture, step=0), rows(capture, step=1)
    assert [row["name"] for row in first] == [row["name"] for row in second]
    assert {row["phase"] for row in first} == {"forward", "backward", "optimiser"}
    assert {row["layer"] for row in first if row["layer"]} == {layer.name for layer in SMALL.layers}
    assert {row["name"].split("/")[0] for row in first if row["layer"] is None} == {"loss"}
    assert {row["quality"] for row in first} == {"exact"}


def test_operators_name_their_kernels_shapes_and_what_they_fuse() -> None:
    capture = recorded("native", SMALL, "time", INFERENCE, steps=1)

    found = {row["name"]: row for row in rows(capture)}

    conv = found["conv1/conv2d"]
    assert (conv["type"], conv["layer"], conv["phase"]) == ("conv2d", "conv1", "forward")
    assert conv["implementation"] in _core.kernels("conv2d")[:-1]
    assert conv["fused"] == "conv2d+bias+relu"
    assert conv["shapes"] == "4x3x24x24, 8x3x5x5, 8"
    assert conv["output_bytes"] == 4 * 8 * 24 * 24 * 4
    assert found["flatten/reshape"]["implementation"] == "numpy"


@pytest.mark.parametrize("threads", [1, 2])
def test_native_bytes_are_the_result_and_the_kernels_workspace(threads: int) -> None:
    capture = recorded("native", SMALL, "memory", NetworkConditions(threads=threads), steps=1)

    found = {row["name"]: row for row in rows(capture)}

    for layer, operator in (("conv1", "conv2d"), ("conv2", "conv2d"), ("pool1", "pool2d"), ("norm1", "lrn")):
        spec = SMALL.layer(layer).spec
        assert spec is not None
        row = found[f"{layer}/{operator}"]
        used = worthwhile_threads(spec, threads)
        workspace = _core.workspace_bytes(row["implementation"], spec.params(), used)
        assert row["temporary_bytes"] == workspace
        assert row["requested_bytes"] == row["peak_bytes"] == workspace + row["output_bytes"]
    assert found["conv2/conv2d"]["temporary_bytes"] > 0
    assert found["flatten/reshape"]["requested_bytes"] == 0


def test_what_works_in_place_asks_for_no_bytes() -> None:
    capture = recorded("numpy", Mlp(batch=64, hidden=2, neurons=16), "memory", TRAINING, steps=1)

    found = {row["name"]: row["requested_bytes"] for row in rows(capture)}

    assert found["hidden1/relu_gradient"] == 64 * 16  # of the comparison
    assert found["hidden1/sgd_w"] == 0
    assert 64 * 16 * 4 <= found["hidden1/matmul"] < 64 * 16 * 4 + 16  # ReLU with the number 0


def test_an_operator_with_several_results_counts_the_bytes_of_all() -> None:
    network = Residual()

    found = {row["name"]: row["output_bytes"] for row in rows(recorded("numpy", network, "time", TRAINING, steps=1))}

    values = 4 * math.prod(network.layer("stem_norm").output_shape)
    assert found["stem_norm/batch_norm"] == values + 2 * 4 * 4
    assert found["stem_norm/batch_norm_gradient"] == values + 2 * 4 * 4
    assert found["stem_relu/gradient_sum_3"] == values


def test_the_peak_of_a_step_is_the_one_that_tracemalloc_sees() -> None:
    network = Cifar10(batch=8, crop=24, filters=8)
    trial = built_here(load_builder("numpy"), network, TRAINING)
    trial.built.train(trial.batch)

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        trial.built.train(trial.batch)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    capture = recorded("numpy", network, "memory", TRAINING, steps=1)

    # tracemalloc counts Python's own objects too: some kilobytes of dicts, tuples and views.
    assert capture.facts["peak_bytes"] > 1_000_000
    assert 0 <= peak - capture.facts["peak_bytes"] < 100_000


def test_the_table_of_allocations_adds_up_to_what_the_spans_say() -> None:
    capture = recorded("native", SMALL, "memory", TRAINING, steps=2)

    span, size = capture.memory_events.range, capture.memory_events.bytes
    taken = np.bincount(
        span[(size > 0) & (span != NONE)], size[(size > 0) & (span != NONE)], minlength=len(capture.ranges)
    )
    np.testing.assert_array_equal(taken, capture.ranges["requested_bytes"])
    assert (capture.ranges["temporary_bytes"] <= capture.ranges["requested_bytes"]).all()
    assert np.cumsum(size).max() == capture.facts["peak_bytes"]
    # All that two steps took they gave back; their losses are scalars, which are not arrays.
    assert size.sum() == 0
    assert capture.facts["held_bytes"] == SMALL.parameter_count() * 4


def test_time_of_other_threads_is_in_operators_that_use_them_only() -> None:
    network = Cifar10(batch=16, crop=24, filters=16)

    capture = recorded("native", network, "time", TRAINING, steps=1)

    found = {row["name"]: row["pool_cpu_ns"] for row in rows(capture)}
    assert found["conv2/conv2d"] > 0
    assert found["conv2/input_gradient"] > 0
    assert found["softmax_linear/bias_gradient"] == found["flatten/reshape"] == found["loss/log_softmax"] == 0
    assert any("clock of every other thread" in note for note in capture.facts["notes"])


def test_numpy_says_which_of_its_operators_blas_may_split() -> None:
    built = load_builder("numpy").build(SMALL, SMALL.initial_weights(), INFERENCE)

    threaded = {operation.type for operation in built.model.operations if operation.uses_threads}

    assert threaded == {"conv2d", "matmul"}


def test_a_failing_step_leaves_nothing_behind() -> None:
    trial = built_here(load_builder("numpy"), Mlp(batch=2, hidden=1, neurons=4), INFERENCE)
    watched = SourceSubject(trial.network, trial.built, INFERENCE, lambda: trial.built.infer({}))

    for name in ("time", "memory"):
        with pytest.raises(KeyError):
            load_source("numpy").record(watched, name, 1)

    assert trial.built.model.watch is None
    assert trial.logits_error() <= trial.tolerance()


def test_nothing_stands_between_operators_when_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = built_here(load_builder("numpy"), Mlp(batch=2, hidden=1, neurons=4), INFERENCE)
    seen: list[str] = []

    def watch(operation: Operation, *arguments: Any) -> Any:
        seen.append(operation.name)
        return operation.run(*arguments)

    trial.built.infer(trial.batch)
    monkeypatch.setattr(trial.built.model, "watch", watch)
    trial.built.infer(trial.batch)

    assert seen == [operation.name for operation in trial.built.model.operations]


@pytest.mark.parametrize("framework", ["native", "numpy"])
def test_a_whole_run_checks_times_and_records(framework: str) -> None:
    request = NetworkRequest(Mlp(batch=8, hidden=2, neurons=16), framework, is_training=True, steps=2)

    capture = run_network(request)

    assert (capture.status, capture.reason) == ("ok", "")
    assert capture.error is not None
    assert capture.tolerance is not None
    assert capture.error <= capture.tolerance
    assert [capture.measures for capture in capture.captures] == [("time",), ("memory",)]
    assert len(capture.step_ns) == 6
