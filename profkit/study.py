"""`python -m profkit.study cifar10-operators`: a declared sweep in, a folder of results with a report out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.cli import INTERRUPTED, guarded
from profkit.commands.arguments import Parser, typed
from profkit.errors import UsageError
from profkit.rendering.quantities import parse_bytes, parse_duration

if TYPE_CHECKING:
    from profkit.studies.folder import ResultsFolder
    from profkit.studies.running import RunReport

_EXAMPLES = """examples:
  profkit study --list                                      what comes with profkit
  profkit study cifar10-operators --show                    its cells, and how long they will take
  profkit study cifar10-operators --quick                   a short form, in minutes
  profkit study cifar10-operators --data cifar-10-batches-bin
  profkit study cifar10-operators --only torch,native --only 'stride*'
  profkit study my.toml --output results                    your own: docs/studies.md explains the file

A run that was stopped or killed continues with the same command. Frameworks that were missing are looked for again;
other cells that failed are run again with --retry.
exit codes: 0 measured, 1 nothing could be measured or a file could not be written, 2 wrong usage, 130 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return guarded("study", _run, argv)


def build_parser() -> Parser:
    """The parser of this command."""
    parser = Parser("profkit study", "Run a declared sweep over a network, frameworks and repetitions.", _EXAMPLES)
    parser.usage = "profkit study NAME|FILE.toml [flags]"
    parser.add_argument("study", metavar="NAME|FILE.toml", nargs="?", help="a study of --list, or a file of your own")
    look = parser.add_argument_group("look only")
    look.add_argument("--list", action="store_true", help="list the studies that come with profkit and exit")
    look.add_argument("--show", action="store_true", help="list the cells and the expected time and exit")
    look.add_argument("--report", action="store_true", help="write the report again from finished cells and exit")
    group = parser.add_argument_group("what is run")
    group.add_argument("--quick", action="store_true", help="the study's short form")
    group.add_argument("--only", metavar="NAME", action="append", help="only these frameworks or variants (* is any)")
    group.add_argument("--retry", action="store_true", help="run failed cells again")
    group.add_argument("--data", metavar="FOLDER", help="folder of CIFAR-10's files [synthetic images]")
    group.add_argument("--learn-steps", metavar="N", type=int, help="training steps before precision is measured")
    how = parser.add_argument_group("how it is run")
    how.add_argument("--threads", metavar="N", type=int, help="threads of each framework [all usable cores]")
    how.add_argument(
        "--budget", metavar="TIME", type=typed(parse_duration), help="time limit: start no cell that would exceed it"
    )
    how.add_argument("--timeout", metavar="TIME", type=typed(parse_duration), default=120.0, help="longest wait [120s]")
    how.add_argument(
        "--memory-limit", metavar="SIZE", type=typed(parse_bytes), help="memory limit of each process [none]"
    )
    how.add_argument("--seed", metavar="N", type=int, default=0, help="seed of weights and synthetic images [0]")
    out = parser.add_argument_group("where the results go")
    out.add_argument("--output", metavar="FOLDER", help="folder of the results [study-NAME, study-NAME-quick]")
    out.add_argument("--json", metavar="FILE", help="also write the summary (profkit.study-summary/1) here")
    out.add_argument("--quiet", action="store_true", help="no progress")
    return parser


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    if arguments.list:
        return _list()
    if arguments.study is None:
        raise UsageError("name a study: profkit study --list shows what there is")
    return _Session(arguments).run()


def _list() -> int:
    from profkit.studies.catalogue import load_study, study_names

    names = study_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {load_study(name).title}")
    return 0


