"""Prints tables and writes files, each as far as possible: failures become messages and do not affect the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from profkit.attribution.account import STEPS, clocks_of
from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.passes import main_capture
from profkit.capture.output_files import write_atomically
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.commands.explain import print_explanations
from profkit.errors import ProfkitError
from profkit.measurement.network_run import NetworkRequest
from profkit.measurement.result import Result
from profkit.rendering.results.columns import render_csv
from profkit.rendering.results.content import result_document
from profkit.rendering.tables.document import Document
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.terminal import abandon_stdout, say
from profkit.rendering.usage.content import View
from profkit.rendering.usage.files import render_usage_csv, render_usage_json
from profkit.rendering.usage.gaps import EXPLAINED, gaps_to_json
from profkit.rendering.usage.networks import compare_layers, compare_learning
from profkit.rendering.usage.reports import Report, report_of, without_table
from profkit.rendering.usage.tfprof import render_tfprof

TFPROF = "tfprof"


def show_usage(
    opened: Sequence[Capture | Run],
    by: str | None,
    view: View,
    layout: str,
    files: Mapping[str, str],
    stream: TextIO | None = None,
    **choice: Any,
) -> None:
    """Print a report for each, then frameworks side by side; then write the files, which are of each one's first table.

    A closed pipe, or one file that cannot be written, does not prevent the others. `choice` as report_of.
    """
    reports = [report_of(each, by or _usual(each, layout), **choice) for each in opened]
    out = sys.stdout if stream is None else stream
    refuse(printed(lambda: _print(reports, view, layout, out), out) + _written(reports, view, files))


def _usual(opened: Capture | Run, layout: str) -> str | None:
    """tfprof's rows are types; kinds are profkit's own."""
    is_recorded = not isinstance(opened, Run) or opened.capture("time") is not None
    return "type" if layout == TFPROF and is_recorded and clocks_of(main_capture(opened))[0] == STEPS else None


def _print(reports: Sequence[Report], view: View, layout: str, out: TextIO) -> None:
    for report in reports:
        if not report.usages and isinstance(report.opened, Run):
            without_table(report.opened).print(sys.stderr)
    if layout != TFPROF:
        return _document(reports, view).print(out)
    profiles = []
    for around, usage in (each for report in reports for each in report.usages):
        above = "".join(f"{line}\n" for line in (*around.losses, *around.warnings, *around.instead))
        profiles.append(above + render_tfprof(mean_of_steps(usage), view))
    say("\n".join(profiles).removesuffix("\n"), out)
    return None


def _document(reports: Sequence[Report], view: View, explained: float = EXPLAINED) -> Document:
    tables = [table for report in reports for table in report.tables(view, explained)]
    runs = [report.opened for report in reports if report.usages and isinstance(report.opened, Run)]
    learned = [run for run in runs if run.learning]
    tables += [compare_layers(runs, view.top if explained else None)] if len(runs) > 1 else []
    return Document(*tables, *([compare_learning(learned)] if len(learned) > 1 else []))


def _written(reports: Sequence[Report], view: View, files: Mapping[str, str]) -> list[str]:
    jobs: list[Callable[[], None]] = []
    opened = [report.opened for report in reports]
    for report in reports:
        for _, usage in report.usages[:1]:
            more = {"gaps": gaps_to_json(report.gaps)} if report.gaps else {}
            texts = {"json": partial(render_usage_json, usage, more), "csv": partial(render_usage_csv, usage)}
            for kind in texts.keys() & files.keys():
                target = path_for(files[kind], report.opened, opened)
                jobs.append(partial(_write, target, texts[kind]))
    if files and not any(report.usages for report in reports):
        return [f"{', '.join(files.values())}: not written, because nothing was recorded"]
    if "markdown" in files:
        jobs.append(partial(_write, files["markdown"], lambda: _document(reports, view, explained=0.0).markdown()))
    return written(jobs)


def path_for(path: str, run: Capture | Run | NetworkRequest, runs: Sequence[Capture | Run | NetworkRequest]) -> str:
    """The file of one of several runs: usage.json is usage.torch.json, unless there is only one."""
    if len(runs) == 1 or isinstance(run, Capture):
        return path
    target = Path(path)
    names = [each.framework for each in runs if not isinstance(each, Capture)]
    mode = f"-{run.mode}" if names.count(run.framework) > 1 else ""
    return os.fspath(target.with_name(f"{target.stem}.{run.framework}{mode}{target.suffix}"))


def show_result(result: Result, columns: Sequence[str] | None, is_verbose: bool, files: Mapping[str, str]) -> None:
    """The same for what an operator's command measured."""
    out = sys.stdout
    document = result_document(result, columns, is_verbose)

    def show() -> None:
        document.print(out)
        print_explanations(result, out)

    texts = {
        "json": lambda: render_json(result.to_dict()),
        "csv": lambda: render_csv(result),
        "markdown": document.markdown,
    }
    refuse(printed(show, out) + written(partial(_write, path, texts[kind]) for kind, path in files.items()))


def _write(path: str, text: Callable[[], str]) -> None:
    write_atomically(path, text())


def printed(print_all: Callable[[], None], out: TextIO) -> list[str]:
    """A closed pipe is not an error; a full disk is one, but must not prevent the files."""
    try:
        print_all()
        out.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        abandon_stdout()
        return [f"could not print the table: {error.strerror or error}"]
    return []


def refuse(problems: Sequence[str]) -> None:
    """Raise ProfkitError when there are any."""
    if problems:
        raise ProfkitError("\n".join(problems))


def written(jobs: Iterable[Callable[[], None]]) -> list[str]:
    """Each job writes a file; one that fails does not prevent the others."""
    problems = []
    for job in jobs:
        try:
            job()
        except ProfkitError as error:
            problems.append(str(error))
    return problems
