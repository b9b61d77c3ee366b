"""`python -m profkit.report run.profkit`: a capture file in, its table on the terminal and files out.

A capture is of a traced program, torch.profiler or Nsight Systems (rows are ranges, or operators, layers, kernels,
copies, ... of a GPU), or of a network's run (rows are kinds of operators, layers, ...). The result of an operator's
command is shown as that command printed it.
profkit.trace offers the same flags: it calls add_report_arguments, check_report_arguments and print_report.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import TextIO

from profkit.attribution.account import CLOCKS, DEVICES, STEPS, THREADS
from profkit.attribution.grouping import GROUPINGS, choose_grouping, groupings_on
from profkit.attribution.passes import main_capture
from profkit.attribution.usage import NAME
from profkit.capture.opening import Content, content_of, open_capture
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.cli import guarded
from profkit.commands.arguments import Parser, chosen_top
from profkit.commands.opening import add_capture_argument, add_loss_argument, loss_code
from profkit.commands.showing import TFPROF, show_result, show_usage
from profkit.commands.sweep import split_list
from profkit.errors import UsageError
from profkit.rendering.atomic_write import check_targets
from profkit.rendering.usage.columns import find_usage_column, usage_columns
from profkit.rendering.usage.content import DEFAULT_TOP, View

FORMATS = ("table", TFPROF)
_FILES = ("json", "csv", "markdown")
_EXAMPLES = """examples:
  profkit report run.profkit                         where the time went, by name
  profkit report run.profkit --by path               the same as a tree of ranges in ranges
  profkit report run.profkit --columns +live,allocs  more columns than usual
  profkit report run.profkit --sort peak --top 10    the ten ranges that held most memory
  profkit report run.profkit --json usage.json       every row, exact numbers
  profkit report network.profkit --by layer          a network's run that profkit network saved
  profkit report trace.json.gz                       GPU time by operator of a torch.profiler trace
  profkit report run.profkit --by kernel             kernels of a traced program that used a GPU
  profkit report trace.json.gz --by launch           which kernels each operator launched
  profkit report report.sqlite --by copy             copies by direction of an Nsight Systems export
  profkit report result.json --columns +page_faults  what profkit conv --json result.json measured

exit codes: 0 shown, 1 a file cannot be used or written, 2 wrong usage, or a trace that cannot be read,
  5 with --fail-on-loss: records were lost, or a program ran unrecorded"""
_OF_THREADS = ("process", "thread", "subtract_overhead")
_OF_CAPTURES = ("by", "clock", "sort", "fail_on_loss", *_OF_THREADS)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say what the table of a capture shows; profkit.trace has them too."""
    group = parser.add_argument_group("table")
    kinds = {THREADS: "of a program", STEPS: "of a network's steps", DEVICES: "of a GPU"}
    by = "; ".join(f"{kinds[clock]} {', '.join(groupings_on(clock))}" for clock in CLOCKS)
    group.add_argument("--by", choices=list(GROUPINGS), metavar="WHAT", help=f"what one row is: {by} [the first]")
    clock = f"whose time is divided, where --by leaves it open: that of {', '.join(CLOCKS)}"
    group.add_argument("--clock", choices=CLOCKS, help=clock)
    add_table_arguments(group)
    group.add_argument("--process", metavar="PID", help="only this process")
    group.add_argument("--thread", metavar="NAME", help="only threads of this name or id")
    group.add_argument("--subtract-overhead", action="store_true", help="subtract the estimated cost of recording")
    add_loss_argument(group)
    add_file_arguments(parser)


