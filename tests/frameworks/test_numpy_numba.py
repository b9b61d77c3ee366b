"""The NumPy and Numba adapters are right on every odd shape, for one and for two threads. All that runs Numba's
kernels is in this file, so that one process compiles each of them once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops import SPECS, Conv2d, MatMul, Spec, odd_specs
from profkit.ops.dtypes import is_narrow
from profkit.ops.networks import Cifar10, Training
from profkit.ops.spec import max_error, tolerance
from tests.frameworks.networks.graphs import GRAPHS, graph_problems
from tests.frameworks.networks.network_checks import built_here
from tests.frameworks.odd_specs_runner import faults, rows_of

MISSING = {("numba", op) for op in ("lstm", "attention", "optimiser_step")}
by_backend = pytest.mark.parametrize("backend", ["numpy", "numba"])


def require(backend: str) -> None:
    pytest.importorskip(backend, reason=f"{backend} is not installed")


@by_backend
@pytest.mark.parametrize("part", ["sample", pytest.param("rest", marks=pytest.mark.full)])
@pytest.mark.parametrize("op", SPECS)
@pytest.mark.parametrize("threads", [pytest.param(1, marks=pytest.mark.full), 2])
def test_supported_odd_specs_match_the_reference(backend: str, part: str, op: str, threads: int) -> None:
    require(backend)
    adapter = load_adapter(backend)
    if not adapter.implementations(op):
        assert (backend, op) in MISSING
        return
    [implementation] = adapter.implementations(op)
    adapter.start(implementation, Conditions(threads))

    rows = rows_of(adapter, implementation, part, threads)

    assert {row["status"] for row in rows} >= {"ran"}
    assert not faults(rows)


@by_backend
def test_only_what_is_named_is_declined(backend: str) -> None:
    adapter = load_adapter(backend)
    for op in SPECS:
        for implementation in adapter.implementations(op):
            for spec in odd_specs(op):
                is_declined = is_narrow(spec.dtype_word) or lacks(backend, spec)
                assert bool(adapter.supports(implementation, spec)) == is_declined, (backend, spec)


def lacks(backend: str, spec: Any) -> bool:
    """What has no function there: gradients of pooling, with Numba all but those of convolution."""
    if (backend, spec.op) == ("numba", "batch_norm"):
        return (spec.direction, spec.mode, spec.layout) != ("forward", "training", "NCHW")
    is_gradient = spec.words().get("direction", "forward") != "forward"
    return is_gradient and (spec.op == "pool2d" or (backend == "numba" and spec.op != "conv2d"))


@by_backend
def test_a_reused_output_is_the_same_memory_and_a_fresh_one_is_not(backend: str) -> None:
    require(backend)
    adapter, spec = load_adapter(backend), MatMul(3, 5, 7)
    [implementation] = adapter.implementations("matmul")
    adapter.start(implementation, Conditions())

    for output in ("fresh", "reused"):
        prepared = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(1, output))
        first, second = prepared.call(), prepared.call()

        assert prepared.output == output
        assert np.shares_memory(first, second) == (output == "reused")


@by_backend
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_nothing_of_the_spec_is_worked_out_in_the_timed_call(
    backend: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(backend)
    adapter = load_adapter(backend)
    specs = [odd_specs(op)[0] for op in SPECS if adapter.implementations(op)]
    calls = []
    for spec in specs:
        [implementation] = adapter.implementations(spec.op)
        adapter.start(implementation, Conditions())
        calls.append(adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(1, output)).call)
    for spec in specs:
        monkeypatch.setattr(type(spec), "output_shape", refuse)
        monkeypatch.setattr(type(spec), "numpy_dtype", property(refuse))

    results = [call() for call in calls for _ in range(2)]

    assert not any(np.isnan(result).any() for result in results)


def refuse(spec: Spec) -> None:
    raise AssertionError("worked out in the timed call")


@by_backend
def test_buffers_held_between_calls_are_counted(backend: str) -> None:
    require(backend)
    adapter, spec = load_adapter(backend), Conv2d(2, 3, 8, 8, 4, (3, 3), padding=(1, 1, 1, 1))
    [implementation] = adapter.implementations("conv2d")

    prepared = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions())

    one_image_of_windows = 3 * 3 * 3 * 64 * 4
    assert prepared.held_bytes >= one_image_of_windows


def test_numba_gives_the_same_bits_for_the_same_number_of_threads() -> None:
    require("numba")
    adapter = load_adapter("numba")
    spec = next(spec for spec in odd_specs("conv2d") if spec.words()["direction"] == "weight-gradient")
    [implementation] = adapter.implementations("conv2d")
    adapter.start(implementation, Conditions(2))

    results = [adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(2)).call() for _ in range(3)]

    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_numba_splits_one_image_among_any_number_of_threads(threads: int) -> None:
    require("numba")
    adapter, spec = load_adapter("numba"), Conv2d(1, 3, 6, 6, 4, (3, 3), padding=(1, 1, 1, 1))
    [implementation] = adapter.implementations("conv2d")
    adapter.start(implementation, Conditions(threads))

    result = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(threads)).call()

    error = max_error(result, spec.reference(spec.make_inputs()))
    assert error <= tolerance(spec.numpy_dtype, spec.reduction_length())


def test_a_network_in_numba_is_equal_to_float64_in_training_and_in_inference() -> None:
    require("numba")
    conditions = NetworkConditions(threads=2, is_training=True)
    trial = built_here(load_builder("numba"), Cifar10(batch=4, crop=24, filters=8), conditions)

    logits_error = trial.logits_error()
    training_error = trial.training_error(Training(), 1)

    assert logits_error <= trial.tolerance()
    assert training_error <= trial.tolerance(is_training=True)


def test_graphs_in_numba_are_equal_to_float64() -> None:
    require("numba")
    builder = load_builder("numba")
    builder.start(NetworkConditions(2, "", True))

    problems = [graph_problems(builder, network, training, "") for network, training in GRAPHS]

    assert problems == [{}] * len(GRAPHS)


def test_numpy_names_its_blas() -> None:
    adapter = load_adapter("numpy")

    facts = adapter.start(adapter.implementations("matmul")[0], Conditions())

    assert facts["version"] == np.__version__
    assert facts["blas"]
