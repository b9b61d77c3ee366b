"""`python -m profkit.report run.profkit`: a capture file in, its table on the terminal and files out.

A capture is of a traced program, torch.profiler or Nsight Systems (rows are ranges, or operators, layers, kernels,
copies, ... of a GPU), or of a network's run (rows are kinds of operators, layers, ...). The result of an operator's
command is shown as that command printed it.
profkit.trace offers the same flags: it calls add_report_arguments, check_report_arguments and print_report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TextIO

from profkit.attribution.device.groups import GROUPINGS as DEVICE_GROUPINGS
from profkit.attribution.grouping import GROUPINGS
from profkit.attribution.networks.usage import GROUPINGS as NETWORK_GROUPINGS
from profkit.capture.opening import Content, content_of, open_capture
from profkit.capture.schema import PROFKIT, Capture
from profkit.cli import guarded
from profkit.commands.arguments import Parser, chosen_top
from profkit.commands.network_report import print_networks
from profkit.commands.showing import TFPROF, capture_reports, groupings_of, show_result, show_usage
from profkit.commands.sweep import split_list
from profkit.errors import UsageError
from profkit.rendering.atomic_write import check_targets
from profkit.rendering.usage.columns import COLUMNS, NAME, find_usage_column
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
"""
_OF_PROGRAMS = ("process", "thread", "subtract_overhead")
_OF_CAPTURES = ("by", "sort", *_OF_PROGRAMS)


def main(argv: Sequence[str] | None = None) -> int:
    """Read a capture, print its table, write the files that were asked for."""
    return guarded("report", _run, argv)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say what the table of a traced program shows; profkit.trace has them too."""
    group = parser.add_argument_group("table")
    by = f"what one row is: {', '.join(GROUPINGS)} (default: name), or of the GPU {', '.join(DEVICE_GROUPINGS)}"
    group.add_argument("--by", choices=[*GROUPINGS, *DEVICE_GROUPINGS], metavar="WHAT", help=by)
    add_table_arguments(group)
    _add_program_arguments(group)
    add_file_arguments(parser)


def _add_program_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--process", metavar="PID", help="only this process")
    group.add_argument("--thread", metavar="NAME", help="only threads of this name or id")
    group.add_argument("--subtract-overhead", action="store_true", help="subtract the estimated cost of recording")


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


def print_report(capture: Capture, arguments: argparse.Namespace, stream: TextIO | None = None) -> None:
    """Print the table, then write the files; what cannot be written is told after all others were.

    Where the program's GPU was recorded and no grouping is asked for, its table follows; the files are of the first.
    """
    by = arguments.by or groupings_of(capture)[0]
    if by in DEVICE_GROUPINGS:
        _check_device(capture, by, arguments)
    files, view = named_files(arguments), chosen_view(arguments)
    threads = {"process": _process_id(arguments), "thread": arguments.thread}
    reports = capture_reports(capture, arguments.by, **threads, subtract_overhead=arguments.subtract_overhead)
    for number, (around, usage) in enumerate(reports):
        if number:
            print(file=sys.stdout if stream is None else stream)
        show_usage(around, usage, view, arguments.format, {} if number else files, stream)


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    content = content_of(arguments.capture)
    if content is Content.RESULT:
        return _report_result(arguments)
    if arguments.verbose:
        raise UsageError(f"--verbose is for results; {arguments.capture} is a {content.value}")
    check_report_arguments(arguments)
    capture = open_capture(arguments.capture, content)
    if isinstance(capture, Capture):
        _check_by(arguments, [*GROUPINGS, *DEVICE_GROUPINGS], "program")
        print_report(capture, arguments)
        return 0
    _check_by(arguments, list(NETWORK_GROUPINGS), "network")
    _refuse_program_flags(arguments, f"{arguments.capture} is one of a network")
    print_networks([capture], arguments.by, chosen_view(arguments), arguments.format, named_files(arguments))
    return 0


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


def _check_device(capture: Capture, by: str, arguments: argparse.Namespace) -> None:
    """The tables of a GPU are of all processes and threads; a traced program has them if a GPU was recorded."""
    _refuse_program_flags(arguments, f"{capture.path} is asked for a table of the GPU")
    if capture.recorder == PROFKIT and not capture.has_device:
        told = "; ".join(text for text in capture.warnings if "GPU" in text)
        raise UsageError(
            f"{capture.path} has no table by {by}: {told or 'the program used no GPU while it was recorded'}. "
            f"Without a GPU the table can be by {', '.join(GROUPINGS)}"
        )


def _refuse_program_flags(arguments: argparse.Namespace, reason: str) -> None:
    for name in _OF_PROGRAMS:
        if getattr(arguments, name):
            raise UsageError(f"{_flag(name)} is for captures of programs; {reason}")


def _check_by(arguments: argparse.Namespace, groupings: Sequence[str], what: str) -> None:
    if arguments.by is not None and arguments.by not in groupings:
        raise UsageError(
            f"{arguments.capture} is the capture of a {what}: its table can be by {', '.join(groupings)}, "
            f"not by {arguments.by}"
        )


def build_parser() -> Parser:
    """The parser of this command."""
    width = max(len(column.name) for column in COLUMNS)
    columns = "".join(f"  {column.name:{width}}  {column.help}\n" for column in COLUMNS)
    parser = Parser(
        "profkit report",
        "Show where the time and the memory of a capture went, or a result again.",
        f"columns of a capture:\n{columns}\ncolumns of a result: those that profkit conv --help lists\n\n{_EXAMPLES}",
    )
    parser.usage = "profkit report CAPTURE [flags]"
    parser.add_argument(
        "capture",
        metavar="CAPTURE",
        help="file of profkit trace, network or record, of an operator's --json, of torch.profiler or nsys",
    )
    group = parser.add_argument_group("table")
    by = (
        f"what one row is; of a program or GPU trace {', '.join(GROUPINGS)} (default of a program: name) or of its GPU "
    )
    by += f"{', '.join(DEVICE_GROUPINGS)} (default of a GPU trace: operator); of a network "
    by += f"{', '.join(NETWORK_GROUPINGS)} (default: kind)"
    choices = list(dict.fromkeys([*GROUPINGS, *NETWORK_GROUPINGS, *DEVICE_GROUPINGS]))
    group.add_argument("--by", choices=choices, metavar="WHAT", help=by)
    add_table_arguments(group)
    _add_program_arguments(group)
    group.add_argument("-v", "--verbose", action="store_true", help="list each row of a result that could not run")
    add_file_arguments(parser)
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


if __name__ == "__main__":
    raise SystemExit(main())