def add_table_arguments(group: argparse._ArgumentGroup) -> None:
    """The flags of every table of usage; profkit.network has them too."""
    group.add_argument("--columns", action="append", metavar="LIST", help="columns to show; +LIST adds; all")
    group.add_argument("--sort", metavar="COLUMN", help="order of the rows (default: own time; by path: inclusive)")
    group.add_argument("--top", metavar="N", default=str(DEFAULT_TOP), help=f"rows printed, or all ({DEFAULT_TOP})")
    group.add_argument("--format", choices=FORMATS, default="table", help="tfprof: the classic TensorFlow op profile")


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that name files for the table."""
    files = parser.add_argument_group("files of the table (all rows; Markdown: those printed)")
    files.add_argument("--json", metavar="FILE", help="schema profkit.usage/1")
    files.add_argument("--csv", metavar="FILE", help="one line per row")
    files.add_argument("--markdown", metavar="FILE", help="the table for an issue or a README")


def check_report_arguments(arguments: argparse.Namespace) -> None:
    """Raise UsageError for whatever can be wrong without looking at a capture: before a long run, not after it."""
    check_table_arguments(arguments)
    _process_id(arguments)


def check_table_arguments(arguments: argparse.Namespace) -> None:
    """The same for what every table has."""
    view = chosen_view(arguments)
    for name in view.columns or ():
        if name.lstrip("+") not in (NAME, "all"):
            find_usage_column(name.lstrip("+"))
    if view.sort not in (None, NAME):
        find_usage_column(str(view.sort))
    check_targets(named_files(arguments).values())


def print_report(capture: Capture | Run, arguments: argparse.Namespace, stream: TextIO | None = None) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were.

    Where a program's GPU was recorded and no grouping is asked for, its table follows; the files are of the first.
    """
    if not isinstance(capture, Run) or capture.capture("time"):
        by, clock = choose_grouping(main_capture(capture), arguments.by, arguments.clock)
        for name in _OF_THREADS if clock != THREADS else ():
            if getattr(arguments, name):
                raise UsageError(f"{_flag(name)} is for the time of threads; by {by} the table divides that of {clock}")
    show_usage(
        [capture],
        arguments.by,
        chosen_view(arguments),
        arguments.format,
        named_files(arguments),
        stream,
        clock=arguments.clock,
        process=_process_id(arguments),
        thread=arguments.thread,
        subtract_overhead=arguments.subtract_overhead,
    )


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    content = content_of(arguments.capture)
    if content is Content.RESULT:
        return _report_result(arguments)
    if arguments.verbose:
        raise UsageError(f"--verbose is for results; {arguments.capture} is a {content.value}")
    check_report_arguments(arguments)
    capture = open_capture(arguments.capture, content)
    print_report(capture, arguments)
    return loss_code(capture, arguments)


def _report_result(arguments: argparse.Namespace) -> int:
    """The tables that the operator's command printed, of all cells of a sweep."""
    from profkit.measurement.result import read_result
    from profkit.rendering.results.columns import choose_columns

    path = arguments.capture
    if arguments.format != FORMATS[0]:
        raise UsageError(
            f"--format {arguments.format} divides the time of a run among its operators; {path} is a result, "
            "which has the time of one operator in many implementations: leave --format out"
        )
    wrong = [name for name in _OF_CAPTURES if getattr(arguments, name)]
    wrong += ["top"] if arguments.top != str(DEFAULT_TOP) else []
    for name in wrong:
        raise UsageError(
            f"{_flag(name)} is for captures; {path} is a result: all its rows are shown, the fastest first"
        )
    columns = split_list(arguments.columns or []) or None
    choose_columns(columns)
    check_targets(named_files(arguments).values())
    show_result(read_result(path), columns, arguments.verbose, named_files(arguments))
    return 0


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def build_parser() -> Parser:
    """The parser of this command."""
    known = usage_columns()
    width = max(len(column.name) for column in known)
    columns = "".join(f"  {column.name:{width}}  {column.help}\n" for column in known)
    parser = Parser(
        "profkit report",
        "Show where the time and the memory of a capture went, or a result again.",
        f"columns of a capture:\n{columns}\ncolumns of a result: those that profkit conv --help lists\n\n{_EXAMPLES}",
    )
    parser.usage = "profkit report CAPTURE [flags]"
    add_capture_argument(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="list each row of a result that could not run")
    add_report_arguments(parser)
    return parser


def chosen_view(arguments: argparse.Namespace) -> View:
    """What of the table is shown."""
    columns = [name for name in split_list(arguments.columns or []) if name]
    return View(columns or None, arguments.sort, chosen_top(arguments.top))


def _process_id(arguments: argparse.Namespace) -> int | None:
    if arguments.process is None:
        return None
    if not str(arguments.process).isdecimal():
        raise UsageError(f"--process takes a process id, got {arguments.process!r}")
    return int(arguments.process)


def named_files(arguments: argparse.Namespace) -> dict[str, str]:
    """Format (json, csv, markdown) and path of the files that were asked for."""
    return {kind: getattr(arguments, kind) for kind in _FILES if getattr(arguments, kind)}


main = partial(guarded, "report", _run)

if __name__ == "__main__":
    raise SystemExit(main())
