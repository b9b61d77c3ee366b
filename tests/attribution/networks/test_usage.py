"""Tables of networks: rows by whatever is asked, bytes of another pass, pool time, and the work of the formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit.attribution.account import STEPS
from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.grouping import groupings_on
from profkit.attribution.metrics import find_metric
from profkit.attribution.networks.operators import OBSERVES_DISPATCH, OBSERVES_IDLE
from profkit.attribution.passes import run_usage
from profkit.attribution.usage import Usage, UsageRow
from profkit.capture.run import Run
from profkit.capture.schema import Losses
from profkit.errors import UsageError
from profkit.ops.networks import Cifar10, Mlp, Network, Training
from profkit.ops.networks.work import network_work
from tests.capture.network_captures import Event, layer, network_capture, op, pool, primitive, recording_of, runtime

SMALL = Cifar10(batch=4, crop=24, filters=8)


def torch_step(at: int = 0) -> list[Event]:
    """A convolution of torch as it nests, ReLU in place, and a dense layer, 100 ns in all."""
    conv, dense = ({"layer": name, "phase": "forward"} for name in ("conv1", "local3"))
    return [
        layer("conv1", at, at + 62),
        op("aten::conv2d", at + 2, at + 50, **conv, requested_bytes=0, peak_bytes=900),
        op("aten::convolution", at + 4, at + 48, **conv, requested_bytes=0, peak_bytes=900),
        op("aten::mkldnn_convolution", at + 8, at + 44, **conv, requested_bytes=800, temporary_bytes=300,
           peak_bytes=900),
        op("aten::empty", at + 10, at + 14, **conv, requested_bytes=100),
        op("aten::relu_", at + 52, at + 60, **conv, requested_bytes=0, temporary_bytes=0, peak_bytes=0),
        op("aten::addmm", at + 70, at + 90, **dense),
    ]  # fmt: skip


def torch_capture(steps: int = 2, **changes: Any) -> Run:
    events = [event for number in range(steps) for event in torch_step(100 * number)]
    capture = recording_of(*events, steps=[(100 * number, 100 * number + 100) for number in range(steps)])
    return network_capture(capture, network=SMALL, **changes)


def derived(usage: Usage, metric: str) -> dict[str, Any]:
    return dict(zip(usage.rows.column("name"), find_metric(metric).values(usage)))


def rows_of(usage: Usage) -> dict[str, UsageRow]:
    return {row.name: row for row in usage.rows}


def test_a_kind_counts_nested_operators_once_and_their_own_time_all() -> None:
    usage = run_usage(torch_capture())

    conv = rows_of(usage)["conv2d"]
    assert (conv.calls, conv.inclusive_ns, conv.exclusive_ns) == (2, 2 * 48, 2 * (48 - 4))
    assert rows_of(usage)["allocate"].exclusive_ns == 2 * 4
    assert (conv.kind, conv.layer, conv.phase, conv.type) == ("conv2d", "conv1", "forward", None)


def test_bytes_are_those_of_the_operators_themselves_and_in_place_is_zero() -> None:
    rows = rows_of(run_usage(torch_capture()))

    assert (rows["conv2d"].requested_bytes, rows["conv2d"].temporary_bytes) == (1600, 600)
    assert rows["conv2d"].peak_bytes == 900
    assert (rows["relu"].requested_bytes, rows["relu"].temporary_bytes) == (0, 0)
    assert (rows["matmul"].requested_bytes, rows["matmul"].peak_bytes) == (None, None)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("kind", ["conv2d", "matmul", "relu", "allocate"]),
        ("type", ["aten::mkldnn_convolution", "aten::addmm", "aten::convolution", "aten::relu_", "aten::conv2d",
                  "aten::empty"]),
        ("layer", ["conv1", "local3"]),
        ("phase", ["forward"]),
        ("thread", ["main"]),
        ("operator", ["conv1/forward/aten::mkldnn_convolution", "local3/forward/aten::addmm",
                      "conv1/forward/aten::convolution", "conv1/forward/aten::relu_", "conv1/forward/aten::conv2d",
                      "conv1/forward/aten::empty"]),
    ],
)  # fmt: skip
def test_rows_come_by_whatever_is_asked_the_largest_own_time_first(by: str, names: list[str]) -> None:
    usage = run_usage(torch_capture(), by)

    assert set(usage.rows.column("name")) == set(names)
    assert sorted(usage.rows.column("exclusive_ns"), reverse=True) == usage.rows.column("exclusive_ns")
    assert (usage.wall_ns, usage.remainder_ns, usage.steps) == (200, 2 * (100 - 76), 2)


def test_an_unknown_grouping_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        UsageError, match=r"no grouping 'colour'; .*groupings: kind, name, thread, type, operator, layer, phase"
    ):
        run_usage(torch_capture(), "colour")


def test_parts_of_the_remainder_that_a_source_cannot_tell_are_none_and_not_zero() -> None:
    seen = recording_of(
        runtime("engine", 0, 40), op("aten::relu", 10, 20), steps=[(0, 100)], facts={OBSERVES_IDLE: True}
    )
    blind = recording_of(op("aten::relu", 10, 20), steps=[(0, 100)])
    mixed = recording_of(
        runtime("session", 5, 95), op("aten::relu", 10, 20), steps=[(0, 100)], facts={OBSERVES_DISPATCH: False}
    )

    parts = [
        {part.name: part.time_ns for part in run_usage(network_capture(capture)).remainders}
        for capture in (seen, blind, mixed)
    ]

    assert parts == [
        {"dispatch": 0, "framework": 30, "idle": 60},
        {"dispatch": 90, "framework": None, "idle": None},
        {"dispatch": None, "framework": 90, "idle": None},
    ]


def two_passes(memory_steps: int = 1) -> Run:
    """Time with a fused operator, bytes of the same step unfused and with one operator more."""
    time = recording_of(
        op("_FusedConv2D", 0, 60, layer="conv1", phase="forward", fused="Conv2D+BiasAdd+Relu"),
        framework="tensorflow",
        source="xplane",
        measures=["time"],
        steps=[(0, 100)],
    )
    events = []
    for number in range(memory_steps):
        at = 1000 * number
        events += [
            op("Conv2D", at, at + 500, layer="conv1", phase="forward", requested_bytes=4096, peak_bytes=4096),
            op("BiasAdd", at + 500, at + 600, layer="conv1", phase="forward", requested_bytes=0, peak_bytes=0),
        ]
    memory = recording_of(
        *events,
        framework="tensorflow",
        source="stepstats",
        measures=["memory"],
        steps=[(1000 * number, 1000 * number + 900) for number in range(memory_steps)],
        facts={"peak_bytes": 5000},
    )
    return network_capture(time, memory, network=SMALL)


def test_bytes_of_another_pass_are_joined_by_row_and_it_is_said() -> None:
    usage = run_usage(two_passes())

    rows = rows_of(usage)
    assert (rows["conv2d"].exclusive_ns, rows["conv2d"].requested_bytes) == (60, 4096)
    assert (rows["bias"].calls, rows["bias"].exclusive_ns, rows["bias"].requested_bytes) == (0, 0, 0)
    assert "two passes over the steps: time by xplane, bytes by stepstats, joined by row" in usage.notes
    assert "only in the pass for bytes, without time: bias" in usage.notes
    assert (usage.total_alloc_bytes, usage.unattributed_alloc_bytes, usage.total_peak_bytes) == (4096, 0, 5000)
    assert usage.wall_ns == 100


def test_bytes_are_sums_over_as_many_steps_as_the_times() -> None:
    row = rows_of(run_usage(two_passes(memory_steps=3)))["conv2d"]

    assert (row.requested_bytes, row.peak_bytes) == (4096, 4096)


def test_threads_of_another_process_have_no_bytes_of_this_one() -> None:
    (row,) = run_usage(two_passes(), "thread").rows

    assert (row.requested_bytes, row.exclusive_ns) == (None, 60)


def test_bytes_that_no_operator_allocated_are_in_the_total_but_in_no_row() -> None:
    capture = recording_of(
        layer("conv1", 0, 90, requested_bytes=50),
        op("aten::relu", 10, 20, requested_bytes=7),
        steps=[(0, 100)],
    )

    usage = run_usage(network_capture(capture))

    assert (usage.total_alloc_bytes, usage.unattributed_alloc_bytes) == (57, 50)


def test_pool_time_given_with_insides_counts_once() -> None:
    capture = recording_of(
        op("aten::conv2d", 0, 50, pool_cpu_ns=40),
        op("aten::mkldnn_convolution", 10, 40, pool_cpu_ns=30),
        op("aten::relu", 60, 70, pool_cpu_ns=0),
        op("aten::addmm", 80, 90),
        steps=[(0, 100)],
    )

    rows = rows_of(run_usage(network_capture(capture), "type"))

    assert [rows[f"aten::{name}"].pool_cpu_ns for name in ("conv2d", "mkldnn_convolution", "relu", "addmm")] == [
        10,
        30,
        0,
        None,
    ]


def test_pool_time_of_helper_threads_belongs_to_its_owner() -> None:
    capture = recording_of(
        op("Conv2D", 0, 50, type="Conv2D"),
        op("Relu", 60, 70),
        pool(5, 45, "worker 1", owner=0),
        pool(10, 30, "worker 1", owner=0),
        pool(5, 25, "worker 2", owner=0),
        pool(80, 90, "worker 2"),
        framework="tensorflow",
        steps=[(0, 100)],
    )

    rows = rows_of(run_usage(network_capture(capture)))

    assert (rows["conv2d"].pool_cpu_ns, rows["relu"].pool_cpu_ns) == (40 + 20, 0)


def test_what_another_thread_does_for_an_operator_after_it_returned_is_its_time_but_no_call() -> None:
    capture = recording_of(
        op("convolution", 0, 50, layer="conv1"),
        op("maximum", 50, 90, layer="conv1"),
        primitive("convolution", 50, 70, "worker", layer="conv1", owner=0),
        framework="jax",
        steps=[(0, 100)],
    )

    rows = rows_of(run_usage(network_capture(capture), by="type"))

    assert (rows["convolution"].calls, rows["maximum"].calls) == (1, 1)
    # Both threads work from 50 to 70.
    assert (rows["convolution"].exclusive_ns, rows["maximum"].exclusive_ns) == (50 + 10, 10 + 20)


def test_pool_time_comes_from_the_pass_for_primitives_when_only_that_saw_it() -> None:
    time = recording_of(op("aten::addmm", 0, 50), measures=["time"], steps=[(0, 100)])
    primitives = recording_of(
        op("aten::addmm", 0, 60, pool_cpu_ns=44), measures=["primitives"], steps=[(0, 400_000)]
    )  # fmt: skip

    usage = run_usage(network_capture(time, primitives))

    (row,) = usage.rows
    assert (row.exclusive_ns, row.pool_cpu_ns) == (50, 44)
    assert (
        usage.notes[0]
        == "pool CPU is from another pass, whose steps took 0.4 ms (median); those of the pass for time took 0.0001 ms"
    )


def summed(usage: Usage, name: str) -> int:
    return sum(value or 0 for value in usage.rows.column(name))


def every_operator(network: Network, phases: dict[str, str]) -> list[Event]:
    """An operator per layer and phase, and one for the loss and the optimiser each."""
    names = [each.name for each in network.layers]
    in_layers = [phase for phase in phases if phase != "optimiser"]
    places = [(name, phase) for phase in in_layers for name in names]
    places += [("", phase) for phase in phases]
    return [
        op(phases[phase], 10 * number, 10 * number + 9, layer=name or None, phase=phase)
        for number, (name, phase) in enumerate(places)
    ]


@pytest.mark.parametrize("training", [None, Training(momentum=0.9)])
@pytest.mark.parametrize("by", list(groupings_on(STEPS)))
def test_the_work_of_all_rows_is_that_of_the_network_times_the_steps(by: str, training: Training | None) -> None:
    phases = {"forward": "mystery"} | ({"backward": "mystery", "optimiser": "sgd"} if training else {})
    capture = recording_of(*every_operator(SMALL, phases), steps=[(0, 400), (400, 800)], framework="numpy")
    about = {"is_training": training is not None, "training": training.field_values() if training else {}}

    usage = run_usage(network_capture(capture, network=SMALL, **about), by)

    expected = 2 * sum(part.flops for part in network_work(SMALL, training).values())
    assert summed(usage, "flops") == expected
    assert summed(usage, "moved_bytes") > 0


def test_wrappers_do_no_work_the_operator_inside_does_all_of_it() -> None:
    rows = rows_of(run_usage(torch_capture(), "type"))

    work = network_work(SMALL)
    assert rows["aten::conv2d"].flops is None
    # Bias has no operator of its own in conv1, so the convolution, the largest one, has it.
    parts = work["conv1", "forward", "conv2d"].flops + work["conv1", "forward", "bias"].flops
    assert rows["aten::mkldnn_convolution"].flops == 2 * parts
    assert rows["aten::relu_"].flops == 2 * work["conv1", "forward", "relu"].flops
    assert rows["aten::empty"].flops is None


def test_a_fused_operator_has_all_work_but_moves_its_result_only_once() -> None:
    usage = run_usage(two_passes())

    row = rows_of(usage)["conv2d"]
    parts = [network_work(SMALL)["conv1", "forward", kind] for kind in ("conv2d", "bias", "relu")]
    assert row.flops == sum(part.flops for part in parts)
    assert row.moved_bytes == parts[0].bytes + (parts[1].bytes - 2 * parts[1].carried_bytes)
    assert derived(usage, "gflops")["conv2d"] == pytest.approx(row.flops / 60)
    assert derived(usage, "intensity")["conv2d"] == pytest.approx(row.flops / row.moved_bytes)


def test_several_operators_of_a_kind_share_the_work_by_their_time() -> None:
    capture = recording_of(
        op("Gemm", 0, 30, layer="output", phase="forward"),
        op("Gemm", 30, 40, layer="output", phase="forward"),
        op("Gemm", 50, 60, layer="hidden1", phase="forward"),
        framework="onnxruntime",
        steps=[(0, 100)],
    )
    network = Mlp(batch=4, hidden=1, neurons=16)

    usage = run_usage(network_capture(capture, network=network), "layer")

    work = network_work(network)
    assert rows_of(usage)["output"].flops == sum(
        work["output", "forward", kind].flops for kind in ("matmul", "bias")
    )  # fmt: skip


def test_work_without_an_operator_is_named() -> None:
    usage = run_usage(torch_capture(), "layer")

    (note,) = [note for note in usage.notes if note.startswith("flops of these are in no row")]
    assert "pool1 forward, norm1 forward" in note and "and 2 more" in note


def test_an_optimiser_without_layers_has_the_work_of_all() -> None:
    training = Training()
    events = [op("aten::_foreach_add_", 900, 950, phase="optimiser")]
    events += every_operator(SMALL, {"forward": "mystery", "backward": "mystery"})
    run = network_capture(
        recording_of(*events), network=SMALL, is_training=True, training=training.field_values()
    )  # fmt: skip

    row = rows_of(run_usage(run, "phase"))["optimiser"]

    work = network_work(SMALL, training)
    assert row.flops == sum(part.flops for (_, phase, _), part in work.items() if phase == "optimiser")


def test_what_a_reader_must_know_is_noted() -> None:
    capture = recording_of(
        op("mystery", -5, 20),
        op("mystery", 200, 210),
        steps=[(0, 100)],
        measures=["time"],
        facts={"notes": ["from the source"]},
    )

    usage = run_usage(network_capture(replace(capture, losses=Losses(3)), network=Mlp()))

    assert usage.dropped == 3
    assert usage.notes[0] == "bytes were not recorded"
    assert "kind other, types not in any table: mystery 1" in usage.notes
    assert "1 operator extended beyond its step by 5 ns in total: cut" in usage.notes
    assert "1 operator ran outside the steps: in no row" in usage.notes
    assert usage.notes[-1] == "from the source"


def test_the_mean_of_the_steps_divides_sums_and_keeps_peaks() -> None:
    sums = run_usage(torch_capture(steps=4))
    mean = mean_of_steps(sums)

    conv = rows_of(mean)["conv2d"]
    assert (conv.calls, conv.exclusive_ns, conv.requested_bytes, conv.peak_bytes) == (1, 44, 800, 900)
    assert (mean.wall_ns, mean.steps) == (100, 4)
    assert sum(row.exclusive_ns for row in mean.rows) + mean.remainder_ns == mean.wall_ns
    assert derived(mean, "gflops") == derived(sums, "gflops")


@st.composite
def captures(draw: st.DrawFn) -> list[Event]:
    """Operators of some types, layers and threads, with bytes and pool time or without."""
    types = ["aten::conv2d", "aten::relu", "mystery", "aten::addmm"]
    spans = st.tuples(
        st.sampled_from([op, primitive]),
        st.sampled_from(types),
        st.integers(0, 250),
        st.integers(0, 90),
        st.sampled_from(["main", "second"]),
        st.sampled_from([None, "conv1", "norm1", "local3"]),
        st.sampled_from([None, "forward"]),
        st.sampled_from([None, 0, 64]),
    )
    return [
        make(name, at, at + length, thread, layer=place, phase=phase, requested_bytes=size, pool_cpu_ns=size)
        for make, name, at, length, thread, place, phase, size in draw(st.lists(spans, max_size=20))
    ]


@settings(max_examples=80, deadline=None)
@given(events=captures(), by=st.sampled_from(list(groupings_on(STEPS))))
def test_rows_and_remainder_add_up_to_the_wall_clock_and_bytes_to_their_total(events: list[Event], by: str) -> None:
    steps = [(0, 100), (100, 150), (180, 300)]

    usage = run_usage(network_capture(recording_of(*events, steps=steps), network=SMALL), by)

    assert summed(usage, "exclusive_ns") + usage.remainder_ns == usage.wall_ns == 270
    assert sum(part.time_ns or 0 for part in usage.remainders) == usage.remainder_ns
    assert all(row.calls >= 1 and row.inclusive_ns >= 0 for row in usage.rows)
    if usage.total_alloc_bytes is not None:
        assert summed(usage, "requested_bytes") + (usage.unattributed_alloc_bytes or 0) == usage.total_alloc_bytes
