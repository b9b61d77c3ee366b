"""Profiles of TensorFlow and JAX, made here byte by byte: names, stats, times on our clock, and what is damaged."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from profkit.capture.schema import BACKWARD, COPY, FORWARD, HOST, OPTIMISER
from profkit.errors import CaptureError
from profkit.frameworks.events.xplane import (
    ClockReading,
    RealtimeClock,
    XplaneEvent,
    read_clocks,
    read_xspace,
    recorded_levels,
)
from profkit.frameworks.tensorflow.names import KernelType, kernel_of, placer, split_event
from profkit.frameworks.tensorflow.pool import RECORD, START, STOP, pool_regions

BEGIN = 1_700_000_000_000_000_000
AHEAD = 1_600_000_000_000_000_000
CLOCK = RealtimeClock(ClockReading(AHEAD, 40), ClockReading(AHEAD, 60))


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    data = b""
    while value > 127:
        data += bytes([value & 127 | 128])
        value >>= 7
    return data + bytes([value])


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field of a message, as protobuf writes it."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(number: int, key: int, *parts: bytes) -> bytes:
    """An entry of a map whose values repeat their key."""
    return field(number, field(1, key) + field(2, field(1, key) + b"".join(parts)))


def environment(*more: bytes) -> bytes:
    """The plane that says when the profile began."""
    names = entry(5, 1, field(2, "profile_start_time")) + entry(5, 2, field(2, "profile_options"))
    options = field(6, field(1, 2) + field(6, field(2, 2) + field(3, 1)))
    return field(
        1, field(2, "Task Environment") + names + field(6, field(1, 1) + field(3, BEGIN)) + options + b"".join(more)
    )


def host(*parts: bytes) -> bytes:
    return field(1, field(2, "/host:CPU") + b"".join(parts))


def event(key: int, offset_ps: int, duration_ps: int, *stats: bytes) -> bytes:
    return field(
        4, field(1, key) + field(2, offset_ps) + field(3, duration_ps) + b"".join(field(4, each) for each in stats)
    )


def test_events_have_names_stats_and_times_on_our_clock() -> None:
    line = field(3, field(1, -5) + field(2, "tf_Compute/7") + field(3, 1000) + event(
        9, 2_000_000, 3_500_000, field(1, 1) + field(4, -3), field(1, 2) + field(5, "text"), field(1, 3) + field(7, 4),
        field(1, 5) + field(2, 0.25), field(1, 6) + field(6, b"\xff\x00"), field(1, 7) + field(3, 1 << 63),
    ))  # fmt: skip
    names = b"".join(entry(5, key, field(2, f"s{key}")) for key in range(1, 8))
    data = host(line, entry(4, 9, field(2, "conv1/Relu:Relu")), names) + environment()

    space = read_xspace(data, CLOCK)

    [found] = space.events
    start = BEGIN - AHEAD + 1000 + 2000
    stats = {"s1": -3, "s2": "text", "s3": "s4", "s5": 0.25, "s6": b"\xff\x00", "s7": 1 << 63}
    assert found == XplaneEvent("/host:CPU", "tf_Compute/7", -5, "conv1/Relu:Relu", start, start + 3500, stats)
    assert recorded_levels(space) == {"host": 2, "device": 1, "python": 0}


def test_a_string_that_is_no_text_costs_only_itself() -> None:
    line = field(3, field(2, b"bad \xff name") + event(1, 0, 0) + event(2, 1000, 0))
    data = host(line, entry(4, 1, field(2, b"\xfe")), entry(4, 2, field(2, "good"))) + environment()

    names = [each.name for each in read_xspace(data, CLOCK).events]

    assert names == ["�", "good"]


def test_stats_of_a_name_are_those_of_its_events_and_warnings_are_kept() -> None:
    shared = entry(4, 1, field(2, "thunk"), field(5, field(1, 1) + field(5, "module")))
    line = field(3, field(2, "thread") + event(1, 0, 5000, field(1, 2) + field(4, 7)))
    names = entry(5, 1, field(2, "hlo")) + entry(5, 2, field(2, "run"))
    data = host(line, shared, names) + environment() + field(3, "events were dropped")

    space = read_xspace(data, CLOCK)

    assert space.events[0].stats == {"hlo": "module", "run": 7}
    assert space.warnings == ["events were dropped"]


def test_counts_of_occurrences_are_no_events() -> None:
    counted = field(4, field(1, 1) + field(5, 12))
    data = host(field(3, counted + event(1, 0, 1000)), entry(4, 1, field(2, "x"))) + environment()

    assert len(read_xspace(data, CLOCK).events) == 1


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_a_cut_profile_is_refused_with_its_size(cut: int) -> None:
    data = (host(field(3, event(1, 0, 1000)), entry(4, 1, field(2, "name"))) + environment())[:-cut]

    with pytest.raises(CaptureError, match=f"{len(data)} bytes.*damaged|does not say when it began"):
        read_xspace(data, CLOCK)


def test_a_profile_without_its_beginning_is_refused() -> None:
    data = host(field(3, event(1, 0, 1000)))

    with pytest.raises(CaptureError, match="no profile_start_time in /host:CPU"):
        read_xspace(data, CLOCK)


def test_a_wall_clock_that_was_set_meanwhile_is_part_of_the_error() -> None:
    moved = RealtimeClock(ClockReading(AHEAD, 50), ClockReading(AHEAD + 2_000_000, 70))

    assert CLOCK.error_ns == 60
    assert moved.error_ns == 1_000_070
    assert read_clocks().error_ns > 0


def make(name: str, start: int, end: int | None = None, line: str = "tf_Compute", **stats: Any) -> XplaneEvent:
    return XplaneEvent("/host:CPU", line, hash(line), name, start, start if end is None else end, stats)


def test_tasks_are_followed_over_other_tasks_to_the_operator() -> None:
    operator = make("conv1/Relu:_FusedConv2D", 10, 100)
    events = [
        make(START, 0, _c=1), make("ExecutorState::Process", 1, 120), operator, make(RECORD, 20, _p=2),
        make(RECORD, 110, _p=4), make(STOP, 121),
        make(START, 30, line="Eigen/1", _c=2), make(RECORD, 35, line="Eigen/1", _p=3), make(STOP, 60, line="Eigen/1"),
        make(START, 40, line="Eigen/2", _c=3), make(STOP, 90, line="Eigen/2"),
        make(START, 130, line="Eigen/2", _c=4), make(STOP, 135, line="Eigen/2"),
        make(STOP, 5, line="Eigen/3"),
    ]  # fmt: skip

    regions = pool_regions(events, [operator])

    found = sorted((region.line[0], region.start_ns, region.end_ns, region.owner) for region in regions)
    assert found == [
        ("Eigen/1", 30, 60, operator),
        ("Eigen/2", 40, 90, operator),
        ("Eigen/2", 130, 135, None),  # handed out after the operator had ended
    ]


def test_a_task_that_is_preempted_after_its_operator_has_ended_is_cut_there() -> None:
    operator = make("conv1/Relu:_FusedConv2D", 10, 100)
    events = [
        operator, make(RECORD, 20, _p=2),
        make(START, 30, line="Eigen/1", _c=2), make(STOP, 7_000, line="Eigen/1"),
    ]  # fmt: skip

    [region] = pool_regions(events, [operator])

    assert (region.start_ns, region.end_ns, region.after_ns, region.owner) == (30, 100, 6_900, operator)


@pytest.mark.parametrize(
    ("node", "layer", "phase"),
    [
        ("conv1/Relu", "conv1", FORWARD),
        ("conv1_1/Conv2D/ReadVariableOp", "conv1", FORWARD),
        ("gradient_tape/conv1/ReluGrad", "conv1", BACKWARD),
        ("gradients/conv1/Conv2D_grad/Conv2DBackpropFilter", "conv1", BACKWARD),
        ("ConstantFolding/gradient_tape/conv1/ShapeN-matshapes-1", "conv1", BACKWARD),
        ("optimiser/conv1/ResourceApplyMomentum_1", "conv1", OPTIMISER),
        ("conv1.w", "conv1", FORWARD),
        ("conv10/Relu", None, FORWARD),
        ("loss/Mean", None, FORWARD),
        ("gradient_tape/loss/Tile", None, BACKWARD),
        ("_arg_Placeholder_0_0", None, COPY),
        ("_SOURCE", None, HOST),
    ],
)
def test_paths_of_nodes_give_layer_and_phase(node: str, layer: str | None, phase: str) -> None:
    place = placer(["conv1", "pool1"])(node)

    assert (place.layer, place.phase) == (layer, phase)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("Conv2D", KernelType("Conv2D", None)),
        ("_FusedConv2D", KernelType("_FusedConv2D", None)),
        ("_MklNativeFusedConv2D", KernelType("_FusedConv2D", "_MklNativeFusedConv2D")),
        ("_MklMatMul", KernelType("MatMul", "_MklMatMul")),
        ("_MklEagerConv2D", KernelType("Conv2D", "_MklEagerConv2D")),
    ],
)
def test_kernels_have_the_type_of_the_operator_that_they_do(name: str, kernel: KernelType) -> None:
    assert kernel_of(name) == kernel


def test_only_kernels_are_split_into_node_and_kernel() -> None:
    assert split_event("a/b:MatMul") == ("a/b", "MatMul")
    for other in ("ThreadpoolListener::Record", "EagerLocalExecute: Conv2D", "SessionRun", "profkit scope: conv1"):
        assert split_event(other) is None
