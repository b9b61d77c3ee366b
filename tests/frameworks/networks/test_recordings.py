"""What every recording of XLA's and of Keras' programs must say: steps, layers, phases, and what has no layer."""

from __future__ import annotations

import pytest

from profkit.capture.schema import NONE, Capture, Level
from tests.frameworks.events.source_checks import rows
from tests.frameworks.networks.network_process import outcome
from tests.frameworks.networks.network_process_runner import CIFAR10, STEPS

WEIGHTED = [layer.name for layer in CIFAR10.layers if layer.parameter_shapes()]
TIME_PASS = {"torch": "operators"}
XLA = ({"convolution"}, {"convolution"})
CONVOLUTIONS = {
    "tensorflow": ({"_FusedConv2D"}, {"Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv2DBackpropFilterWithBias"}),
    "torch": ({"aten::conv2d"}, {"aten::convolution_backward"}),
    "jax": XLA,
    "jit": XLA,
    "tensorflow_xla": XLA,
}
by_mode = pytest.mark.parametrize(
    ("framework", "mode"),
    [
        *(("jax", "jit"), ("keras", "tensorflow"), ("keras", "torch"), ("keras", "jax")),
        pytest.param("keras", "tensorflow_xla", marks=pytest.mark.full),
    ],
)


def recording_of(framework: str, mode: str, is_training: bool) -> Capture:
    return outcome(framework, mode).capture(TIME_PASS.get(mode, "time"), is_training)


@by_mode
@pytest.mark.parametrize("is_training", [True, False])
def test_spans_lie_in_their_steps(framework: str, mode: str, is_training: bool) -> None:
    capture = recording_of(framework, mode, is_training)

    spans, begin, end = capture.ranges, capture.steps["start_ns"], capture.steps["end_ns"]

    assert capture.framework == framework
    assert len(begin) == STEPS
    assert (spans["step"] != NONE).all()
    assert (spans["start_ns"] >= begin[spans["step"]]).all()
    is_operator = spans["level"] == Level.OPERATOR
    assert (spans["end_ns"][is_operator] <= end[spans["step"][is_operator]]).all()
    assert set(spans["step"][is_operator].tolist()) == set(range(STEPS))


@by_mode
def test_every_layer_with_weights_has_time_forward_and_backward_and_there_are_updates(
    framework: str, mode: str
) -> None:
    operators = rows(recording_of(framework, mode, True))

    found = {(row["layer"], row["phase"]) for row in operators if row["end_ns"] > row["start_ns"]}

    assert {(name, phase) for name in WEIGHTED for phase in ("forward", "backward")} <= found
    assert any(phase == "optimiser" for _, phase in found)


@by_mode
def test_convolutions_are_those_of_their_layers_in_every_step(framework: str, mode: str) -> None:
    forward, backward = CONVOLUTIONS[mode]
    capture = recording_of(framework, mode, True)

    for step in range(STEPS):
        found = rows(capture, step=step)
        ahead = [row["layer"] for row in found if row["type"] in forward and row["phase"] == "forward"]
        back = {row["layer"] for row in found if row["type"] in backward and row["phase"] == "backward"}
        assert ahead == ["conv1", "conv2"]
        assert back == {"conv1", "conv2"}


@by_mode
def test_inference_is_all_forward(framework: str, mode: str) -> None:
    found = rows(recording_of(framework, mode, False))

    assert {row["phase"] for row in found} <= {"forward", "copy", "host"}
    assert {row["layer"] for row in found} >= set(WEIGHTED) | {"pool1", "norm1", "norm2", "pool2"}


@by_mode
def test_what_has_no_layer_is_as_small_as_the_loss_and_is_listed(framework: str, mode: str) -> None:
    capture = recording_of(framework, mode, True)

    nowhere = [row for row in rows(capture) if row["layer"] is None]

    # Of the loss: a number per image and class, and as much for its parts; everything else here is larger.
    batch, classes = CIFAR10.output_shape()
    made = "requested_bytes" if mode == "torch" else "output_bytes"
    assert max(row[made] for row in nowhere) <= 2 * 4 * batch * classes
    listed = {(row["name"], row["phase"]) for row in capture.facts["without_layer"]}
    assert listed == {(row["name"], row["phase"]) for row in nowhere}
    assert {"forward", "backward"} <= set(capture.facts["mapped"])


@by_mode
def test_no_python_frames_are_recorded(framework: str, mode: str) -> None:
    capture = recording_of(framework, mode, True)

    assert not any((name or "").startswith("$") for name in capture.texts(capture.ranges.name))
    assert capture.facts.get("profiler_levels", {}).get("python", 0) == 0
