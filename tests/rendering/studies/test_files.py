"""A study's report: its numbers are the cells' numbers, its files can be read, and what is missing is said."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.dom import minidom

import pytest

from profkit.rendering.quantities import percent_text, ratio_text, time_text
from profkit.rendering.studies.answers import optimise_sentence, short_answers
from profkit.rendering.studies.chart import COLOURS, Chart, Panel, Series, render_chart, study_chart
from profkit.rendering.studies.files import write_study
from profkit.rendering.studies.grids import megabytes, missing_grid
from profkit.rendering.studies.report import build_report
from profkit.rendering.studies.sentences import comparison_sentences
from profkit.rendering.tables.document import Bullets, Code, Document, Heading, Paragraph
from profkit.rendering.tables.html import render_file
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.studies.findings import PrecisionCost, PublishedComparison
from profkit.studies.folder import open_folder
from profkit.studies.opportunities import opportunities
from profkit.studies.plan import plan_cells
from profkit.studies.results import read_results
from profkit.studies.running import CellRunners, run_cells
from profkit.studies.summary import Failure, Summary, summarise
from tests.studies.builders import (
    LEARNING,
    PUBLISHED,
    TEXT,
    cell_of,
    faster_with_stride,
    gap_of,
    small_conditions,
    small_study,
)

pytest.importorskip("matplotlib", reason="matplotlib is not installed: no charts")
WHOLE = TEXT + '"half" = { filters = 4 }\n"both" = { stride = 2, filters = 4 }\n' + LEARNING + PUBLISHED


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Summary]:
    """The folder of a finished study, and its summary; nobody changes it."""
    tmp_path = tmp_path_factory.mktemp("study")
    conditions = small_conditions(small_study(WHOLE))
    cells = plan_cells(conditions.study)
    with open_folder(tmp_path / "results", "small", conditions.identity()) as folder:
        folder.add_environment({"cpu": "a machine", "profkit": "0", "packages": {"numpy": "2"}})
        run_cells(cells, folder, conditions, runners=CellRunners(run=faster_with_stride))
        results = read_results(cells, folder)
        summary = results.summary(conditions.study, threads=1)
        write_study(folder, cells, results, [summary])
    return tmp_path / "results", summary


def table_under(markdown: str, heading: str) -> list[dict[str, str]]:
    """The rows of the first table after a heading."""
    lines = markdown[markdown.index(f"## {heading}") :].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    head, _, *rows = [line for line in lines[start:] if line.startswith("|")][: _length(lines[start:])]
    names = [text.strip() for text in head.strip("|").split("|")]
    return [dict(zip(names, (text.strip() for text in row.strip("|").split("|")))) for row in rows]


def _length(lines: list[str]) -> int:
    return next((number for number, line in enumerate(lines) if not line.startswith("|")), len(lines))


def test_every_number_of_the_reports_table_is_the_cells_number(written: tuple[Path, Summary]) -> None:
    folder, summary = written

    rows = table_under((folder / "report.md").read_text(), "Time, memory and precision")

    assert len(rows) == len(summary.variants) * 2
    for line in rows:
        row = summary.row(line["variant"], line["framework"])
        assert row is not None and row.step_ns is not None and row.focus_ns is not None
        assert line["step"] == time_text(row.step_ns.median)
        assert line["conv2d time"] == time_text(row.focus_ns.median)
        assert line["share"] == percent_text(row.focus_percent)
        assert line["conv2d bytes"] == megabytes(row.focus_bytes)
        assert line["precision@1"] == "75.0 %"
    assert {line["conv2d time"] for line in rows} == {"600.0 ns", "300.0 ns"}


def test_published_ratios_stand_beside_ours(written: tuple[Path, Summary]) -> None:
    folder, summary = written

    rows = {line["variant"]: line for line in table_under((folder / "report.md").read_text(), "Beside the published")}

    assert rows["stride 2"]["conv2d: published"] == "0.25"
    assert rows["half"]["conv2d: published"] == "–"  # noqa: RUF001 - the dash of the report
    assert rows["stride 2"]["flops"] == ratio_text(summary.facts("stride 2").focus_flops / summary.base.focus_flops)


def test_the_report_says_that_data_is_synthetic_and_where_figures_come_from(written: tuple[Path, Summary]) -> None:
    folder, _ = written

    report = (folder / "report.md").read_text()

    assert "Images: synthetic data (patterns under noise, seed 0)" in report
    assert "Source: somebody, 2018" in report
    assert "precision@1: after 2 training steps in numpy, on 128 test images: synthetic data" in report


def test_the_page_is_well_formed_and_loads_nothing(written: tuple[Path, Summary]) -> None:
    folder, _ = written
    page = (folder / "report.html").read_text()

    document = minidom.parseString(page.removeprefix("<!DOCTYPE html>\n"))

    assert len(document.getElementsByTagName("svg")) == 1
    assert len(document.getElementsByTagName("table")) >= 5
    assert not document.getElementsByTagName("script")
    assert not [node for tag in ("img", "link", "iframe") for node in document.getElementsByTagName(tag)]
    assert page.count("http") == len(re.findall(r'xmlns(:xlink)?="http', page))


def test_the_drawing_has_a_mark_for_every_number(written: tuple[Path, Summary]) -> None:
    folder, summary = written

    drawing = minidom.parse(str(folder / "plot.svg"))

    chart = study_chart(summary)
    every = [series for panel in chart.panels for series in panel.series]
    ours = sum(value is not None for series in every if not series.is_reference for value in series.values)
    legend = len({series.name for series in every if not series.is_reference})
    marks = [node.getAttribute("style") for node in drawing.getElementsByTagName("use")]
    assert sum(style.startswith(tuple(f"fill: {colour}" for colour in COLOURS)) for style in marks) == ours + legend
    texts = " ".join(node.toxml() for node in drawing.getElementsByTagName("text"))
    assert all(panel.title in texts for panel in chart.panels)
    assert [panel.title for panel in chart.panels] == [
        "time of a step, ms",
        "conv2d time against the base",
        "bytes requested by conv2d in a step, MB",
        "precision@1, % (here on synthetic data)",
    ]


def test_the_picture_is_a_png(written: tuple[Path, Summary]) -> None:
    folder, _ = written

    picture = (folder / "plot.png").read_bytes()

    assert picture.startswith(b"\x89PNG\r\n") and len(picture) > 10_000


def test_files_hold_the_same_numbers(written: tuple[Path, Summary]) -> None:
    duckdb = pytest.importorskip("duckdb")
    folder, summary = written

    content = json.loads((folder / "summary.json").read_text())
    with (folder / "operators.csv").open() as stream:
        operators = list(csv.DictReader(stream))
    with duckdb.connect(str(folder / "results.duckdb"), read_only=True) as database:
        stored = database.execute(
            "select own_ns from operators where variant = 'stride 2' and framework = 'native' and repetition = 2 "
            "and \"by\" = 'kind' and name = 'conv2d'"
        ).fetchall()
        cells = database.execute("select count(*) from cells where status = 'ok'").fetchone()

    assert content["schema"] == "profkit.study-summary/1"
    row = next(
        row for row in content["sweeps"][0]["rows"] if (row["variant"], row["framework"]) == ("stride 2", "native")
    )
    assert row["focus_ns"]["median"] == 300
    assert stored == [(300.0,)]
    assert cells == (len(summary.variants) * 2 * 2,)
    assert any(
        line["by"] == "type" and line["name"] == "MaxPool" and float(line["own_ns"]) == 100 for line in operators
    )


def test_every_cell_has_its_tables_by_kind_by_type_and_in_tfprofs_layout(written: tuple[Path, Summary]) -> None:
    folder, _ = written

    text = (folder / "tables" / "base.native.1.txt").read_text()

    assert "conv2d" in text and "MaxPool" in text
    assert "node name | requested bytes | total execution time" in text
    assert len(list((folder / "tables").iterdir())) == 16


def test_without_matplotlib_and_duckdb_it_says_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profkit.rendering.studies.files.can_draw", lambda: False)
    monkeypatch.setattr("profkit.rendering.studies.database.can_write_database", lambda: False)
    conditions = small_conditions()
    cells = plan_cells(conditions.study)

    with open_folder(tmp_path / "results", "small", conditions.identity()) as folder:
        run_cells(cells, folder, conditions, runners=CellRunners(run=faster_with_stride))
        results = read_results(cells, folder)
        missing = write_study(folder, cells, results, results.summaries(conditions.study, threads=1))

    assert any('pip install "profkit[plots]"' in sentence for sentence in missing)
    assert any('pip install "profkit[query]"' in sentence for sentence in missing)
    assert not list((tmp_path / "results").glob("plot.*"))
    for name in ("report.md", "report.html"):
        assert "charts need matplotlib" in (tmp_path / "results" / name).read_text()


def test_the_short_answer_names_the_operator_what_it_would_save_and_the_bound() -> None:
    gaps = (gap_of("conv1", "conv2d", 40, 36, 10), gap_of("norm1", "lrn", 50, 20, 1))
    base = replace(cell_of("base", conv2d=40, lrn=50), gaps=gaps)

    summary = summarise(small_study(), [base], [], {})
    answers = short_answers(summary)

    assert answers[0] == "Most operator time of 'base' goes to lrn (numpy 56%)."
    assert answers[1] == (
        "Optimise first in numpy: lrn, 50.00 ns, 50% of the step; with profkit's kernels (20.00 ns) the step would be "
        "30 % shorter; the machine's bound is 1.000 ns."
    )
    (conv,) = (each for each in opportunities(summary) if each.kind == "conv2d")
    assert "the machine's bound (direct) is 10.00 ns" in optimise_sentence(conv)


def test_where_native_kernels_gain_nothing_the_distance_to_the_bound_is_told() -> None:
    gaps = (gap_of("conv1", "conv2d", 40, 60, 10), gap_of("norm1", "lrn", 50, 90, 45))
    base = replace(cell_of("base", conv2d=40, lrn=50), gaps=gaps)

    answers = short_answers(summarise(small_study(), [base], [], {}))

    assert answers[1].startswith(
        "Farthest from the bound in numpy: conv2d, 40.00 ns, 40% of the step; profkit's kernels"
    )


def test_time_without_operators_is_named_when_it_outweighs_what_kernels_save() -> None:
    gaps = (gap_of("conv1", "conv2d", 40, 36, 10),)
    base = replace(cell_of("base", conv2d=40), gaps=gaps, wall_ns=100, remainders={"dispatch": 60})

    answers = short_answers(summarise(small_study(), [base], [], {}))

    assert any("no operator runs in this part of the step" in answer and "numpy 60%" in answer for answer in answers)


def test_without_a_baseline_nothing_is_said_about_what_kernels_would_save() -> None:
    base = replace(cell_of("base", conv2d=40), wall_ns=100, remainders={"dispatch": 60})

    answers = short_answers(summarise(small_study(), [base], [], {}))

    assert (
        "Python, dispatch and the framework's own code: no operator runs in this part of the step: numpy 60%."
        in answers
    )


def test_time_without_operators_is_weighed_against_all_kernels_together() -> None:
    gaps = (gap_of("conv1", "conv2d", 40, 20, 10), gap_of("norm1", "lrn", 40, 20, 1))
    base = replace(cell_of("base", conv2d=40, lrn=40), gaps=gaps, wall_ns=110, remainders={"dispatch": 30})

    answers = short_answers(summarise(small_study(), [base], [], {}))

    assert not any("no operator runs" in answer for answer in answers)


def test_the_fastest_variant_is_that_of_frameworks_which_measured_all() -> None:
    text = TEXT + '"stride 3" = { stride = 3 }\n'
    cells = [cell_of("base", conv2d=90), cell_of("base", framework="native", conv2d=90)]
    cells += [cell_of("stride 2", conv2d=40), cell_of("stride 2", framework="native", conv2d=80)]
    cells.append(cell_of("stride 3", conv2d=50))  # native has not come to it

    answers = short_answers(summarise(small_study(text), cells, [], {}))

    assert "Fastest variant: stride 2, 0.50 of the base's step time (median of the frameworks)." in answers


@pytest.mark.parametrize(("points", "is_said"), [(-0.2, True), (-20.0, False)])
def test_synthetic_images_that_all_variants_learn_are_said_to_tell_nothing(
    monkeypatch: pytest.MonkeyPatch, points: float, is_said: bool
) -> None:
    cells = [cell_of("base", conv2d=90), cell_of("stride 2", conv2d=40)]
    costs = [PrecisionCost("stride 2", points, 1.0, None), PrecisionCost("stride 3", 0.0, 1.0, None)]
    monkeypatch.setattr("profkit.studies.findings.costs", lambda _: costs)
    monkeypatch.setattr(Summary, "is_synthetic", True)

    answers = short_answers(summarise(small_study(), cells, [], {}))

    assert any("equally well" in answer and "--data" in answer for answer in answers) == is_said


def test_a_variant_that_is_slower_than_the_base_is_not_called_fastest() -> None:
    cells = [cell_of("base", conv2d=40), cell_of("stride 2", conv2d=50)]

    answers = short_answers(summarise(small_study(), cells, [], {}))

    assert "No variant is faster than 'base' (median of the frameworks)." in answers


def test_the_short_answer_says_when_nothing_was_repeated() -> None:
    once = [cell_of("base", conv2d=40), cell_of("stride 2", conv2d=50)]

    single, repeated = (
        short_answers(summarise(small_study(), cells, [], {}))
        for cells in (once, [*once, cell_of("base", 2, conv2d=41)])
    )

    assert single[-1].startswith("There is one repetition only")
    assert not any("one repetition only" in answer for answer in repeated)


@pytest.mark.parametrize(
    ("ours", "reason"),
    [
        (0.5, "Above, just as its results: f 0.50"),
        (0.6, "Above (besides its results it allocates workspace, here a larger part than in the base): f 0.60"),
        (0.4, "Above (besides its results it allocates workspace, here a smaller part than in the base): f 0.40"),
        (0.1, "Below (besides its results it allocates workspace, here a smaller part than in the base): f 0.10"),
    ],
)
def test_why_bytes_differ_follows_from_the_results_and_not_from_the_published_figure(
    monkeypatch: pytest.MonkeyPatch, ours: float, reason: str
) -> None:
    comparison = PublishedComparison("v", "f", "bytes", ours, ours, ours, published=0.2, predicted=0.5)
    monkeypatch.setattr("profkit.studies.findings.comparisons", lambda _: [comparison])

    (sentence,) = comparison_sentences(summarise(small_study(), [], [], {}))

    assert sentence == f"v, conv2d bytes: published 0.20 of the base, its results 0.50. {reason}."


def test_an_empty_study_reports_that_nothing_was_measured() -> None:
    summary = summarise(small_study(), [], [Failure("base", "measure", "numpy", 1, "oom", "too | big")], {})

    text = build_report(summary).markdown()

    assert "Nothing was measured yet." in text
    assert "| numpy | oom | 1 | base | too \\| big |" in text
    grid = missing_grid(summary)
    assert grid is not None and len(grid.lines) == 1


def test_a_busy_machine_and_changed_versions_are_told() -> None:
    environments = [{"cpu": "a", "packages": {"torch": "1"}}, {"cpu": "a", "packages": {"torch": "2"}}]
    cells = [replace(cell_of("base", conv2d=40), load=7.5)]

    text = build_report(summarise(small_study(), cells, [], {}, 2, environments)).markdown()

    assert text.count("its load was up to 7.5") == 2
    assert "torch 1 then 2" in text
    assert "one repetition only" in text


def test_documents_escape_what_markdown_and_html_would_take_for_their_own() -> None:
    document = Document(
        Heading(1, "a_b"),
        Paragraph("1 < 2 | *x* [not a](link)"),
        Bullets(["`y`"]),
        Code("c"),
        Table(columns=[TableColumn("a", "a", is_text=True)], lines=[Line(("x|<y>",))]),
    )

    assert document.markdown() == (
        "# a\\_b\n\n1 &lt; 2 \\| \\*x\\* [not a]\\(link)\n\n"
        "- \\`y\\`\n\n```\nc\n```\n\n| a |\n| :-- |\n| x\\|&lt;y&gt; |\n"
    )
    minidom.parseString(render_file(document).removeprefix("<!DOCTYPE html>\n"))


@pytest.mark.parametrize("values", [(), (None, None), (0.0, 0.0), (1e-9, 1e9), (3.0, None)])
@pytest.mark.parametrize("is_log", [True, False])
def test_charts_are_drawn_whatever_the_values(values: tuple[float | None, ...], is_log: bool) -> None:
    chart = Chart("t & u", ["n < m"], ["a", "b"], [Panel("p", [Series("s", values, "#000000")], is_log)])

    drawing = minidom.parseString(render_chart(chart, "svg"))

    assert drawing.getElementsByTagName("text")
    if None in values:
        assert render_chart(chart, "png").startswith(b"\x89PNG")


def test_the_same_chart_is_the_same_svg() -> None:
    chart = Chart("t", [], ["a", "b"], [Panel("p", [Series("s", (1.0, 2.0), "#000000")])])

    assert render_chart(chart, "svg") == render_chart(chart, "svg")


@pytest.mark.parametrize(
    ("values", "is_log", "ticks"),
    [([0.0, 23.6], False, ["0", "5", "10", "15", "20"]), ([0.9, 60.0], True, ["1", "2", "5", "10", "20", "50"])],
)
def test_ticks_are_round_numbers(values: list[float], is_log: bool, ticks: list[str]) -> None:
    chart = Chart("t", [], ["a", "b"], [Panel("p", [Series("s", values, "#000000")], is_log)])

    drawing = render_chart(chart, "svg").decode()

    assert re.findall(r">([\d.]+)</text>", drawing) == ticks
