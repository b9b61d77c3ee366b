"""The baseline of a network: which kernels stand for a layer, that they are remembered, and what its rows say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.frameworks.cache import cache_folder
from profkit.measurement import baseline, kernel_times
from profkit.measurement.baseline import bound, measure_baseline, native_bound_ns, work_by_phase
from profkit.measurement.kernel_times import kernel_time
from profkit.measurement.workers import kernel as kernel_worker
from profkit.measurement.workers.process import WorkerFailure
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.networks import NETWORKS, Cifar10, LeNet, Mlp, Solar, Training
from profkit.ops.networks.parts import layer_parts
from profkit.ops.networks.work import BACKWARD, FORWARD, NO_LAYER, OPTIMISER, StepWork

SMALL = LeNet(batch=2, maps=1, convolutions=1)
PEAKS = {"flops_per_s": 1e9, "bytes_per_s": 1e8}


@pytest.fixture(autouse=True)
def known_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of its own, and peaks that take no time to measure."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(baseline, "machine_peaks", lambda dtype, threads: PEAKS)


def test_the_parts_of_a_dense_layer_give_its_output_and_its_gradients() -> None:
    layer = SMALL.layer("dense2")
    generator = np.random.default_rng(1)
    x, w, b, dy = (generator.standard_normal(shape) for shape in ((2, 120), (120, 84), (84,), (2, 84)))

    [(_, product)] = layer_parts(SMALL, layer, FORWARD, is_training=True).specs
    by_input, by_weight, through_relu, by_bias = (
        spec for _, spec in layer_parts(SMALL, layer, BACKWARD, is_training=True).specs
    )

    y = product.reference({"a": x, "b": w, "bias": b})
    np.testing.assert_allclose(y, np.maximum(x @ w + b, 0))
    images = {"y": y.reshape(2, 84, 1, 1), "dy": dy.reshape(2, 84, 1, 1)}
    before = through_relu.reference(images).reshape(2, 84)
    np.testing.assert_allclose(before, dy * (y > 0))
    np.testing.assert_allclose(by_bias.reference(images), before.sum(axis=0))
    np.testing.assert_allclose(by_input.reference({"a": before, "b": w}), before @ w.T)
    np.testing.assert_allclose(by_weight.reference({"a": x, "b": before}), x.T @ before)


def test_the_parts_of_a_convolution_are_the_layer_forward_and_its_gradients() -> None:
    network = Cifar10(batch=2)
    layer = network.layer("conv2")

    forward = layer_parts(network, layer, FORWARD, is_training=True)
    backward = layer_parts(network, layer, BACKWARD, is_training=True)

    assert forward.specs == ((FORWARD, layer.spec),)
    assert [(name, spec.output_shape()) for name, spec in backward.specs] == [
        ("input gradient", (2, 64, 16, 16)),
        ("weight gradient", (64, 64, 5, 5)),
        ("ReLU gradient", (2, 64, 16, 16)),
        ("bias gradient", (64,)),
    ]
    assert backward.without_spec == ()


def test_nobody_needs_the_gradient_of_the_images() -> None:
    network = Cifar10(batch=2)

    backward = layer_parts(network, network.layer("conv1"), BACKWARD, is_training=True)

    assert "input gradient" not in dict(backward.specs)
    assert "weight gradient" in dict(backward.specs)


def test_parts_that_no_operator_describes_are_named() -> None:
    network, words = Solar(batch=2), NETWORKS["transformer"](batch=1, depth=1)

    def missing(name: str, phase: str, is_training: bool = True) -> tuple[str, ...]:
        owner = network if name in {layer.name for layer in network.layers} else words
        return layer_parts(owner, owner.layer(name), phase, is_training).without_spec

    assert missing("pool", BACKWARD) == missing("flatten", BACKWARD) == missing("dropout1", FORWARD) == ()
    assert missing("mean", FORWARD) == ("mean",)
    assert missing("output", BACKWARD) == ()
    assert missing("block1_attention", BACKWARD) == ()
    assert missing("block1_q", BACKWARD) == ("bias gradient",)


def test_the_gradient_of_an_lstm_is_that_of_its_gates_and_products_of_all_steps() -> None:
    network = NETWORKS["imdb_lstm"](batch=2, cells=5, length=3, depth=2)

    backward = layer_parts(network, network.layer("lstm2"), BACKWARD, is_training=True)

    assert [(name, spec.output_shape()) for name, spec in backward.specs] == [
        ("gate gradient", (2, 3, 20)),
        ("input gradient", (6, 5)),
        ("weight gradient", (5, 20)),
        ("recurrent gradient", (5, 20)),
    ]
    assert backward.without_spec == ("bias gradient",)


def test_every_layer_of_every_network_has_parts_or_says_what_has_none() -> None:
    for kind in NETWORKS.values():
        network = kind(batch=2)
        work = work_by_phase(network, Training())
        for layer in network.layers:
            for phase in (FORWARD, BACKWARD):
                parts = layer_parts(network, layer, phase, is_training=True)
                has_work = (layer.name, phase) in work and layer.kind not in ("add", "positions")
                assert bool(parts.specs or parts.without_spec) >= has_work, (network.name, layer.name, phase)


def test_the_bound_is_the_longer_of_arithmetic_and_memory() -> None:
    heavy = bound(StepWork(flops=2_000, bytes=100), PEAKS)
    light = bound(StepWork(flops=100, bytes=2_000), PEAKS)

    assert (heavy["bound_ns"], heavy["bound_by"]) == (pytest.approx(2_000), "compute")
    assert (light["bound_ns"], light["bound_by"]) == (pytest.approx(20_000), "memory")


def test_the_bound_of_native_counts_the_products_of_its_winograd_kernels() -> None:
    spec = Conv2d(batch=2, in_channels=4, height=8, width=8, out_channels=6, kernel_size=3, padding=1)
    work = StepWork(flops=spec.least_flops() + 10, bytes=1)

    def row(key: str) -> dict[str, object]:
        return {"native_ns": 5.0, "parts": [{"key": f"conv2d/native/cpu/{key}", "spec": spec.to_dict()}]}

    assert native_bound_ns(row("direct"), work, PEAKS) == bound(work, PEAKS)["bound_ns"]
    winograd_flops = 2 * 2 * 4 * 6 * 4 * 36 + 10
    assert native_bound_ns(row("winograd_6x6"), work, PEAKS) == pytest.approx(
        1e9 * winograd_flops / PEAKS["flops_per_s"]
    )
    assert native_bound_ns({"native_ns": None, "parts": []}, work, PEAKS) is None


def test_work_is_summed_over_a_layer_and_the_optimiser_over_all() -> None:
    work = work_by_phase(SMALL, Training())

    dense = SMALL.layer("dense2").spec
    assert isinstance(dense, MatMul)
    # Bias and ReLU add one flop per output each, and no bytes but those of the bias.
    assert work["dense2", FORWARD].flops == dense.flops() + 2 * 84
    assert work["dense2", FORWARD].bytes == dense.min_bytes()
    assert work[NO_LAYER, OPTIMISER].flops == 2 * SMALL.parameter_count()


def test_a_network_is_measured_once_and_then_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    first = measure_baseline(SMALL, 1, is_training=True, budget_s=0.05)
    monkeypatch.setattr(kernel_times, "WorkerProcess", None)  # cannot be started any more
    second = measure_baseline(SMALL, 1, is_training=True, budget_s=0.05)

    assert second == first
    rows = {(row["layer"], row["phase"]): row for row in first}
    assert list(rows)[:3] == [("conv1", FORWARD), ("pool1", FORWARD), ("dense1", FORWARD)]
    conv = rows["conv1", FORWARD]
    assert conv["native_key"].startswith("conv2d/native/cpu/")
    assert not conv["native_key"].endswith("reference")
    assert conv["native_ns"] == conv["one_thread_ns"] > 0
    assert all(part["low_ns"] <= part["native_ns"] <= part["high_ns"] for part in conv["parts"])
    assert rows["pool1", BACKWARD]["native_key"].startswith("pool2d/native/cpu/")
    assert rows["pool1", BACKWARD]["bound_ns"] > 0
    assert rows["dense2", BACKWARD]["native_key"] == "matmul/native/cpu/blocked + bias_relu/native/cpu/vectorized"
    assert rows["output", BACKWARD]["without_kernel"] == ["bias gradient"]
    assert rows[NO_LAYER, OPTIMISER]["native_key"].startswith("optimiser_step/native/cpu/")
    assert rows[NO_LAYER, FORWARD]["native_ns"] is None
    assert [key for key in rows if key[0] == NO_LAYER] == [("", FORWARD), ("", BACKWARD), ("", OPTIMISER)]
    assert json.loads(json.dumps(first)) == first


def test_with_several_threads_one_thread_is_timed_as_well() -> None:
    answer = kernel_worker.KernelWorker().do_measure(MatMul(m=5, n=6, k=7).to_dict(), threads=2, budget_s=0.0)

    found = kernel_time(answer, 2)

    assert found["key"] == "matmul/native/cpu/blocked"
    assert found["one_thread_ns"] > 0
    assert found["failed"] == {}


def test_a_kernel_that_is_wrong_is_not_in_the_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_worker, "tolerance", lambda dtype, terms: -1.0)

    answer = kernel_worker.KernelWorker().do_measure(MatMul(m=5, n=6, k=7).to_dict(), threads=1, budget_s=0.0)
    found = kernel_time(answer, 1)

    assert found["key"] is None
    assert "wrong: error" in found["failed"]["matmul/native/cpu/blocked"]


def test_the_fastest_kernel_is_named_beside_what_the_others_took() -> None:
    def entry(*samples: float) -> dict[str, Any]:
        return {"samples_ns": list(samples), "workspace_bytes": 64, "error": 1e-7}

    answer = {
        "kernels": {"a": entry(10.0, 12.0, 11.0), "b": entry(9.0, 9.5, 30.0)},
        "slower_ns": {"c": 99.0},
        "failed": {},
        "one_thread_samples_ns": [17.0, 19.0],
    }

    found = kernel_time(answer, 2)

    assert (found["key"], found["native_ns"], found["one_thread_ns"]) == ("b", pytest.approx(9.5), 18.0)
    assert found["others_ns"] == {"a": 11.0, "c": 99.0}


def test_a_worker_that_dies_costs_its_own_operator_only(monkeypatch: pytest.MonkeyPatch) -> None:
    specs = [MatMul(m=3, n=3, k=3), MatMul(m=4, n=4, k=4)]
    started: list[Any] = []

    def start(threads: int) -> Any:
        worker = genuine(threads)
        started.append(worker)
        if len(started) == 1:
            worker.process.kill()
        return worker

    genuine = kernel_times._start
    monkeypatch.setattr(kernel_times, "_start", start)

    found = kernel_times.kernel_times(specs, 1, 0.0, lambda _: None)
    again = kernel_times.kernel_times(specs, 1, 0.0, lambda _: None)

    assert again[specs[0]]["key"] == "matmul/native/cpu/blocked"
    assert found[specs[0]]["key"] is None
    assert "crashed" in found[specs[0]]["failed"]["all"]
    assert found[specs[1]]["key"] == "matmul/native/cpu/blocked"


def test_times_of_a_busy_machine_are_measured_again_when_it_is_quieter(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = MatMul(m=3, n=3, k=3)
    told: list[str] = []

    for load in (50.0, 40.0, 0.1, 0.1, 50.0):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, load, load))
        before = len(told)
        kernel_times.kernel_times([spec], 1, 0.0, told.append)
        told.append(f"{load}: {len(told) - before} measured")

    assert [line for line in told if "measured" in line] == [
        "50.0: 1 measured",
        "40.0: 0 measured",
        "0.1: 1 measured",
        "0.1: 0 measured",
        "50.0: 0 measured",
    ]


def test_a_limit_ends_the_measurement_and_the_next_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with the longest bound come first, and equal operators are one."""
    now = [0.0]
    monkeypatch.setattr("profkit.measurement.kernel_times.time.monotonic", lambda: now[0])
    asked: list[dict[str, Any]] = []

    class Worker:
        def kill(self) -> None:
            pass

    def answer(_worker: Any, limit_s: float, request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request["spec"])
        assert limit_s <= 10 - now[0]
        now[0] += 4
        entry = {"samples_ns": [5.0, 6.0, 7.0], "workspace_bytes": 0, "error": 0.0}
        return {"kernels": {"a": entry}, "slower_ns": {}, "failed": {}, "one_thread_samples_ns": []}

    monkeypatch.setattr(kernel_times, "_start", lambda _: Worker())
    monkeypatch.setattr(kernel_times, "ask_one", answer)
    told: list[str] = []

    first = measure_baseline(Mlp(batch=2, hidden=4, neurons=30), 1, is_training=False, tell=told.append, limit_s=10.0)

    assert told == [f"native kernels, operator {number} of 3: matmul" for number in (1, 2, 3)]
    assert [row["native_ns"] for row in first] == [6.0] * 5
    assert (asked[0]["k"], asked[0]["n"]) == (30, 30)
    now[0] = 0.0
    again = measure_baseline(Mlp(batch=3, hidden=1, neurons=30), 1, is_training=False, tell=told.append, limit_s=4.0)
    assert [row["native_ns"] for row in again] == [6.0, None]
    assert again[1]["parts"][0]["failed"] == {"later": "the time was over"}
    now[0] = 0.0
    rest = measure_baseline(Mlp(batch=3, hidden=1, neurons=30), 1, is_training=False, tell=told.append, limit_s=4.0)
    assert [row["native_ns"] for row in rest] == [6.0, 6.0]
    assert told[-1] == "native kernels, operator 1 of 1: matmul"


