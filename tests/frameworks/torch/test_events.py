"""What is recorded of torch: nested spans, exact bytes, layers in every phase; by Kineto too, on threads, compiled."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.archive import load
from profkit.capture.event_log import threads_of
from profkit.capture.schema import BACKWARD, FORWARD, INFERRED, NONE, OPTIMISER, Capture, Level
from profkit.errors import UsageError
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.torch.events import CHOICE, record_events
from profkit.frameworks.torch.native import SPAN, read_logs
from profkit.frameworks.torch.primitives import parse_lines
from profkit.frameworks.torch.spans import torch_capture
from profkit.ops.networks import Cifar10, Solar, Training
from tests.frameworks.events.source_checks import Row, assert_nested, recorded, rows
from tests.frameworks.networks.network_checks import built_here
from tests.frameworks.networks.network_process import outcome
from tests.support.processes import succeed

torch = pytest.importorskip("torch", reason="torch is not installed")

SMALL = Cifar10(batch=4, crop=24, filters=8)
STEPS = 2
RUNNER = "tests.frameworks.torch.compiled_runner"
LOSS = {"cross_entropy_loss", "log_softmax", "_log_softmax", "nll_loss_nd", "nll_loss", "nll_loss_forward", "to"}
LOSS_GRADIENT = {"ones_like", "empty_like", "empty_strided", "fill_", "nll_loss_backward", "zero_"}
LOSS_GRADIENT |= {"_log_softmax_backward_data"}


def conditions_of(is_training: bool, mode: str = "eager") -> NetworkConditions:
    return NetworkConditions(1, mode, is_training, Training(momentum=0.9))


@cache
def recording_in(is_training: bool) -> Capture:
    return recorded("torch", SMALL, "operators", conditions_of(is_training), STEPS)


def recorded_call(call: Callable[[], Any]) -> Capture:
    """One step that is just this call."""
    clock: list[tuple[int, int]] = [(0, 1 << 62)]
    return torch_capture(record_events(torch, {}, call, []), clock, {}, ("time", "memory"), {})


def only(capture: Capture, type_: str) -> Row:
    [found] = [row for row in rows(capture) if row["type"] == type_]
    return found


@pytest.mark.parametrize("is_training", [False, True])
def test_spans_lie_inside_their_parents_and_beside_their_siblings(is_training: bool) -> None:
    capture = recording_in(is_training)

    assert_nested(capture, STEPS)
    spans = capture.ranges
    for parent in np.unique(spans["parent"]):
        children = np.flatnonzero(spans["parent"] == parent)
        assert all(spans["end_ns"][one] <= spans["start_ns"][next_one] for one, next_one in pairwise(children))


@pytest.mark.parametrize("is_training", [False, True])
def test_every_step_is_recorded_alike(is_training: bool) -> None:
    capture = recording_in(is_training)
    names = ("type", "layer", "phase", "shapes", "requested_bytes", "temporary_bytes")

    first, second = ([[row[name] for name in names] for row in rows(capture, step=step)] for step in range(STEPS))

    assert len(first) > 50
    assert first == second
    assert capture.recorder == "record_function"
    assert capture.losses.records == 0
    assert capture.facts["notes"] == []


def test_every_operator_of_inference_belongs_to_a_layer() -> None:
    operators = rows(recording_in(False))

    assert {row["layer"] for row in operators} == {layer.name for layer in SMALL.layers}
    assert {row["phase"] for row in operators} == {FORWARD}
    assert {row["quality"] for row in operators} == {"exact"}


def test_every_operator_of_training_belongs_to_a_layer_but_those_of_the_loss() -> None:
    operators = rows(recording_in(True))

    without = {
        phase: {row["type"].removeprefix("aten::") for row in operators if row["phase"] == phase and not row["layer"]}
        for phase in (FORWARD, BACKWARD, OPTIMISER)
    }

    assert without == {FORWARD: LOSS, BACKWARD: LOSS_GRADIENT, OPTIMISER: set()}


def test_a_gradient_has_the_layer_whose_weights_it_was_given() -> None:
    capture = recording_in(True)

    gradients = [row for row in rows(capture, step=1) if row["type"] == "aten::convolution_backward"]
    products = [row for row in rows(capture, step=1) if row["type"] == "aten::mm"]

    assert [row["layer"] for row in gradients] == ["conv2", "conv1"]
    assert ["[8,8,5,5]" in row["shapes"] for row in gradients] == [True, False]
    assert ["[8,3,5,5]" in row["shapes"] for row in gradients] == [False, True]
    assert [row["layer"] for row in products] == [
        name for name in ("softmax_linear", "local4", "local3") for _ in range(2)
    ]


def test_gradients_are_kept_by_the_layer_before_which_is_said_to_be_inferred() -> None:
    kept = [row for row in rows(recording_in(True), Level.RUNTIME, 0) if row["name"].endswith("::AccumulateGrad")]

    layers = [row["layer"] for row in kept if row["name"].startswith("torch::")]

    assert layers == [name for name in ("softmax_linear", "local4", "local3", "conv2", "conv1") for _ in range(2)]
    assert {row["quality"] for row in kept} == {INFERRED}


def test_the_optimiser_works_for_the_layer_of_the_parameter() -> None:
    operators = [row for row in rows(recording_in(True), step=1) if row["phase"] == OPTIMISER]

    updates = {(row["layer"], row["shapes"].split()[0]) for row in operators if row["type"] == "aten::add_"}

    expected = {("conv1", "[8,3,5,5]"), ("conv2", "[8,8,5,5]"), ("local3", "[384,288]"), ("local4", "[192,384]")}
    assert expected <= updates
    assert ("softmax_linear", "[10]") in updates


def test_engine_nodes_and_the_optimiser_are_the_frameworks_own_code_and_layers_are_python() -> None:
    capture = recording_in(True)

    runtime = {row["name"] for row in rows(capture, Level.RUNTIME)}
    layers = [row["name"] for row in rows(capture, Level.LAYER, 0)]

    assert {"torch.autograd.backward", "Optimizer.step#SGD.step", "ConvolutionBackward0"} <= runtime
    assert "autograd::engine::evaluate_function: ConvolutionBackward0" in runtime
    assert layers == [layer.name for layer in SMALL.layers]
    assert not any("::" not in row["type"] and row["type"] != "detach" for row in rows(capture))


def test_what_a_convolution_keeps_is_its_output_and_relu_works_in_place() -> None:
    operators = rows(recording_in(False), step=0)

    convolutions = [row for row in operators if row["type"] == "aten::mkldnn_convolution"]
    activations = [row for row in operators if row["type"] == "aten::relu_"]

    kept = [row["requested_bytes"] - row["temporary_bytes"] for row in convolutions]
    assert kept == [4 * 8 * 24 * 24 * 4, 4 * 8 * 12 * 12 * 4]
    assert len(activations) == 4
    assert {(row["requested_bytes"], row["peak_bytes"]) for row in activations} == {(0, 0)}


def test_known_allocations_are_exact() -> None:
    a = torch.ones(1000)

    def call() -> None:
        b = a + a
        c = torch.empty(7, dtype=torch.float64)
        b.mul_(2)
        del b
        torch.cat([a, a])
        c.relu_()

    capture = recorded_call(call)

    assert only(capture, "aten::add")["requested_bytes"] == 4000
    assert only(capture, "aten::add")["temporary_bytes"] == 0
    assert only(capture, "aten::add")["shapes"] == "[1000] [1000]"
    assert only(capture, "aten::empty")["requested_bytes"] == 56
    assert only(capture, "aten::empty")["live_bytes"] == 4056
    assert only(capture, "aten::mul_")["requested_bytes"] <= 8  # the factor as a tensor, not the thousand numbers
    assert only(capture, "aten::cat")["requested_bytes"] == 8000
    assert only(capture, "aten::cat")["shapes"] == "[1000] [1000]"
    assert only(capture, "aten::cat")["live_bytes"] == 8056
    assert only(capture, "aten::relu_")["requested_bytes"] == 0
    assert only(capture, "aten::relu_")["live_bytes"] == 56
    assert capture.facts["peak_bytes"] == 8056
    taken = capture.memory_events.bytes
    assert sorted(taken[taken > 100]) == [4000, 8000]
    assert taken.sum() == 0


def test_what_an_operator_allocates_for_itself_is_its_own_workspace() -> None:
    # oneDNN has no float64: torch's own convolution runs, whose workspace are the images as columns, on any machine.
    images, filters = (torch.ones(shape, dtype=torch.float64) for shape in ((4, 3, 24, 24), (8, 3, 5, 5)))
    a, b, bias = torch.ones(50, 60), torch.ones(60, 40), torch.ones(40)

    capture = recorded_call(lambda: torch.nn.functional.conv2d(images, filters))
    product = recorded_call(lambda: torch.addmm(bias, a, b))

    output, columns = 4 * 8 * 20 * 20 * 8, 4 * (3 * 5 * 5) * (20 * 20) * 8
    convolution = only(capture, "aten::_slow_conv2d_forward")
    assert convolution["requested_bytes"] == output + columns
    assert convolution["temporary_bytes"] == columns
    assert convolution["peak_bytes"] == output + columns
    assert only(product, "aten::addmm")["requested_bytes"] == 50 * 40 * 4
    # Torch's allocating functions are the operator's own code, not operators that need memory.
    calls = [row for row in rows(capture) if row["type"] == "aten::empty" and row["parent"] != NONE]
    assert calls
    assert {row["requested_bytes"] for row in calls} == {0}


def test_blocks_from_before_do_not_count_when_they_are_given_back() -> None:
    kept = [torch.ones(1000)]
    first = recorded_call(lambda: kept.append(kept[0] + 1))

    second = recorded_call(kept.clear)

    assert first.facts["peak_bytes"] >= 4000
    assert second.facts["peak_bytes"] == 0
    assert len(second.memory_events.bytes) == 0


@pytest.mark.parametrize("is_training", [False, True])
def test_the_peak_of_a_step_is_that_of_torchs_own_profiler(is_training: bool) -> None:
    trial = built_here(load_builder("torch"), SMALL, conditions_of(is_training))
    built: Any = trial.built
    run = built.train if is_training else built.infer

    def clean() -> None:
        """Gradients of the step before would be given back in this one."""
        built.optimizer.zero_grad()
        gc.collect()

    run(trial.batch)
    clean()
    watched = SourceSubject(SMALL, built, conditions_of(is_training), lambda: run(trial.batch))
    ours = load_source("torch").record(watched, "operators", 1)
    clean()
    profiler = torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run(trial.batch)

    waiting = list(profile.profiler.kineto_results.experimental_event_tree())
    totals = []
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.tag.name == "Allocation":
            fields = event.extra_fields
            totals.append((event.start_time_ns, fields.total_allocated, fields.total_allocated - fields.alloc_size))
    before = min(totals)[2]
    assert ours.facts["peak_bytes"] == max(total for _, total, _ in totals) - before
    assert ours.facts["peak_bytes"] > 4 * 8 * 24 * 24 * 4


@pytest.mark.parametrize("is_training", [False, True])
def test_kineto_in_our_place_sees_the_same(is_training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kineto")
    names = ("type", "layer", "phase", "shapes", "requested_bytes", "temporary_bytes", "peak_bytes", "quality")

    theirs = recorded("torch", SMALL, "operators", conditions_of(is_training), STEPS)

    ours = recording_in(is_training)
    assert theirs.recorder == "kineto"
    assert "as PROFKIT_TORCH_SOURCE requests" in theirs.facts["notes"][0]
    assert theirs.clock_error_ns > 0
    for level in (Level.RUNTIME, Level.LAYER, Level.OPERATOR):
        found, expected = ([[row[name] for name in names] for row in rows(one, level, 1)] for one in (theirs, ours))
        assert found == expected
    assert theirs.facts["peak_bytes"] == ours.facts["peak_bytes"]


def test_an_unknown_choice_of_source_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "nvprof")

    with pytest.raises(UsageError, match="can be native or kineto"):
        record_events(torch, {}, lambda: None, [])


def test_recording_leaves_the_model_and_torch_as_they_were() -> None:
    trial = built_here(load_builder("torch"), SMALL, conditions_of(True))
    backward = torch.autograd.backward

    def fail() -> None:
        assert "forward" in vars(trial.built.model.conv1)
        raise ZeroDivisionError

    watched = SourceSubject(SMALL, trial.built, conditions_of(True), fail)
    with pytest.raises(ZeroDivisionError):
        load_source("torch").record(watched, "operators", 1)

    assert torch.autograd.backward is backward
    assert all("forward" not in vars(module) for module in trial.built.model.children())
    assert only(recorded_call(lambda: torch.ones(3) * 2), "aten::mul")["requested_bytes"] == 12


def test_threads_do_not_get_mixed() -> None:
    count = 200
    started = threading.Barrier(2)

    def other() -> None:
        started.wait()
        for _ in range(count):
            torch.sub(torch.ones(10), 1)

    def call() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        started.wait()
        for _ in range(count):
            torch.mul(torch.ones(10), 2)
        thread.join()

    capture = recorded_call(call)

    operators = rows(capture)
    by_thread = [[row for row in operators if row["thread"] == number] for number in range(len(capture.threads))]
    types = [{row["type"] for row in found} for found in by_thread]
    assert [thread.role for thread in threads_of(capture)] == ["main", "other"]
    assert len({thread.os_id for thread in threads_of(capture)}) == 2
    assert "aten::mul" in types[0] and "aten::sub" not in types[0]
    assert "aten::sub" in types[1] and "aten::mul" not in types[1]
    assert sum(row["type"] == "aten::sub" for row in by_thread[1]) == count
    spans = capture.ranges
    inside = spans["parent"] != NONE
    assert (spans["thread"][inside] == spans["thread"][spans["parent"][inside]]).all()
    assert {row["requested_bytes"] for row in by_thread[1]} == {NONE}
    assert sum(row["requested_bytes"] for row in by_thread[0]) >= count * 80
    assert any("recording thread only" in note for note in capture.facts["notes"])


def test_what_another_thread_has_not_ended_or_only_begun_ends_with_the_recording() -> None:
    spans = np.zeros(3, SPAN)
    spans["start_ns"], spans["end_ns"], spans["parent"] = (10, 20, 0), (15, 0, 0), (NONE, NONE, 1)
    log = {"spans": spans.tobytes(), "allocations": b"", "words": b"", "os_id": 7, "torch_id": 2, "lost": 3}

    events = read_logs([log], ["aten::add"], recorder_id=6, now_ns=50)

    assert list(zip(events.spans["start_ns"], events.spans["end_ns"])) == [(10, 15), (20, 50), (50, 50)]
    assert events.lost == 3


def test_primitives_lie_in_the_operators_that_call_them_with_what_onednn_chose() -> None:
    capture = outcome("torch", "eager").capture("primitives", is_training=True)

    primitives = rows(capture, Level.PRIMITIVE, 1)
    if not primitives:
        pytest.skip(f"this torch says nothing through ITT: {capture.facts['notes']}")
    executed = [row for row in primitives if "execute" in row["name"]]
    names = capture.texts(capture.ranges.type)
    assert {names[row["parent"]] for row in executed} == {"aten::mkldnn_convolution", "aten::convolution_backward"}
    assert {row["type"] for row in executed} == {"dnnl::convolution", "dnnl::reorder"}
    assert all(row["implementation"] and row["shapes"] for row in executed)
    assert {row["layer"] for row in executed} == {"conv1", "conv2"}
    assert {row["phase"] for row in executed} == {FORWARD, BACKWARD}
    spans = capture.ranges
    inside = np.flatnonzero(spans["level"] == Level.PRIMITIVE)
    parents = spans["parent"][inside]
    assert (spans["start_ns"][inside] >= spans["start_ns"][parents]).all()
    assert (spans["end_ns"][inside] <= spans["end_ns"][parents]).all()
    assert capture.measures == ("primitives",)
    assert (spans["requested_bytes"] == NONE).all()


def test_work_of_helper_threads_belongs_to_operators_of_the_main_one() -> None:
    capture = outcome("torch", "eager").capture("primitives", is_training=True)

    pool = rows(capture, Level.POOL)
    if not rows(capture, Level.PRIMITIVE):
        pytest.skip(f"this torch says nothing through ITT: {capture.facts['notes']}")
    names = capture.texts(capture.ranges.type)
    assert {names[row["owner"]] for row in pool} <= {"aten::mkldnn_convolution", "aten::convolution_backward"}
    assert {threads_of(capture)[row["thread"]].role for row in pool} <= {"pool"}
    assert {row["layer"] for row in pool} <= {"conv1", "conv2"}
    assert all(row["pool_cpu_ns"] >= 0 for row in rows(capture))


LINES = """\
onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa)
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:Acdb16a::f0,\
attr-scratchpad:user,,64x3x5x5,0.008
what the program itself prints
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,backward_data,src:f32:a:blocked:aBcd8b::f0 \
bia:undef::undef:::,attr-scratchpad:user,alg:convolution_direct,mb4_ic64oc64_ih16oh16,1.5
onednn_verbose,v1,primitive,exec,cpu,torn
"""


def test_lines_of_onednn_give_implementation_layouts_and_size() -> None:
    found = parse_lines(LINES.splitlines(keepends=True))

    assert [tuple(each) for each in found] == [
        ("reorder", "jit:uni", "src:abcd dst:Acdb16a 64x3x5x5"),
        ("convolution", "jit:avx2", "src:aBcd8b mb4_ic64oc64_ih16oh16"),
    ]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of compiled networks in inference and in training; their results were right."""
    folder = tmp_path_factory.mktemp("compiled")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", RUNNER, str(folder)]
    output = succeed(command, environment)
    errors = json.loads(output.strip().splitlines()[-1])
    assert all(error <= 1 for error in errors.values()), errors
    return folder


