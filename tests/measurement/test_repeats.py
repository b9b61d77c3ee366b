"""The same seed twice: what counts as the same, and what the table says of what does not."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.capture.run import Run
from profkit.frameworks.networks import load_builder
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.measurement.repeats import repeats_of
from profkit.ops.networks import Mlp, find_network
from profkit.rendering.quantities import ABSENT
from profkit.rendering.usage.repeats import repeat_table

SMALL = Mlp(batch=4, hidden=2, neurons=16)


def test_numbers_are_the_same_when_their_bits_are() -> None:
    one = {"a.w": np.array([1, 2, np.nan, 0], np.float32), "a.b": np.array([1.0, -4, 2]), "c": np.array([np.inf])}
    other = {"a.w": np.array([1, 2, np.nan, -0.0], np.float32), "a.b": np.array([1.0, -4, 2.5]), "c": np.array([1.0])}

    same = repeats_of(one, one)
    rows = repeats_of(one, other)

    assert [row["different"] for row in same] == [0, 0, 0]
    assert [(row["name"], row["count"], row["different"]) for row in rows] == [
        ("a.w", 4, 1),
        ("a.b", 3, 1),
        ("c", 1, 1),
    ]
    assert (rows[1]["largest"], rows[1]["size"]) == (0.5, 4.0)
    assert rows[2]["largest"] is None and rows[2]["size"] is None


def test_the_table_has_a_line_per_layer_with_its_worst_array() -> None:
    one = {"loss": np.ones(3), "a.w": np.array([1.0, 8.0]), "a.b": np.array([0.01]), "b.w": np.array([np.inf])}
    other = {"loss": np.ones(3), "a.w": np.array([1.5, 8.0]), "a.b": np.array([0.012]), "b.w": np.ones(1)}
    run = Run(SMALL.to_dict(), "numpy", "eager", 1, True, repeats={"steps": 3, "rows": repeats_of(one, other)})

    table = repeat_table(run)

    assert (
        table.facts[0].startswith("3 training steps in two processes")
        and "1 of 4 arrays are bit-equal" in table.facts[0]
    )
    assert [line.texts for line in table.lines] == [
        ("loss", "3", "bit-equal", ABSENT, ABSENT),
        ("a", "3", "67%", "2.0e-3", "2.0e-1"),
        ("b", "1", "100%", ABSENT, ABSENT),
    ]


@pytest.mark.parametrize("is_training", [True, False])
def test_a_run_is_repeated_in_two_processes(is_training: bool) -> None:
    run = run_network(NetworkRequest(SMALL, "numpy", is_training=is_training, steps=2, is_repeated=True))

    names = ["loss", *SMALL.parameter_shapes()] if is_training else ["logits"]
    assert run.status == "ok", run.reason
    assert [row["name"] for row in run.repeats["rows"]] == names
    assert all(row["different"] == 0 and row["count"] for row in run.repeats["rows"])
    assert run.repeats["rows"][0]["count"] == (2 if is_training else 4 * 7)


def test_networks_with_dropout_learn_alike_in_all_frameworks_and_again() -> None:
    network = find_network("cnn_softmax")(batch=32, filters=1 / 16)
    runs = [
        run_network(
            NetworkRequest(network, name, is_training=True, steps=2, is_repeated=True, learn_steps=3, passes=())
        )
        for name in ("numpy", "native")
    ]

    for run in runs:
        assert run.status == "ok", run.reason
        assert not any(row["different"] for row in run.repeats["rows"])
    numpy, native = (run.learning for run in runs)
    assert numpy["losses"] == pytest.approx(native["losses"], rel=1e-4)
    assert numpy["test_error"] == pytest.approx(native["test_error"], abs=0.02)


def test_a_framework_that_cannot_train_is_not_asked_to_learn() -> None:
    if not load_builder("onnxruntime").is_available().available:
        pytest.skip("onnxruntime is not installed")

    run = run_network(NetworkRequest(SMALL, "onnxruntime", steps=1, learn_steps=1))

    assert run.status == "unsupported" and not run.step_ns
