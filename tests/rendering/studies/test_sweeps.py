"""Reports and plots of sweeps over axes: their tables hold the cells' numbers, a panel stands for each network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.dom import minidom

import pytest

from profkit.capture.run import Run
from profkit.measurement.network_run import MessageCallback, NetworkRequest
from profkit.ops.networks import Mlp
from profkit.rendering.quantities import ABSENT
from profkit.rendering.studies.axis_chart import axis_chart
from profkit.rendering.studies.chart import COLOURS, PUBLISHED_COLOUR
from profkit.rendering.studies.files import write_study
from profkit.rendering.studies.progress import axis_lines
from profkit.studies.conditions import StudyConditions
from profkit.studies.folder import open_folder
from profkit.studies.plan import plan_cells
from profkit.studies.reading import read_study
from profkit.studies.results import read_results
from profkit.studies.running import CellRunners, run_cells
from profkit.studies.summary import Summary
from tests.studies.builders import finished

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no charts")
TEXT = """
title = "Two networks"
frameworks = ["torch", "native"]
repetitions = 2
steps = 3
baseline = false
[sweeps.mlp]
network = "mlp"
parameters = { batch = 16 }
axes = { neurons = [25, 50, 100], threads = [1, 2] }
skip = [{ neurons = 100, threads = 2, reason = "no 100 neurons on two threads" }]
epoch = { images = 160 }
[sweeps.lenet]
network = "lenet"
axes = { batch = [8, 16] }
[published]
source = "somebody, 2017"
[published.tables."Table 1"]
sweep = "mlp"
quantity = "epoch_s"
fixed = { threads = 1 }
columns = { neurons = [25, 50] }
rows = [{ framework = "torch", values = [2, 4] }, { framework = "theano", values = [1, 2] }, \
{ framework = "native", values = [1, 2] }]
"""


def faster_with_threads(request: NetworkRequest, _tell: MessageCallback) -> Run:
    """A step of 400 ns and 6 per neuron, half on two threads; torch takes twice as long."""
    size = request.network.neurons if isinstance(request.network, Mlp) else 10 * request.network.input_shape()[0]
    run = finished(request)
    step = (400 + 6 * size) * (2 if request.framework == "torch" else 1) // request.threads
    run.step_ns = [step] * 3
    return run


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Summary]]:
    """The folder of a finished study; nobody changes it."""
    path = tmp_path_factory.mktemp("study") / "results"
    study = read_study(TEXT, "small", "small.toml")
    conditions = StudyConditions(study, threads=1)
    cells = plan_cells(study)
    with open_folder(path, "small", conditions.identity()) as folder:
        run_cells(cells, folder, conditions, runners=CellRunners(run=faster_with_threads))
        results = read_results(cells, folder)
        summaries = results.summaries(study, threads=1)
        assert write_study(folder, cells, results, summaries) == []
    return path, summaries


def rows_of(text: str, heading: str) -> list[list[str]]:
    """Of the table below a heading of the first network that has it."""
    parts = text[text.index(f"## {heading}") :].split("\n\n")
    block = next(part for part in parts if part.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]


def test_times_are_the_cells_times_and_epochs_are_steps_times_step(written: tuple[Path, list[Summary]]) -> None:
    text = (written[0] / "report.md").read_text()

    head, _, first, *rest = rows_of(text, "Times")

    assert head == ["neurons", "threads", "framework", "step", "epoch", "images/s", "peak"]
    assert first[:6] == ["25", "1", "torch", "1.100 µs", "11.00 µs", "14,545,455"]
    assert len(rest) == 9
    assert "epoch: not run, but steps x step, with 160 images (full batches only)" in text


def test_speed_ups_pairs_and_recommendations_are_in_the_report(written: tuple[Path, list[Summary]]) -> None:
    text = (written[0] / "report.md").read_text()

    assert rows_of(text, "Speed-up against one thread")[2] == ["neurons 25", "torch", "2.00", "100%"]
    assert rows_of(text, "Each framework against each: how many times faster")[2:] == [
        ["torch", ABSENT, "0.50"],
        ["native", "2.00", ABSENT],
    ]
    assert rows_of(text, "What to take")[2][:2] == ["neurons 25, threads 1", "native"]
    assert "no 100 neurons on two threads" in text
    law = rows_of(text, "How time grows")[2]
    assert law[:4] == ["neurons", "threads 1", "torch", "not resolved"]  # three points leave a wide interval
    assert "- Fastest of 5 points: native at 5; at 0 another one is within 10 %." in text
    assert "- torch, 2 threads against one: faster at 2 of 2 points, slower at 0, not resolved at 0" in text


def test_published_ratios_stand_beside_ours(written: tuple[Path, list[Summary]]) -> None:
    text = (written[0] / "report.md").read_text()

    rows = rows_of(text, "Beside the published ratios")

    assert rows[2][0] == "Table 1" and rows[2][4:7] == ["2.00", "2.00", "agrees"]
    assert "- Table 1: 4 ratios of points that were not measured here" in text


def test_the_summary_has_every_network_with_all_analyses(written: tuple[Path, list[Summary]]) -> None:
    content = json.loads((written[0] / "summary.json").read_text())

    mlp, lenet = content["sweeps"]
    assert (mlp["name"], mlp["network"], lenet["axes"]) == ("mlp", "mlp", {"batch": [8, 16]})
    assert len(mlp["findings"]["speed_ups"]) == 4
    speed_up = mlp["findings"]["speed_ups"][0]
    assert (speed_up["threads"], speed_up["efficiency"], speed_up["verdict"]) == (2, 1.0, "faster")
    assert {each["verdict"] for each in mlp["findings"]["agreements"]} == {"agrees", "not measured here"}
    assert len(lenet["findings"]["saturations"]) == 2
    skipped = [each for each in mlp["failures"] if each["status"] == "skipped"]
    assert len(skipped) == 4


def test_a_plot_has_a_panel_per_network_and_a_mark_per_point(written: tuple[Path, list[Summary]]) -> None:
    path, summaries = written

    chart = axis_chart(summaries)

    assert chart is not None
    assert [panel.title for panel in chart.panels] == ["mlp", "lenet"]
    ours = [line for line in chart.panels[0].lines if not line.is_published]
    assert [(line.name, list(line.x)) for line in ours] == [
        ("torch, threads 1", [25, 50, 100]),
        ("torch, threads 2", [25, 50]),
        ("native, threads 1", [25, 50, 100]),
        ("native, threads 2", [25, 50]),
    ]
    assert ours[0].y[0] == pytest.approx(11e-6)
    assert [line.colour for line in ours] == [COLOURS[0]] * 2 + [COLOURS[1]] * 2
    assert [line.style for line in ours] == ["-", "--", "-", "--"]
    names = [line.name for line in chart.panels[0].lines if line.is_published]
    assert names == [f"published: threads 1, {name}" for name in ("torch", "theano", "native")]
    drawing = minidom.parse(str(path / "plot.svg")).toxml()
    points = sum(len(line.x) for panel in chart.panels for line in panel.lines)
    assert [key.name for key in chart.panels[0].keys] == ["torch", "native", "threads 1", "threads 2", *names]
    assert [key.name for key in chart.panels[1].keys] == ["torch", "native"]
    marks = re.findall(f'<use [^>]*stroke: ({"|".join((*COLOURS[:2], PUBLISHED_COLOUR))})"', drawing)
    assert len(marks) == points + len(names)
    assert (path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (path / "report.html").read_text()


def test_axes_and_rules_are_told_before_anything_runs() -> None:
    study = read_study(TEXT, "small", "small.toml")

    assert axis_lines(study.sweeps[0], study) == [
        "mlp: 6 points",
        "  neurons    25, 50, 100",
        "  threads    1, 2",
        "  framework  torch, native",
        "  skipped  no 100 neurons on two threads: 4 cells",
    ]
