"""From captures to a summary: numbers of cells, medians over repetitions, ratios within a repetition, failures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from profkit.attribution.passes import run_usage
from profkit.errors import CaptureError
from profkit.ops.networks import Cifar10
from profkit.rendering.studies.files import render_summary
from profkit.studies.folder import ResultsFolder, open_folder
from profkit.studies.numbers import cell_numbers
from profkit.studies.plan import plan_cells
from profkit.studies.results import Results, learned_of, read_results
from profkit.studies.running import CellRunners, RunNetwork, run_cells
from profkit.studies.summary import NOT_RUN, focus_flops, focus_output_bytes, spread, summarise
from tests.capture.network_captures import network_capture
from tests.studies.builders import (
    LEARNING,
    PUBLISHED,
    TEXT,
    cell_of,
    failing,
    faster_with_stride,
    small_conditions,
    small_study,
)


def results_in(path: Path, text: str = TEXT, run: RunNetwork = faster_with_stride) -> Results:
    conditions = small_conditions(small_study(text))
    cells = plan_cells(conditions.study)
    with open_folder(path, "small", conditions.identity()) as folder:
        run_cells(cells, folder, conditions, runners=CellRunners(run=run))
        return read_results(cells, folder)


def test_numbers_of_a_cell_are_those_of_its_tables(tmp_path: Path) -> None:
    conditions = small_conditions()
    cell = plan_cells(conditions.study)[0]
    capture = faster_with_stride(conditions.request(cell), lambda _: None)

    numbers = cell_numbers("base", "numpy", 1, capture)

    usage = run_usage(capture, "kind")
    assert {row.name: row.own_ns * 2 for row in numbers.kinds} == {row.name: row.exclusive_ns for row in usage.rows}
    assert sum(row.own_ns for row in numbers.kinds) + sum(numbers.remainders.values()) == numbers.wall_ns
    assert [row.name for row in numbers.types] == ["Conv", "LRN", "MaxPool"]
    assert numbers.step_ns == 1000
    conv = numbers.kind("conv2d")
    assert conv is not None and (conv.own_ns, conv.requested_bytes) == (600, 5000)


def test_a_capture_without_timed_steps_has_no_numbers() -> None:
    conditions = small_conditions()
    capture = faster_with_stride(conditions.request(plan_cells(conditions.study)[0]), lambda _: None)
    capture.step_ns = []

    with pytest.raises(CaptureError, match="no steps were timed"):
        cell_numbers("base", "numpy", 1, capture)


def test_a_summary_has_medians_shares_and_ratios_of_every_pair(tmp_path: Path) -> None:
    results = results_in(tmp_path / "results")

    summary = results.summary(small_study(), threads=1)

    row = summary.row("stride 2", "native")
    assert row is not None
    assert (row.repetitions, row.status) == (2, "ok")
    assert row.step_ns is not None and row.step_ns.median == 700
    assert row.focus_ns is not None and row.focus_ns.median == 300
    assert row.focus_percent == pytest.approx(100 * 300 / 600)
    assert row.focus_ratio is not None and row.focus_ratio.median == pytest.approx(0.5)
    assert row.step_ratio is not None and row.step_ratio.median == pytest.approx(0.7)
    assert row.focus_bytes == 2500 and row.bytes_ratio == pytest.approx(0.5)
    assert summary.frameworks() == ["numpy", "native"]


def test_ratios_are_taken_within_a_repetition() -> None:
    study = small_study()
    cells = [
        cell_of("base", 1, conv2d=100),
        cell_of("stride 2", 1, conv2d=50),
        cell_of("base", 2, conv2d=300),
        cell_of("stride 2", 2, conv2d=150),
    ]

    row = summarise(study, cells, [], {}).row("stride 2", "numpy")

    assert row is not None and row.focus_ratio is not None
    assert (row.focus_ratio.low, row.focus_ratio.high) == (0.5, 0.5)


def test_failures_and_missing_cells_keep_their_status(tmp_path: Path) -> None:
    run = failing("oom", lambda request: request.framework == "native" and request.network == Cifar10(4, 2, 8, crop=24))

    results = results_in(tmp_path / "results", run=run)
    summary = results.summary(small_study(), threads=1)

    assert {(failure.variant, failure.framework, failure.status) for failure in results.failures} == {
        ("stride 2", "native", "oom")
    }
    row = next(row for row in summary.rows if (row.variant, row.framework) == ("stride 2", "native"))
    assert (row.status, row.reason) == ("oom", "made oom")
    assert summary.row("stride 2", "native") is None
    assert {row.status for row in summarise(small_study(), [], [], {}).rows} == {NOT_RUN}


def test_a_damaged_capture_is_a_failure_of_its_cell_only(tmp_path: Path) -> None:
    results_in(tmp_path / "results")
    (tmp_path / "results" / "cells" / "base.numpy.1.profkit").write_bytes(b"PK\x03\x04 half")

    results = read_results(plan_cells(small_study()), ResultsFolder(tmp_path / "results"))

    assert [(failure.variant, failure.status) for failure in results.failures] == [("base", "failed")]
    assert len(results.numbers) == 7


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_learning_that_diverged_has_no_precision_and_costs_no_report(loss: float) -> None:
    learning = {"losses": [2.3, loss, loss], "seconds": 0.5, "test_error": 0.9, "test_count": 128}
    study = small_study(TEXT + LEARNING)

    learned = learned_of(network_capture(learning=learning, step_ns=[]), "numpy")

    assert (learned.status, learned.precision_percent) == ("diverged", None)
    assert learned.reason == f"the loss was {loss} after 2 steps: a lower learning_rate may help"
    assert "diverged" in render_summary([summarise(study, [cell_of("base", conv2d=9)], [], {"base": learned})])


def test_learning_gives_precision_and_published_figures_stand_beside(tmp_path: Path) -> None:
    text = TEXT + LEARNING + PUBLISHED

    summary = results_in(tmp_path / "results", text).summary(small_study(text), threads=1)

    facts = summary.facts("stride 2")
    assert facts.learned is not None and facts.learned.precision_percent == 75.0
    assert facts.learned.steps == 2 and facts.learned.data.startswith("synthetic")
    assert facts.published is not None and facts.published.focus_ms == 10


def test_formulas_of_the_focus_operator_are_those_of_the_layers() -> None:
    network = Cifar10(batch=2, crop=24, filters=8)

    assert focus_output_bytes(network, "conv2d") == 4 * 2 * 8 * (24 * 24 + 12 * 12)
    assert focus_output_bytes(network, "pool") == 4 * 2 * 8 * (12 * 12 + 6 * 6)
    convolutions = sum(layer.multiply_adds() for layer in network.layers if layer.kind == "conv2d")
    assert focus_flops(network, "conv2d", is_training=False) == 2 * 2 * convolutions
    assert focus_flops(network, "conv2d", is_training=True) > focus_flops(network, "conv2d", is_training=False)


def test_without_a_focus_the_kind_that_takes_most_time_is_it() -> None:
    study = small_study(TEXT.replace('focus = "conv2d"\n', ""))

    summary = summarise(study, [cell_of("base", 1, conv2d=10, lrn=30)], [], {})

    assert summary.focus == "lrn"


def test_a_spread_is_median_and_range() -> None:
    found = spread([3.0, 1.0, 2.0])

    assert found is not None and (found.low, found.median, found.high) == (1.0, 2.0, 3.0)
    assert spread([]) is None
