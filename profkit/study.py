"""`python -m profkit.study cifar10-operators`: a declared sweep in, a folder of results with a report out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from profkit.capture.output_files import check_targets, write_atomically
from profkit.cli import guarded
from profkit.commands.arguments import Parser, made_options
from profkit.errors import INTERRUPTED, UsageError
from profkit.measurement.cores import cores_for, default_threads, usable_cpus
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import BYTES, FOLDER, PATH, RUN, SECONDS, WHOLE, WORDS, option
from profkit.rendering.quantities import plural
from profkit.rendering.studies.files import render_summary, write_study
from profkit.rendering.studies.progress import CellLines, axis_lines, left_text
from profkit.rendering.studies.report import build_summary
from profkit.rendering.terminal import say
from profkit.studies.conditions import StudyConditions
from profkit.studies.folder import ResultsFolder, find_folder, open_folder
from profkit.studies.plan import plan_cells, select_cells
from profkit.studies.reading import load_study, study_names, with_learning_steps
from profkit.studies.results import read_results
from profkit.studies.running import RunReport, cells_to_run, run_cells, time_table

LOOK, CELLS, RESULTS = "list only", "what is run", "where the results go"
_EXAMPLES = """examples:
  profkit study --list                                      what comes with profkit
  profkit study cifar10-operators --dry-run                 its axes, its cells, and how long they will take
  profkit study cifar10-operators --quick                   a short form, in minutes
  profkit study cifar10-operators --data cifar-10-batches-bin
  profkit study cifar10-operators --only torch,native --only 'stride*'
  profkit study my.toml --output results                    your own study: docs/studies.md

