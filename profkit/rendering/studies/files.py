"""All files of a study's report in its folder: results in, summary, tables, plot, Markdown and HTML out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.gaps import layer_gaps
from profkit.attribution.passes import run_usage
from profkit.capture.output_files import open_output, write_atomically
from profkit.capture.run import Run
from profkit.errors import ProfkitError
from profkit.rendering.studies import database as study_database
from profkit.rendering.studies.answers import short_answers
from profkit.rendering.studies.axis_chart import axis_chart, render_axis_chart
from profkit.rendering.studies.chart import INSTALL as PLOT_INSTALL
from profkit.rendering.studies.chart import can_draw, render_chart, study_chart
from profkit.rendering.studies.report import build_reports
from profkit.rendering.studies.sweeps import sweep_findings
from profkit.rendering.tables.document import Paragraph, Picture
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.usage.content import View
from profkit.rendering.usage.gaps import gap_table
from profkit.rendering.usage.networks import network_table
from profkit.rendering.usage.tfprof import render_tfprof
from profkit.studies import findings
from profkit.studies.analyses.speedups import SpeedUp
from profkit.studies.folder import ResultsFolder
from profkit.studies.opportunities import opportunities
from profkit.studies.plan import BASELINE, MEASURE, StudyCell
from profkit.studies.results import Results
from profkit.studies.statuses import OK
from profkit.studies.summary import Summary

SCHEMA = "profkit.study-summary/1"
_TABLES = "tables"


def write_study(
    folder: ResultsFolder, cells: Sequence[StudyCell], results: Results, summaries: Sequence[Summary]
) -> list[str]:
    """Write everything, with a summary of every sweep; returns what could not be made and what to type for it."""
    path = folder.path
    missing = []
    write_atomically(path / "summary.json", render_summary(summaries))
    tables = study_database.table_rows(results, summaries)
    for name in ("cells", "operators"):
        write_atomically(path / f"{name}.csv", study_database.render_csv(name, tables[name]))
    if study_database.can_write_database():
        study_database.write_database(path / "results.duckdb", tables)
    else:
        missing.append(study_database.INSTALL)
    pictures: Sequence[Picture | Paragraph] = [Paragraph(PLOT_INSTALL)]
    if can_draw():
        pictures = _pictures(path, summaries)
    else:
        missing.append(PLOT_INSTALL)
    report = build_reports(summaries, pictures)
    for name in ("report.md", "report.html"):
        report.write(path / name)
    write_cell_tables(folder, cells)
    return missing


def _pictures(path: Path, summaries: Sequence[Summary]) -> list[Picture]:
    """A chart of every sweep with named variants, and one of those with axes, a panel each; the first is plot.png."""
    charts: list[tuple[str, Callable[[str], bytes]]] = []
    if (axes := axis_chart(summaries)) is not None:
        charts.append((axes.title, partial(render_axis_chart, axes)))
    for summary in summaries:
        if not summary.study.sweep.axes:
            chart = study_chart(summary)
            charts.append((chart.title, partial(render_chart, chart)))
    pictures = []
    for number, (title, render) in enumerate(charts, start=1):
        name = "plot" if number == 1 else f"plot-{number}"
        drawn = {ending: render(ending) for ending in ("png", "svg")}
        for ending, data in drawn.items():
            with open_output(path / f"{name}.{ending}") as stream:
                stream.write(data)
        pictures.append(Picture(f"{name}.png", title, drawn["svg"].decode()))
    return pictures


def render_summary(summaries: Sequence[Summary]) -> str:
    study = summaries[0].study
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "study": study.name,
        "title": study.title,
        "is_quick": study.is_quick,
        "repetitions": study.repetitions,
        "steps": study.steps,
        "data": next((summary.data for summary in summaries if summary.data), ""),
        "sweeps": [_sweep_content(summary) for summary in summaries],
        "published": asdict(study.published) if study.published else None,
    }
    return render_json(content)


def _sweep_content(summary: Summary) -> dict[str, Any]:
    sweep = summary.study.sweep
    return {
        "name": sweep.name,
        "network": type(sweep.variants[0].network).name,
        "axes": sweep.axes,
        "base": sweep.base,
        "focus": summary.focus,
        "answers": short_answers(summary),
        "variants": [asdict(facts) for facts in summary.variants],
        "rows": [asdict(row) for row in summary.rows],
        "failures": [asdict(failure) for failure in summary.failures],
        "findings": {
            "dominances": [asdict(each) for each in findings.dominances(summary)],
            "savings": [asdict(each) for each in findings.savings(summary)],
            "costs": [asdict(each) for each in findings.costs(summary)],
            "combinations": [{**asdict(each), "verdict": each.verdict} for each in findings.combinations(summary)],
            "comparisons": [{**asdict(each), "verdict": each.verdict} for each in findings.comparisons(summary)],
            "unexplained": [asdict(each) for each in findings.unexplained(summary)],
            "opportunities": [asdict(each) for each in opportunities(summary)],
            **{name: list(map(_with_verdict, found)) for name, found in sweep_findings(summary).items()},
        },
    }


def _with_verdict(each: Any) -> dict[str, Any]:
    computed = {"efficiency": each.efficiency, "verdict": each.verdict} if isinstance(each, SpeedUp) else {}
    return {**asdict(each), **computed}


def write_cell_tables(folder: ResultsFolder, cells: Sequence[StudyCell]) -> None:
    """The tables of every measured cell, in a file of their own; those of finished cells are not made again."""
    target = folder.path / _TABLES
    target.mkdir(exist_ok=True)
    baselines = {
        cell.variant.name: outcome for cell in cells if cell.kind == BASELINE and (outcome := folder.outcome(cell))
    }
    for cell in cells:
        outcome = folder.outcome(cell)
        if cell.kind != MEASURE or outcome is None or outcome.status != OK:
            continue
        baseline = baselines.get(cell.variant.name)
        path = target / f"{cell.id}.txt"
        if _is_newer(path, folder.capture_path(cell), baseline is not None):
            continue
        try:
            capture = replace(folder.capture(cell), baseline=baseline.baseline if baseline else [])
            write_atomically(path, render_cell(capture))
        except ProfkitError as error:
            write_atomically(path, f"{cell.title}: {error}\n")


def render_cell(capture: Run) -> str:
    """A cell's operators by kind and by the framework's own type, in tfprof's layout, and against the baseline."""
    everything = View(top=None)
    by_type = mean_of_steps(run_usage(capture, "type"))
    parts = [
        str(network_table(capture, run_usage(capture, "kind"), everything)),
        str(network_table(capture, run_usage(capture, "type"), everything)),
        f"the same types in the layout of TensorFlow's op profile, one step:\n\n{render_tfprof(by_type, everything)}",
    ]
    if capture.baseline:
        parts.append(str(gap_table(layer_gaps(capture))))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _is_newer(path: Path, source: Path, has_baseline: bool) -> bool:
    """Whether a table is up to date: made after its capture, and with the baseline if there is one now."""
    try:
        if path.stat().st_mtime_ns < source.stat().st_mtime_ns:
            return False
        return not has_baseline or "Against the baseline" in path.read_text(encoding="utf-8")
    except OSError:
        return False
