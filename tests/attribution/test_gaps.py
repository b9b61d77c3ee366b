"""A network against its baseline: the parts of a layer's time, what lies outside, and what to optimise first."""

from __future__ import annotations

import random
from typing import Any

import pytest

from profkit.attribution.advice import best_by_bound, best_by_native
from profkit.attribution.gaps import GapTable, LayerGap, layer_gaps
from profkit.capture.run import Run
from tests.capture.network_captures import Event, layer, network_capture, op, primitive, recording_of, runtime

FLOPS_PER_S, BYTES_PER_S = 100e9, 10e9


def base(name: str, phase: str = "forward", native_ns: float | None = 100.0, **changes: Any) -> dict[str, Any]:
    """A row of the baseline."""
    row = {
        "layer": name,
        "phase": phase,
        "native_ns": native_ns,
        "native_key": "conv2d/native/cpu/direct",
        "bound_ns": 50.0,
        "flops": 5_000,
        "bytes": 100,
        "parts": [{"key": "conv2d/native/cpu/direct"}],
        "without_kernel": [],
        "peak_flops_per_s": FLOPS_PER_S,
        "peak_bytes_per_s": BYTES_PER_S,
    }
    return {**row, **changes}


def gaps_of(*events: Event, steps: list[tuple[int, int]], baseline: Any = (), **changes: Any) -> GapTable:
    return layer_gaps(network_capture(recording_of(*events, steps=steps), baseline=list(baseline), **changes))


def row_of(table: GapTable, name: str, phase: str = "forward") -> LayerGap:
    return next(row for row in table.rows if (row.layer, row.phase) == (name, phase))


def is_whole(table: GapTable) -> bool:
    return sum(row.framework_ns for row in table.rows) + sum(each.ns for each in table.outside) == table.wall_ns


def test_a_layers_time_is_kernel_auxiliary_and_dispatch() -> None:
    table = gaps_of(
        layer("conv1", 0, 500),
        op("aten::constant_pad_nd", 10, 60, layer="conv1", phase="forward"),
        op("aten::convolution", 100, 400, layer="conv1", phase="forward"),
        primitive("reorder", 110, 150, layer="conv1", phase="forward"),
        op("aten::relu", 410, 430, layer="conv1", phase="forward"),
        steps=[(0, 600)],
        baseline=[base("conv1")],
    )

    row = row_of(table, "conv1")

    assert row.kernel_ns == (300 - 40) + 20
    assert row.auxiliary_ns == 50 + 40
    assert row.dispatch_ns == 500 - 50 - 300 - 20
    assert row.framework_ns == 500
    assert row.calls == 3
    assert [(each.name, each.ns) for each in table.outside] == [("no operator running", 100)]
    assert (row.ratio, row.native_saving_ns, row.bound_saving_ns) == (5.0, 400.0, 450.0)


def test_without_layers_code_dispatch_is_unknown_and_stays_outside() -> None:
    table = gaps_of(op("Conv2D", 100, 400, layer="conv1", phase="forward"), steps=[(0, 600)], baseline=[base("conv1")])

    row = row_of(table, "conv1")

    assert (row.dispatch_ns, row.framework_ns) == (None, 300)
    assert table.outside[-1].ns == 300
    assert is_whole(table)


def test_times_are_sums_over_steps_and_savings_of_one_step() -> None:
    table = gaps_of(
        op("Conv2D", 0, 300, layer="conv1", phase="forward"),
        op("Conv2D", 1000, 1500, layer="conv1", phase="forward"),
        steps=[(0, 400), (1000, 1600)],
        baseline=[base("conv1")],
    )

    row = row_of(table, "conv1")

    assert (row.framework_ns, row.step_ns, row.ratio, row.native_saving_ns) == (800, 400.0, 4.0, 300.0)
    assert table.wall_ns == 1000


def test_loss_optimiser_and_operators_of_no_layer_stand_outside_with_their_bounds() -> None:
    table = gaps_of(
        op("aten::convolution", 0, 100, layer="conv1", phase="forward"),
        op("aten::cross_entropy_loss", 100, 130, phase="forward"),
        op("aten::_foreach_add_", 130, 180, layer="conv1", phase="optimiser"),
        op("aten::add_", 180, 200, phase="optimiser"),
        op("aten::mul", 200, 210, phase="forward"),
        steps=[(0, 300)],
        baseline=[base("conv1"), base("", "optimiser", bound_ns=9.0), base("", "forward", bound_ns=1.0)],
        is_training=True,
    )

    assert [(each.name, each.ns, each.bound_ns) for each in table.outside] == [
        ("loss", 30, 1.0),
        ("optimiser", 70, 9.0),
        ("forward, no layer", 10, None),
        ("no operator running", 90, None),
    ]
    assert is_whole(table)


