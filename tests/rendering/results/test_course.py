"""What a table says of its samples: rounds, floor, resolution, a busy machine, drift and modes."""

from __future__ import annotations

from typing import Any

import pytest

from profkit.measurement.result import Row
from tests.rendering.builders import baseline_row, ok_row, table_of


def head(*rows: Row, **facts: Any) -> list[str]:
    """The lines under the title, after the conditions."""
    return list(table_of(*rows, **facts).facts[1:])


def sampled(**facts: Any) -> list[str]:
    """The head of a table whose rows were sampled."""
    numpy = ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower", least_difference=0.061)
    jax = ok_row("conv2d/jax/cpu", 9.0, 1.14, "faster", least_difference=0.032)
    return head(baseline_row(), numpy, jax, **{"rounds": 34, "floor": 0.005, "floor_from": "assumed", **facts})


def test_a_quiet_table_says_rounds_floor_and_what_it_resolves() -> None:
    floor = "noise floor 0.5% (assumed; profkit doctor --noise measures it)"

    assert sampled() == [
        f"34 rounds; {floor}; resolves differences from 3.2% (narrowest row) to 6.1% (widest)",
    ]


def test_a_measured_floor_and_several_runs_are_said() -> None:
    (line,) = sampled(floor=0.0031, floor_from="measured 2026-01-02", run_starts=[0, 12, 20])

    assert line.startswith("34 rounds in 3 runs; noise floor 0.3% (measured 2026-01-02); ")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"others_share": 0.23, "load": 3.14}, "busy machine: other programs took 23% of these processors (load 3.1)"),
        ({"stolen_share": 0.04}, "busy machine: other guests took 4.0% of them"),
        ({"least_mhz": 2000.0, "most_mhz": 3000.0}, "busy machine: the clock moved between 2000 and 3000 MHz"),
        (
            {"low_round_trip_ns": 91.0, "high_round_trip_ns": 405.0},
            "busy machine: the core-to-core round trip changed between 91 and 405 ns",
        ),
    ],
)
def test_a_busy_machine_is_in_the_head_and_a_little_of_everything_is_not_busy(
    machine: dict[str, float], words: str
) -> None:
    quiet = {"others_share": 0.04, "stolen_share": 0.01, "load": 9.0, "least_mhz": 2950.0, "most_mhz": 3000.0}
    quiet |= {"low_round_trip_ns": 80.0, "high_round_trip_ns": 150.0}

    assert words in sampled(machine=machine)
    assert len(sampled(machine=quiet)) == 1
    assert head(baseline_row()) == []  # it was not sampled


def test_the_distance_of_the_processors_is_in_the_head_of_tables_with_several_threads() -> None:
    table = table_of(baseline_row(), machine={"round_trip_ns": 92.4})

    assert "core-to-core round trip 92.40 ns" in table.facts[0]


def test_drift_and_modes_are_footnotes() -> None:
    jax = ok_row("conv2d/jax/cpu", 9.0, 1.14, "faster", drift=-0.034)
    numpy = ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower", low_mode_ns=19e6, high_mode_ns=22e6, high_mode_share=0.31)
    base = baseline_row()
    base.drift = 0.02

    text = " ".join(str(table_of(base, jax, numpy)).split())

    assert "its ratio drifted by -3.4% during a run" in text
    assert "its time drifted by +2.0% during a run" in text
    assert "two modes: 19.00 ms, and 22.00 ms in 31% of rounds" in text


def test_rows_stand_in_the_order_of_their_ratios() -> None:
    rows = [
        ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower"),
        ok_row("conv2d/numba/cpu", 8.0, 0.9, "slower"),
        ok_row("conv2d/jax/cpu", 5.0, 1.0, "not resolved"),
    ]
    rows[2].ratio = None

    table = table_of(*rows, baseline_row())

    assert [line.texts[0] for line in table.lines] == ["torch", "numba", "numpy", "jax"]


@pytest.mark.parametrize(("quiet", "is_marked"), [({"quiet": 1.0}, False), ({"quiet": 0.0}, True), ({}, False)])
def test_a_peak_of_a_busy_machine_is_marked(quiet: dict[str, float], is_marked: bool) -> None:
    conditions = table_of(baseline_row(), peaks={"flops_per_s": 1e11, "bytes_per_s": 1e10, **quiet}).facts[0]

    assert ("B/s (measured while other programs ran; the next command" in conditions) == is_marked


def test_doubts_and_a_coarser_precision_are_footnotes() -> None:
    rows = [
        ok_row("conv2d/candidate/cpu/mine", 9.0, 1.14, "doubtful", doubts=["it slept", "it left"]),
        ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower", precision="tf32 or float16"),
        ok_row("conv2d/jax/cpu", 20.0, 0.4, "slower", precision="float32"),
    ]

    table = table_of(baseline_row(), *rows)

    assert table.footnotes == [
        "a: doubtful: it slept",
        "b: doubtful: it left",
        "c: its error is that of tf32 or float16",
    ]
    assert table.lines[0].tone == "doubtful"