def test_an_operator_that_needs_longer_than_the_limit_lets_the_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr("profkit.measurement.kernel_times.time.monotonic", lambda: now[0])
    large, middle, small = MatMul(m=90, n=90, k=90), MatMul(m=9, n=9, k=9), MatMul(m=3, n=3, k=3)

    class Worker:
        def kill(self) -> None:
            pass

    def answer(_worker: Any, limit_s: float, request: dict[str, Any]) -> dict[str, Any]:
        needs_s = {90: 99.0, 9: 8.0, 3: 4.0}[request["spec"]["m"]]
        now[0] += min(needs_s, limit_s)
        if needs_s > limit_s:
            raise WorkerFailure("timeout", "no answer")
        entry = {"samples_ns": [5.0, 6.0, 7.0], "workspace_bytes": 0, "error": 0.0}
        return {"kernels": {"a": entry}, "slower_ns": {}, "failed": {}, "one_thread_samples_ns": []}

    monkeypatch.setattr(kernel_times, "_start", lambda _: Worker())
    monkeypatch.setattr(kernel_times, "ask_one", answer)

    def found(limit_s: float) -> list[float | None]:
        times = kernel_times.kernel_times([large, middle, small], 1, 0.0, lambda _: None, limit_s=limit_s)
        return [times[spec]["native_ns"] for spec in (large, middle, small)]

    assert found(10.0) == [None, None, None]
    assert found(10.0) == [None, 6.0, None]  # the small one is cut short, too
    assert found(10.0) == [None, 6.0, 6.0]
    assert found(100.0) == [6.0, 6.0, 6.0]


def test_times_of_an_older_build_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for build in ("older", "newer"):
        monkeypatch.setattr(kernel_times, "build_id", lambda _, build=build: build)
        kernel_times.kernel_times([MatMul(m=3, n=3, k=3)], 1, 0.0, lambda _: None)

    (name,) = kernel_times._read(cache_folder() / "kernels.json")
    assert " | newer | " in name


@pytest.mark.parametrize("content", ["", "[]", "{", '{"x": 3}', '{"x": {"key": null}}'])
def test_a_damaged_cache_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "kernels.json").write_text(content)

    assert kernel_times._read(tmp_path / "kernels.json") == {}
