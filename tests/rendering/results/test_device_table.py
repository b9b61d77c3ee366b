"""Tables with rows on a GPU: what is said of their timing, shares, kernels, and of a lost device."""

from __future__ import annotations

from typing import Any

from profkit.measurement.device.timing import HELD, WAITS
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.result import Row
from tests.rendering.builders import baseline_row, ok_row, table_of

GPU = "conv2d/cupy/cuda"


def gpu_row(**changes: Any) -> Row:
    """A row that was timed as GPU rows usually are."""
    return ok_row(GPU, 1.0, 10.0, "faster", **{"timing": HELD, "page_faults": None, **changes})


def test_another_way_of_timing_and_rounding_are_footnotes_and_events_behind_a_hold_need_no_word() -> None:
    assert table_of(baseline_row(), gpu_row()).footnotes == []
    assert f"a: timed by {WAITS}" in table_of(baseline_row(), gpu_row(timing=WAITS)).footnotes
    assert "a: its products round to tf32" in table_of(baseline_row(), gpu_row(rounding="tf32")).footnotes


def test_a_share_of_a_gpu_is_said_to_be_theoretical() -> None:
    words = "shares on a GPU are of its peak by clock and units, which was not measured"

    assert words in table_of(baseline_row(), gpu_row()).facts[0]
    assert words not in table_of(baseline_row()).facts[0]


def test_a_table_of_gpu_rows_alone_has_no_peak_of_this_machine() -> None:
    (fact,) = table_of(gpu_row(), peaks={}, bound="").facts

    assert "FLOP/s" not in fact
    assert "limited by" not in fact


def test_kernel_time_is_a_column_when_there_is_one() -> None:
    with_it, without = table_of(baseline_row(), gpu_row(kernel_ns=900_000.0)), table_of(baseline_row(), gpu_row())

    assert [each.name for each in with_it.columns][1:3] == ["time", "kernel"]
    assert with_it.lines[0].texts[2] == "900.0 µs"
    assert "kernel" not in [each.name for each in without.columns]


def test_the_wall_clock_is_a_column_where_only_some_rows_have_events() -> None:
    waiting = ok_row(
        "conv2d/jax/cuda", 2.0, 5.0, "faster", timing=f"{WALL_CLOCK}: no stream", page_faults=None, wall_ns=2e6
    )
    mixed = table_of(baseline_row(), gpu_row(wall_ns=1.5e6), waiting)

    assert [each.name for each in mixed.columns][2:4] == ["time", "wall"]
    assert [line.texts[3] for line in mixed.lines][:2] == ["1.500 ms", "2.000 ms"]
    for alike in (table_of(baseline_row(), gpu_row(wall_ns=1.5e6)), table_of(baseline_row(), waiting)):
        assert "wall" not in [each.name for each in alike.columns]


def test_a_row_whose_device_waits_for_the_host_has_a_footnote() -> None:
    words = "a: bound by the host: launching a call takes longer than the device works on it; --columns +dispatch"

    assert words in table_of(baseline_row(), gpu_row(dispatch_ns=2e6)).footnotes
    assert not any("bound by the host" in line for line in table_of(baseline_row(), gpu_row(dispatch_ns=5e5)).footnotes)


def test_a_lost_device_stands_among_what_needs_a_look() -> None:
    rows = [Row("conv2d/jax/cuda", "unavailable", "no driver"), Row(GPU, "lost", "the CUDA device was lost while ...")]

    table = table_of(baseline_row(), *rows)

    assert [item.status for item in table.items] == ["lost", "unavailable"]
