"""ONNX Runtime's profile: fake events become spans as they should, and so do those of a real session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from profkit.capture.event_log import EventLog
from profkit.capture.schema import NONE, Capture, Level
from profkit.errors import CaptureError
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.onnxruntime.events import FusedGraph, ProfileEvent, SessionProfile, TimedStep, layers_of
from profkit.ops.networks import Cifar10, Mlp
from tests.frameworks.events.source_checks import assert_sound, recorded, rows
from tests.frameworks.networks.graphs import Recurrent, Residual
from tests.frameworks.networks.network_checks import built_here

SMALL = Cifar10(batch=4, crop=24, filters=16)
ORIGIN_NS = 5_000_000


def event(name: str, ts: int, dur: int, category: str = "Session", **arguments: Any) -> ProfileEvent:
    """One of the profile: times in us."""
    return {"cat": category, "ph": "X", "tid": 7, "name": name, "ts": ts, "dur": dur, "args": arguments}


def node(name: str, kind: str, ts: int, dur: int, **arguments: Any) -> ProfileEvent:
    """A node of a run."""
    return event(f"{name}_kernel_time", ts, dur, "Node", op_name=kind, provider="CPU", **arguments)


def read(events: list[ProfileEvent], *runs: TimedStep, shows_memory: bool = False) -> Capture:
    """The recording of a fake profile."""
    log = EventLog("onnxruntime", "onnxruntime", "memory" if shows_memory else "time")
    SessionProfile(SMALL, events, ORIGIN_NS, shows_memory).add_to(log, runs)
    return log.finish()


def at(us: int) -> int:
    """A time of the profile on our clock."""
    return ORIGIN_NS + us * 1000


def test_the_last_runs_of_a_profile_are_the_steps_and_warm_up_is_left_out() -> None:
    warm_up = [node("conv1_nchwc", "Conv", 11, 5), event("model_run", 10, 10)]
    step = [node("conv1_nchwc", "Conv", 31, 5), event("SequentialExecutor::Execute", 30, 9), event("model_run", 30, 10)]

    capture = read([*warm_up, *step], TimedStep(at(29), at(41), 900))

    [operator] = rows(capture)
    assert (operator["start_ns"], operator["end_ns"], operator["step"]) == (at(31), at(36), 0)
    assert [row["name"] for row in rows(capture, Level.RUNTIME)] == ["model_run", "SequentialExecutor::Execute"]
    assert rows(capture, Level.RUNTIME)[0]["pool_cpu_ns"] == 900
    assert_sound(capture, steps=1)


def test_rounded_times_that_stick_out_of_their_parent_are_cut() -> None:
    events = [event("model_run", 30, 10), node("conv1_nchwc", "Conv", 30, 6), node("pool1/MaxPool", "MaxPool", 36, 5)]

    capture = read(events, TimedStep(at(30) + 400, at(40) + 300, 0))

    assert_sound(capture, steps=1)
    assert rows(capture)[0]["start_ns"] == at(30) + 400
    assert rows(capture)[1]["end_ns"] == at(40)


def test_layers_follow_from_names_and_reorders_from_their_neighbours() -> None:
    names = ["ReorderInput", "conv1_nchwc", "ReorderOutput_token_5", "pool1/MaxPool", "fused local3/Gemm", "other"]
    types = ["ReorderInput", "Conv", "ReorderOutput", "MaxPool", "FusedGemm", "Cast"]

    found = layers_of(names, types, ["conv1", "pool1", "local3", "local"])

    assert found == ["conv1", "conv1", "conv1", "pool1", "local3", None]


def test_relu_is_part_of_a_node_unless_it_has_one_of_its_own() -> None:
    events = [
        event("model_run", 0, 100),
        node("conv1_nchwc", "Conv", 1, 5),
        node("ReorderOutput", "ReorderOutput", 7, 2),
        node("conv2/Conv", "Conv", 10, 5),
        node("conv2/Relu", "Relu", 16, 2),
        node("softmax_linear/Gemm", "Gemm", 20, 2),
    ]

    capture = read(events, TimedStep(at(0), at(100), 0))

    found = {row["name"]: row for row in rows(capture)}
    assert found["conv1_nchwc"]["fused"] == "Conv+Bias+Relu"
    assert found["conv1_nchwc"]["implementation"] == "CPU NCHWc"
    assert found["conv2/Conv"]["fused"] == "Conv+Bias"
    assert found["softmax_linear/Gemm"]["fused"] == "Gemm+Bias"
    reorder = found["ReorderOutput"]
    assert (reorder["layer"], reorder["phase"], reorder["quality"]) == ("conv1", "copy", "inferred")
    assert reorder["fused"] is None


def test_layers_that_were_folded_into_a_product_are_named_at_the_last_one_that_leads_to_them() -> None:
    """As onnxruntime ran them; it calls a convolution by the last layer that it does."""
    nodes = {
        "stem_relu_nchwc": ("Conv", "stem_relu", "stem", "Conv+BatchNormalization+Relu"),
        "ReorderOutput": ("ReorderOutput", "stem_relu", "stem", None),
        "left_norm_nchwc": ("Conv", "left_norm", "left_conv", "Conv+BatchNormalization"),
        "left_last_nchwc": ("Conv", "left_last", "left_last", "Conv+Bias"),
        "right_conv_nchwc": ("Conv", "right_conv", "right_conv", "Conv+Add+Relu"),
        "average/GlobalAveragePool": ("GlobalAveragePool", "average", "average", None),
        "flat_norm/BatchNormalization": ("BatchNormalization", "flat_norm", "flat_norm", None),
        "of_average/Gemm": ("Gemm", "of_average", "of_average", "Gemm+Bias"),
        "of_pixels/MatMul/MatMulAddFusion": ("Gemm", "of_pixels", "of_pixels", "Gemm+Add"),
    }
    types, named, begun, fused = (list(column) for column in zip(*nodes.values()))
    graph = FusedGraph(Residual())

    assert layers_of(list(nodes), types, [layer.name for layer in Residual().layers]) == named
    assert graph.begun(named, types) == begun
    assert graph.fused(begun, types) == fused


def test_an_added_normalisation_has_no_name_and_is_the_next_one_that_did_not_run() -> None:
    names = ["gemm_input_reshape", "v/MatMul/MatMulAddFusion", "gemm_output_reshape_token_5", "SkipLayerNormalization"]
    types = ["Reshape", "Gemm", "Reshape", "SkipLayerNormalization"]
    graph = FusedGraph(Recurrent())

    layers = graph.begun(layers_of(names, types, [layer.name for layer in Recurrent().layers]), types)

    assert layers == ["v", "v", "v", "norm"]
    assert graph.fused(layers, types) == [None, "Gemm+Bias", None, "Add+LayerNormalization"]


def test_memory_is_said_only_where_it_was_looked_for() -> None:
    memory = {"mem_requested_in_use_delta": "640", "mem_bytes_requested_in_use": "5000", "mem_in_use_peak": "6000"}
    events = [event("model_run", 0, 100), node("conv1_nchwc", "Conv", 1, 5, output_size="512", **memory)]

    silent, loud = (read(events, TimedStep(at(0), at(100), 0), shows_memory=shows) for shows in (False, True))

    assert (rows(silent)[0]["requested_bytes"], rows(silent)[0]["output_bytes"]) == (NONE, 512)
    assert (rows(loud)[0]["requested_bytes"], rows(loud)[0]["live_bytes"]) == (640, 5000)
    assert (rows(loud)[0]["temporary_bytes"], loud.facts["peak_bytes"]) == (NONE, 640)
    assert "peak_bytes" not in silent.facts


def test_the_peak_is_the_most_of_one_run_above_what_the_session_held() -> None:
    sizes = [(4700, 9000), (1200, 10_200), (0, 5500), (300, 5800)]
    events = [event("model_run", 0, 100)] + [
        node(f"conv{place}/Conv", "Conv", place, 1, mem_requested_in_use_delta=str(delta),
             mem_bytes_requested_in_use=str(held), mem_in_use_peak="20000")
        for place, (delta, held) in enumerate(sizes)
    ]  # fmt: skip

    capture = read(events, TimedStep(at(0), at(100), 0), shows_memory=True)

    assert capture.facts["peak_bytes"] == 4700 + 1200


def test_a_profile_without_memory_has_no_peak_rather_than_none_at_all() -> None:
    events = [event("model_run", 0, 100), node("conv1_nchwc", "Conv", 1, 5)]

    capture = read(events, TimedStep(at(0), at(100), 0), shows_memory=True)

    assert "peak_bytes" not in capture.facts
    assert rows(capture)[0]["requested_bytes"] == NONE


def test_a_profile_that_has_lost_runs_is_refused_with_the_numbers() -> None:
    events = [event("model_run", 0, 100), node("conv1_nchwc", "Conv", 1, 5)]

    with pytest.raises(CaptureError, match="1 runs and 1 nodes, but 2 runs"):
        read(events, TimedStep(at(0), at(100), 0), TimedStep(at(100), at(200), 0))


@pytest.mark.parametrize("name", ["time", "memory"])
def test_every_node_of_a_real_session_has_its_layer(name: str) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    capture = recorded("onnxruntime", SMALL, name, NetworkConditions(threads=2, mode="default"), steps=3)

    assert_sound(capture, steps=3)
    steps = [[row["name"] for row in rows(capture, step=step)] for step in range(3)]
    assert steps[0] == steps[1] == steps[2]
    operators = rows(capture, step=2)
    assert {row["layer"] for row in operators} == {layer.name for layer in SMALL.layers}
    assert {"Conv", "MaxPool", "LRN"} <= {row["type"] for row in operators}
    assert {row["phase"] for row in operators} <= {"forward", "copy"}
    assert all((row["type"].startswith("Reorder")) == (row["phase"] == "copy") for row in operators)
    conv = next(row for row in operators if row["layer"] == "conv2" and row["type"] == "Conv")
    assert conv["shapes"].startswith("4x16x12x12")
    assert capture.clock_error_ns > 1000


def test_memory_of_a_real_session_is_what_its_nodes_keep() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    network = Mlp(batch=64, hidden=2, neurons=32)

    capture = recorded("onnxruntime", network, "memory", NetworkConditions(mode="default"), steps=2)

    for row in rows(capture):
        assert row["output_bytes"] in (64 * 32 * 4, 64 * 7 * 4)
        assert row["requested_bytes"] in (0, row["output_bytes"])
        assert row["temporary_bytes"] == NONE
    assert rows(capture, step=1)[0]["requested_bytes"] == 64 * 32 * 4
    # A layer's input and its result at once; the input of the first one is the batch, which is not the session's.
    assert capture.facts["peak_bytes"] == 2 * 64 * 32 * 4


def test_the_usual_session_is_back_after_a_recording_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.chdir(tmp_path)
    conditions = NetworkConditions(mode="default")
    trial = built_here(load_builder("onnxruntime"), Mlp(batch=2, hidden=1, neurons=4), conditions)
    usual = trial.built.model.session
    source = load_source("onnxruntime")

    source.record(
        SourceSubject(trial.network, trial.built, conditions, lambda: trial.built.infer(trial.batch)), "time", 1
    )
    with pytest.raises(RuntimeError, match="failed step"):
        source.record(SourceSubject(trial.network, trial.built, conditions, fail), "time", 1)

    assert trial.built.model.session is usual
    assert not list(tmp_path.iterdir())


def fail() -> None:
    raise RuntimeError("failed step")
