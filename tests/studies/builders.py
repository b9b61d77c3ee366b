"""Studies and runs for tests: a few words in, a small Study, its conditions, or a finished cell's run out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.capture.run import Run
from profkit.measurement.network_run import MessageCallback, NetworkRequest
from profkit.ops.networks import Cifar10
from profkit.studies.conditions import StudyConditions
from profkit.studies.declaration import Study
from profkit.studies.numbers import CellNumbers, Gap, OperatorRow
from profkit.studies.reading import read_study
from tests.capture.network_captures import layer, network_capture, op, recording_of

TEXT = """
title = "Small"
network = "cifar10"
focus = "conv2d"
frameworks = ["numpy", "native"]
repetitions = 2
steps = 3
baseline = false
[parameters]
batch = 4
crop = 24
filters = 8
[variants]
"base" = {}
"stride 2" = { stride = 2 }
"""
LEARNING = '[learning]\nframework = "numpy"\nsteps = 5\nlimit_s = 1\n'
PUBLISHED = """
[published]
source = "somebody, 2018"
[published.figures]
"base" = { focus_ms = 40, focus_percent = 80, focus_bytes = 100, total_ms = 50, precision_percent = 86 }
"stride 2" = { focus_ms = 10, focus_percent = 60, focus_bytes = 20, total_ms = 20, precision_percent = 80 }
[published.shares_percent]
conv2d = 80
lrn = 10
"""


def small_study(text: str = TEXT, name: str = "small") -> Study:
    """Two variants of a small network in two frameworks."""
    return read_study(text, name, f"{name}.toml")


def small_conditions(study: Study | None = None, **changes: Any) -> StudyConditions:
    """The conditions of a run of it."""
    return StudyConditions(study or small_study(), threads=1, **changes)


def finished(request: NetworkRequest, scale: float = 1.0) -> Run:
    """What a run leaves: two steps of 1000 ns with a convolution of 600 (times `scale`), LRN 200 and pooling 100."""
    if not request.steps:
        learning = {"losses": [2.3, 1.1], "seconds": 0.5, "test_error": 0.25, "test_count": 128}
        return network_capture(network=request.network, framework=request.framework, learning=learning, step_ns=[])
    conv = int(600 * scale)
    events = []
    for start in (0, 2000):
        events += [
            layer("conv1", start, start + conv + 20),
            op(
                "Conv", start + 10, start + 10 + conv, layer="conv1", phase="forward", requested_bytes=int(5000 * scale)
            ),
            op("LRN", start + 10 + conv, start + 210 + conv, layer="norm1", phase="forward", requested_bytes=800),
            op("MaxPool", start + 210 + conv, start + 310 + conv, layer="pool1", phase="forward", requested_bytes=400),
        ]
    length = 400 + conv
    recording = recording_of(*events, steps=[(0, length), (2000, 2000 + length)], framework=request.framework)
    return network_capture(
        recording,
        network=request.network,
        framework=request.framework,
        step_ns=[length - 10, length, length + 10],
        recorded_step_ns={"time": [length + 5, length + 5]},
    )


def faster_with_stride(request: NetworkRequest, _tell: MessageCallback) -> Run:
    """A machine on which the convolution's time and bytes go with one over the stride."""
    assert isinstance(request.network, Cifar10)
    return finished(request, 1.0 / request.network.stride)


def failing(status: str, when: Callable[[NetworkRequest], bool]) -> Callable[[NetworkRequest, MessageCallback], Run]:
    """The same, but what `when` names ends with a status."""

    def run(request: NetworkRequest, tell: MessageCallback) -> Run:
        run = faster_with_stride(request, tell)
        if when(request):
            run = network_capture(
                network=request.network, framework=request.framework, status=status, reason=f"made {status}"
            )
        return run

    return run


def cell_of(variant: str, repetition: int = 1, framework: str = "numpy", **kinds_ns: float) -> CellNumbers:
    """A cell with so many nanoseconds per kind, a byte per nanosecond, and 10 ns in which no operator ran."""
    kinds = sorted((OperatorRow(name, 1, ns, ns) for name, ns in kinds_ns.items()), key=lambda row: -row.own_ns)
    whole = sum(kinds_ns.values()) + 10
    return CellNumbers(
        variant=variant,
        framework=framework,
        repetition=repetition,
        step_ns=whole,
        wall_ns=whole,
        kinds=kinds,
        types=kinds,
        remainders={"dispatch": 10},
        data="synthetic data (patterns under noise, seed 0)",
    )


def gap_of(layer: str, kind: str, time_ns: float, native_ns: float, bound_ns: float, key: str = "fast") -> Gap:
    """A layer beside its baseline."""
    return Gap(
        layer=layer,
        kind=kind,
        phase="forward",
        time_ns=time_ns,
        kernel_ns=time_ns,
        auxiliary_ns=0,
        dispatch_ns=None,
        threading_loss_ns=None,
        native_ns=native_ns,
        native_key=f"{kind}/native/cpu/{key}",
        bound_ns=bound_ns,
        native_saving_ns=time_ns - native_ns,
        bottleneck="compute",
        why="because",
    )