def test_a_backward_pass_is_compared_without_what_no_kernel_does() -> None:
    table = gaps_of(
        op("aten::sum", 0, 70, layer="conv1", phase="backward"),
        op("aten::convolution_backward", 70, 270, layer="conv1", phase="backward"),
        steps=[(0, 300)],
        baseline=[base("conv1", "backward", without_kernel=["bias gradient"])],
    )

    row = row_of(table, "conv1", "backward")

    assert (row.framework_ns, row.covered_ns, row.ratio) == (270, 200, 2.0)


def test_idle_threads_cost_what_busy_ones_would_have_saved() -> None:
    # 300 ns with 60 ns of help: two busy threads would have taken 180 ns.
    table = gaps_of(
        op("aten::conv2d", 0, 310, layer="conv1", phase="forward", pool_cpu_ns=60),
        op("aten::convolution", 5, 305, layer="conv1", phase="forward", pool_cpu_ns=60),
        steps=[(0, 400)],
        baseline=[base("conv1")],
        threads=2,
    )

    row = row_of(table, "conv1")

    assert row.threading_loss_ns == 310 - (310 + 60) // 2


def test_operators_side_by_side_keep_each_others_threads_busy() -> None:
    # Two threads, each in a separate operator for 300 ns: nobody waits, though nobody had a helper.
    table = gaps_of(
        op("Conv2D", 0, 300, layer="conv1", phase="forward", pool_cpu_ns=0),
        op("MaxPool", 0, 300, thread="second", layer="pool1", phase="forward", pool_cpu_ns=0),
        op("MaxPool", 300, 400, thread="second", layer="norm1", phase="forward", pool_cpu_ns=0),
        steps=[(0, 400)],
        threads=2,
    )

    assert {row.layer: row.threading_loss_ns for row in table.rows} == {"conv1": 0, "pool1": 0, "norm1": 50}


def test_a_pass_for_primitives_tells_of_threads_what_the_pass_for_time_does_not_see() -> None:
    for_time = recording_of(
        op("aten::convolution", 0, 400, layer="conv1", phase="forward"), steps=[(0, 500)], measures=["time"]
    )
    slower = op("aten::convolution", 0, 800, layer="conv1", phase="forward", pool_cpu_ns=400)
    for_primitives = recording_of(slower, steps=[(0, 900)], measures=["primitives"])

    table = layer_gaps(network_capture(for_time, for_primitives, threads=2))

    assert row_of(table, "conv1").threading_loss_ns == 400 * 0.25  # as 800 ns could have been 600


@pytest.mark.parametrize(("threads", "expected"), [(1, 0), (2, None)])
def test_threads_that_nobody_watched_cost_nothing_alone_and_the_unknown_together(
    threads: int, expected: int | None
) -> None:
    table = gaps_of(op("Conv2D", 0, 300, layer="conv1", phase="forward"), steps=[(0, 400)], threads=threads)

    assert row_of(table, "conv1").threading_loss_ns == expected


def test_without_a_baseline_the_split_stays_and_the_rest_is_unknown() -> None:
    table = gaps_of(op("Conv2D", 0, 300, layer="conv1", phase="forward"), steps=[(0, 400)])

    row = row_of(table, "conv1")

    assert (row.kernel_ns, row.native_ns, row.bound_ns, row.ratio, row.bottleneck) == (300, None, None, None, None)
    assert best_by_native(table) is None


def test_layers_that_a_compiler_joined_keep_their_time() -> None:
    table = gaps_of(op("fusion", 0, 300, layer="conv1+pool1", phase="forward"), steps=[(0, 400)], baseline=[base("x")])

    assert row_of(table, "conv1+pool1").native_ns is None
    assert is_whole(table)


@pytest.mark.parametrize("seed", range(25))
def test_every_nanosecond_of_random_steps_is_somewhere_once(seed: int) -> None:
    chance = random.Random(seed)
    events: list[Event] = []
    for _ in range(60):
        start = chance.randrange(1000)
        end, thread = start + chance.randrange(1, 120), chance.choice(("main", "second", "third"))
        name = chance.choice(("conv1", "pool1", "norm1"))
        values = {"layer": chance.choice((name, None)), "phase": chance.choice(("forward", "backward", "optimiser"))}
        kind = chance.choice(("aten::convolution", "aten::copy_", "aten::sum", "unknown"))
        made = chance.choice((op, runtime, None))
        events.append(layer(name, start, end, thread) if made is None else made(kind, start, end, thread, **values))
    table = gaps_of(*events, steps=[(0, 400), (400, 420), (500, 1100)], baseline=[base("conv1")], threads=3)

    assert table.wall_ns == 400 + 20 + 600
    assert is_whole(table)
    assert all(row.kernel_ns + row.auxiliary_ns + (row.dispatch_ns or 0) == row.framework_ns for row in table.rows)
    assert min(each.ns for each in table.outside) >= 0


