"""What a table says of its samples: rounds, floor, resolution, a busy machine, drift and modes."""

from __future__ import annotations

from typing import Any

import pytest

from profkit.measurement.result import Cell
from profkit.rendering.results.content import build_tables
from tests.rendering.builders import baseline_row, cell, ok_row, result


def head(made: Cell) -> list[str]:
    """The lines under the title, after the conditions."""
    return list(build_tables(result(made))[0].facts[1:])


def sampled(**facts: Any) -> Cell:
    rows = [
        baseline_row(),
        ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower", least_difference=0.061),
        ok_row("conv2d/jax/cpu", 9.0, 1.14, "faster", least_difference=0.032),
    ]
    return cell(*rows, **{"rounds": 34, "floor": 0.005, "floor_from": "assumed", **facts})


def test_a_quiet_table_says_rounds_floor_and_what_it_resolves() -> None:
    floor = "noise floor 0.5% (assumed; profkit doctor --noise measures it)"

    assert head(sampled()) == [
        f"34 rounds; {floor}; resolves differences from 3.2% (narrowest row) to 6.1% (widest)",
    ]


def test_a_measured_floor_and_several_runs_are_said() -> None:
    (line,) = head(sampled(floor=0.0031, floor_from="measured 2026-01-02", run_starts=[0, 12, 20]))

    assert line.startswith("34 rounds in 3 runs; noise floor 0.3% (measured 2026-01-02); ")


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ({"others_share": 0.23, "load": 3.14}, "busy machine: other programs took 23% of these processors (load 3.1)"),
        ({"stolen_share": 0.04}, "busy machine: other guests took 4.0% of them"),
        ({"least_mhz": 2000.0, "most_mhz": 3000.0}, "busy machine: the clock moved between 2000 and 3000 MHz"),
    ],
)
def test_a_busy_machine_is_in_the_head(machine: dict[str, float], words: str) -> None:
    assert words in head(sampled(machine=machine))


def test_a_little_of_everything_is_not_busy() -> None:
    quiet = {"others_share": 0.04, "stolen_share": 0.01, "load": 9.0, "least_mhz": 2950.0, "most_mhz": 3000.0}

    assert len(head(sampled(machine=quiet))) == 1


def test_a_table_that_was_not_sampled_has_no_such_line() -> None:
    assert head(cell(baseline_row())) == []


def test_drift_and_modes_are_footnotes() -> None:
    rows = [
        ok_row("conv2d/jax/cpu", 9.0, 1.14, "faster", drift=-0.034),
        ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower", low_mode_ns=19e6, high_mode_ns=22e6, high_mode_share=0.31),
    ]
    base = baseline_row()
    base.drift = 0.02

    text = str(build_tables(result(cell(base, *rows)))[0])

    flat = " ".join(text.split())
    assert "its ratio drifted by -3.4% during a run" in flat
    assert "its time drifted by +2.0% during a run" in flat
    assert "two modes: 19.00 ms, and 22.00 ms in 31% of rounds" in flat


def test_rows_stand_in_the_order_of_their_ratios() -> None:
    rows = [
        ok_row("conv2d/numpy/cpu", 20.0, 0.5, "slower"),
        ok_row("conv2d/numba/cpu", 8.0, 0.9, "slower"),
        ok_row("conv2d/jax/cpu", 5.0, 1.0, "not resolved"),
    ]
    rows[2].ratio = None

    table = build_tables(result(cell(*rows, baseline_row())))[0]

    assert [line.texts[0] for line in table.lines] == ["torch", "numba", "numpy", "jax"]