A run that was stopped or killed continues with the same command. Cells of missing frameworks are tried again; other \
cells that failed are run again with --retry.
exit codes: 0 measured, 1 nothing could be measured or a file could not be written, 2 wrong usage, 130 interrupted"""


@dataclass(frozen=True)
class StudyOptions:
    lists: bool = option(False, LOOK, "list the studies that come with profkit and exit", flag="list")
    dry_run: bool = option(False, LOOK, "list the axes, the cells and the expected time and exit")
    report: bool = option(False, LOOK, "write the report again from finished cells and exit")
    quick: bool = option(False, CELLS, "the study's short form")
    only: Sequence[str] = option((), CELLS, "only these frameworks or variants (* is any)", form=WORDS)
    retry: bool = option(False, CELLS, "run failed cells again")
    data: str | None = option(None, CELLS, "file or folder of the data set", form=PATH, shown="synthetic data")
    learn_steps: int | None = option(None, CELLS, "training steps before precision is measured", form=WHOLE)
    threads: int | None = option(None, RUN, "threads of each framework", form=WHOLE, shown="all usable cores")
    budget_s: float | None = option(None, RUN, "time limit: start no cell that would exceed it", form=SECONDS)
    timeout_s: float = option(120.0, RUN, "time limit for an answer of a worker", form=SECONDS)
    memory_limit_bytes: int | None = option(None, RUN, "memory limit of each process", form=BYTES, shown="none")
    seed: int = option(0, RUN, "seed of weights and synthetic data", form=WHOLE)
    output: str | None = option(
        None, RESULTS, "folder of the results", form=FOLDER, shown="study-NAME, study-NAME-quick"
    )
    json: str | None = option(None, RESULTS, "also write the summary (profkit.study-summary/1) here")
    quiet: bool = option(False, RESULTS, "no progress")


def build_parser() -> Parser:
    parser = Parser("profkit study", "Run a declared sweep over a network, frameworks and repetitions.", _EXAMPLES)
    parser.usage = "profkit study NAME|FILE.toml [flags]"
    parser.add_argument("study", metavar="NAME|FILE.toml", nargs="?", help="a study of --list, or your own file")
    parser.add_options(StudyOptions)
    return parser


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    options = made_options(StudyOptions, arguments)
    if options.lists:
        return _list()
    if arguments.study is None:
        raise UsageError("name a study: profkit study --list shows what there is")
    return _Session(arguments.study, options).run()


def _list() -> int:
    names = study_names()
    width = max(map(len, names))
    for name in names:
        say(f"{name:{width}}  {load_study(name).title}")
    return 0


class _Session:
    def __init__(self, name: str, options: StudyOptions) -> None:
        self._name = name
        self._options = options
        study = load_study(name, options.quick)
        if options.learn_steps is not None:
            if options.learn_steps < 1:
                raise UsageError(f"--learn-steps {options.learn_steps}: must be at least 1")
            study = with_learning_steps(study, options.learn_steps)
        threads = options.threads if options.threads is not None else study.threads or default_threads()
        cores_for(threads)
        if options.threads is not None and any(variant.setting.threads for variant in study.variants):
            raise UsageError(f"--threads {options.threads}: the study itself says on how many threads each cell runs")
        self._conditions = StudyConditions(
            study=study,
            threads=threads,
            data_path=os.path.realpath(options.data) if options.data else None,
            seed=options.seed,
            timeout_s=options.timeout_s,
            memory_limit_bytes=options.memory_limit_bytes,
        )
        self._cells = plan_cells(study, len(usable_cpus()))
        self._chosen = select_cells(self._cells, options.only)
        suffix = "-quick" if study.is_quick else ""
        self._output = Path(options.output or f"study-{study.name}{suffix}")

    def run(self) -> int:
        """Look, or run what is missing and write the report."""
        if self._options.dry_run:
            return self._dry_run()
        check_targets([self._options.json], sources=[self._name])
        study = self._conditions.study
        if not self._options.report:
            for sweep in study.sweeps:  # a damaged file shows now, not in every cell
                self._conditions.data_for(sweep.variants[0].network)
        with open_folder(self._output, study.name, self._conditions.identity()) as folder:
            report = None if self._options.report else self._run_cells(folder)
            measured = self._write(folder)
        if report is not None and report.is_interrupted:
            say(f"interrupted; {report.left} cells are left: the same command continues", sys.stderr)
            return INTERRUPTED
        if report is not None and report.is_out_of_budget:
            say(f"the budget is over; {report.left} cells are left: the same command continues")
        return 0 if measured else 1

    def _run_cells(self, folder: ResultsFolder) -> RunReport:
        study = self._conditions.study
        due = cells_to_run(self._chosen, folder, self._options.retry)
        if due:
            folder.add_environment(fingerprint())
        if not self._options.quiet:
            seconds = {cell.id: left for cell, _, left in time_table(self._chosen, self._conditions, folder)}
            say(f"{plural(len(due), 'cell')} to run, {left_text(sum(seconds[cell.id] for cell in due))}", sys.stderr)
        watch = CellLines(sys.stderr)
        try:
            return run_cells(
                self._chosen,
                folder,
                self._conditions,
                self._options.budget_s or study.budget_s,
                self._options.retry,
                (lambda _: None) if self._options.quiet else watch,
            )
        finally:
            watch.close()

    def _write(self, folder: ResultsFolder) -> bool:
        """The report and its files; whether anything was measured."""
        results = read_results(self._cells, folder)
        summaries = results.summaries(self._conditions.study, self._conditions.threads)
        missing = write_study(folder, self._cells, results, summaries)
        if self._options.json:
            write_atomically(self._options.json, render_summary(summaries))
        for summary in summaries:
            build_summary(summary).print(sys.stdout)
        for sentence in missing:
            say(sentence)
        say(f"\nreport: {self._output / 'report.md'}, {self._output / 'report.html'}")
        return bool(results.numbers)

    def _dry_run(self) -> int:
        """What would run, in the terms of the declaration and cell by cell; nothing is made."""
        folder = find_folder(self._output, self._conditions.study.name, self._conditions.identity())
        table = time_table(self._chosen, self._conditions, folder)
        to_run = [cell for cell in self._chosen if not cell.skipped]
        if folder is not None:
            to_run = cells_to_run(self._chosen, folder, self._options.retry)
        due = {cell.id for cell in to_run}
        for sweep in self._conditions.study.sweeps:
            for line in axis_lines(sweep, self._conditions.study):
                say(line)
        width = max(len(cell.title) for cell, _, _ in table)
        for cell, outcome, seconds in table:
            state = outcome.status if outcome and cell.id not in due else left_text(seconds)
            state = f"skipped: {cell.skipped}" if cell.skipped else state
            say(f"{cell.title:{width}}  {state}")
        left = [seconds for cell, _, seconds in table if cell.id in due]
        skipped = sum(bool(cell.skipped) for cell, _, _ in table)
        counted = f"{len(table)} cells, {skipped} skipped, {len(left)} to run, {left_text(sum(left))}"
        say(f"{counted}; results go to {self._output}")
        return 0


main = partial(guarded, "study", _run)

if __name__ == "__main__":
    raise SystemExit(main())