# --- Advice ---


def two_layers(**of_conv2: Any) -> Run:
    """conv1 takes 300 and could take 100; conv2 takes 500, could take 450, and is bound at 20."""
    made = recording_of(
        op("aten::convolution", 0, 300, layer="conv1", phase="forward"),
        op("aten::convolution", 300, 800, layer="conv2", phase="forward"),
        steps=[(0, 1000)],
    )
    return network_capture(made, baseline=[base("conv1"), base("conv2", native_ns=450.0, bound_ns=20.0, **of_conv2)])


def test_the_layer_with_most_to_gain_comes_first() -> None:
    table = layer_gaps(two_layers())

    native, bound = best_by_native(table), best_by_bound(table)

    assert native is not None and bound is not None
    assert (native.gap.layer, native.saving_ns, native.now_ns, native.then_ns) == ("conv1", 200.0, 1000.0, 800.0)
    assert (native.cause, native.cause_ns) == ("kernel", 200.0)
    assert (bound.gap.layer, bound.saving_ns) == ("conv2", 480.0)


@pytest.mark.parametrize(("load", "expected"), [(1.5, None), (1.6, 1.6)])
def test_native_times_of_a_busy_machine_are_known_as_such(load: float, expected: float | None) -> None:
    table = gaps_of(
        op("Conv2D", 0, 105, layer="conv1", phase="forward"),
        steps=[(0, 1000)],
        baseline=[base("conv1", parts=[{"key": "conv2d/native/cpu/direct", "load": load}])],
        environment={"cpus_usable": [0, 1]},
    )

    assert table.busy_load == expected


def test_kernels_that_gain_nothing_are_not_advised() -> None:
    table = gaps_of(
        op("Conv2D", 0, 105, layer="conv1", phase="forward"),
        steps=[(0, 1000)],
        baseline=[base("conv1", bound_ns=104.0)],
    )

    assert best_by_native(table) is None
    assert best_by_bound(table) is None


@pytest.mark.parametrize(
    ("events", "threads", "cause"),
    [
        ([op("aten::copy_", 0, 400, layer="conv1", phase="forward")], 1, "auxiliary"),
        ([layer("conv1", 0, 500), op("aten::convolution", 0, 120, layer="conv1", phase="forward")], 1, "dispatch"),
        ([op("aten::convolution", 0, 500, layer="conv1", phase="forward", pool_cpu_ns=0)], 4, "threading"),
        ([op("aten::convolution", 0, 500, layer="conv1", phase="forward", pool_cpu_ns=1500)], 4, "kernel"),
    ],
)
def test_the_cause_is_the_largest_part_of_the_gap(events: list[Event], threads: int, cause: str) -> None:
    table = gaps_of(*events, steps=[(0, 600)], baseline=[base("conv1")], threads=threads)

    advice = best_by_native(table)

    assert advice is not None
    assert advice.cause == cause


def test_what_native_kernels_do_not_replace_is_no_part_of_the_difference() -> None:
    place = {"layer": "conv1", "phase": "backward"}
    table = gaps_of(
        op("aten::convolution_backward", 0, 150, **place),
        op("aten::sum", 150, 450, **place),
        op("aten::copy_", 450, 550, **place),
        steps=[(0, 600)],
        baseline=[base("conv1", "backward", without_kernel=["bias gradient"])],
    )

    advice = best_by_native(table)

    # Of 550 ns the gradient of the bias stays; 250 - 100 ns would go, most of them copies.
    assert advice is not None
    assert (advice.saving_ns, advice.cause, advice.cause_ns) == (150.0, "auxiliary", 100.0)


@pytest.mark.parametrize(("is_training", "phase"), [(False, "forward"), (True, "copy")])
def test_copies_for_a_layer_belong_to_its_only_pass_or_stand_alone(is_training: bool, phase: str) -> None:
    table = gaps_of(
        op("ReorderInput", 0, 200, layer="conv1", phase="copy"),
        op("Conv", 200, 300, layer="conv1", phase="forward"),
        steps=[(0, 400)],
        baseline=[base("conv1")],
        framework="onnxruntime",
        is_training=is_training,
    )

    row = row_of(table, "conv1", phase)

    assert row.auxiliary_ns == 200
    assert row.bottleneck is not None and row.bottleneck.kind == "transfer"
    assert is_whole(table)