class _Session:
    """One call of the command."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        from profkit.measurement.cores import cores_for, default_threads
        from profkit.studies.catalogue import load_study
        from profkit.studies.conditions import StudyConditions
        from profkit.studies.plan import plan_cells, select_cells
        from profkit.studies.reading import with_learning_steps

        self._arguments = arguments
        study = load_study(arguments.study, arguments.quick)
        if arguments.learn_steps is not None:
            if arguments.learn_steps < 1:
                raise UsageError(f"--learn-steps {arguments.learn_steps}: must be at least 1")
            study = with_learning_steps(study, arguments.learn_steps)
        threads = arguments.threads if arguments.threads is not None else study.threads or default_threads()
        cores_for(threads)
        self._conditions = StudyConditions(
            study=study,
            threads=threads,
            data_folder=os.path.realpath(arguments.data) if arguments.data else None,
            seed=arguments.seed,
            timeout_s=arguments.timeout,
            memory_limit_bytes=arguments.memory_limit,
        )
        self._cells = plan_cells(study)
        self._chosen = select_cells(self._cells, arguments.only or [])
        suffix = "-quick" if study.is_quick else ""
        self._output = Path(arguments.output or f"study-{study.name}{suffix}")

    def run(self) -> int:
        """Look, or run what is missing and write the report."""
        if self._arguments.show:
            return self._show()
        from profkit.rendering.atomic_write import check_targets
        from profkit.studies.folder import open_folder

        check_targets([self._arguments.json])
        study = self._conditions.study
        if not self._arguments.report:
            self._conditions.data_for(study.variants[0].network)  # a damaged file shows now, not in every cell
        with open_folder(self._output, study.name, self._conditions.identity()) as folder:
            report = None if self._arguments.report else self._run_cells(folder)
            measured = self._write(folder)
        if report is not None and report.is_interrupted:
            print(f"interrupted; {report.left} cells are left: the same command continues", file=sys.stderr)
            return INTERRUPTED
        if report is not None and report.is_out_of_budget:
            print(f"the budget is over; {report.left} cells are left: the same command continues")
        return 0 if measured else 1

    def _run_cells(self, folder: ResultsFolder) -> RunReport:
        from profkit.measurement.environment import fingerprint
        from profkit.rendering.studies.progress import CellLines
        from profkit.studies.running import cells_to_run, run_cells

        study = self._conditions.study
        if cells_to_run(self._chosen, folder, self._arguments.retry):
            folder.add_environment(fingerprint())
        watch = CellLines(sys.stderr)
        try:
            return run_cells(
                self._chosen,
                folder,
                self._conditions,
                self._arguments.budget or study.budget_s,
                self._arguments.retry,
                (lambda _: None) if self._arguments.quiet else watch,
            )
        finally:
            watch.close()

    def _write(self, folder: ResultsFolder) -> bool:
        """The report and its files; whether anything was measured."""
        from profkit.rendering.atomic_write import write_atomically
        from profkit.rendering.studies.files import render_summary, write_study
        from profkit.rendering.studies.report import build_summary
        from profkit.studies.results import read_results

        results = read_results(self._cells, folder)
        summary = results.summary(self._conditions.study, self._conditions.threads)
        missing = write_study(folder, self._cells, results, summary)
        if self._arguments.json:
            write_atomically(self._arguments.json, render_summary(summary))
        build_summary(summary).print(sys.stdout)
        for sentence in missing:
            print(sentence)
        print(f"\nreport: {self._output / 'report.md'}, {self._output / 'report.html'}")
        return bool(results.numbers)

    def _show(self) -> int:
        from profkit.rendering.studies.progress import left_text
        from profkit.studies.folder import find_folder
        from profkit.studies.running import time_table

        folder = find_folder(self._output, self._conditions.study.name, self._conditions.identity())
        table = time_table(self._chosen, self._conditions, folder)
        width = max(len(cell.title) for cell, _, _ in table)
        for cell, outcome, seconds in table:
            print(f"{cell.title:{width}}  {outcome.status if outcome else left_text(seconds)}")
        left = [seconds for _, outcome, seconds in table if outcome is None]
        print(f"{len(table)} cells, {len(left)} to run, {left_text(sum(left))}; results go to {self._output}")
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