@pytest.mark.full
def test_kernels_of_a_compiled_model_have_layers_and_say_what_is_fused(compiled: Path) -> None:
    capture = load(compiled / "inference.recording")

    operators = [row for row in rows(capture, step=1) if row["layer"]]
    kernels = [row for row in operators if row["type"] == "inductor::cpp_fused"]
    products = [row["layer"] for row in operators if row["type"] == "aten::addmm"]

    [pool] = [row for row in kernels if "max_pool" in row["fused"]]
    assert (pool["layer"], pool["quality"]) == ("pool1", INFERRED)
    assert pool["fused"].endswith("+aten::relu")
    assert capture.facts["fused_across"] == {pool["name"]: ["pool1 forward", "conv1 forward"]}
    assert [row["layer"] for row in kernels if row["fused"] == "aten::relu"] == ["dense1", "dense2"]
    assert all("aten::convolution" not in row["fused"] for row in kernels)
    assert products == ["dense1", "dense2", "output"]
    assert not [row for row in rows(capture) if row["layer"] is None]


@pytest.mark.full
def test_recording_a_compiled_model_runs_the_compiled_program(compiled: Path) -> None:
    capture = load(compiled / "inference.recording")

    types = {row["type"] for row in rows(capture)}

    assert not types & {"aten::max_pool2d", "aten::relu_", "aten::relu", "aten::linear"}
    assert not rows(capture, Level.LAYER)
    assert any(row["name"].startswith("Torch-Compiled Region") for row in rows(capture, Level.RUNTIME))


@pytest.mark.full
def test_gradients_of_a_compiled_model_have_layers(compiled: Path) -> None:
    operators = rows(load(compiled / "training.recording"), step=1)

    products = [row["layer"] for row in operators if row["type"] == "aten::mm"]
    kernels = [row for row in operators if row["type"] == "inductor::cpp_fused" and row["phase"] == BACKWARD]
    updates = {row["layer"] for row in operators if row["phase"] == OPTIMISER}

    assert products == ["output", "output", "hidden1"]
    assert {row["layer"] for row in kernels} == {"hidden1"}
    assert updates == {"hidden1", "output"}


def test_dropout_is_a_layer_like_others() -> None:
    capture = recorded("torch", Solar(batch=1), "operators", NetworkConditions(1, "eager", True, Training()), 1)

    layers = {row["layer"] for row in rows(capture) if row["phase"] == BACKWARD}

    assert {"dropout1", "dropout2"} <= layers
