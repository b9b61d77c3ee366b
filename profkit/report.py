"""`python -m profkit.report run.profkit`: a capture file in, its table on the terminal and files out.

A capture is of a traced program, torch.profiler or Nsight Systems (rows are ranges, or operators, layers, kernels,
copies, ... of a GPU), or of a network's run (rows are kinds of operators, layers, ...). The result of an operator's
command is shown as that command printed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from profkit.capture.opening import Content, content_of, open_capture
from profkit.capture.output_files import check_targets
from profkit.cli import guarded
from profkit.commands.arguments import Parser, first_given, made_options
from profkit.commands.opening import add_capture_argument
from profkit.commands.reporting import FORMATS, OF_THREADS, ReportOptions, print_report
from profkit.commands.showing import show_result
from profkit.errors import UsageError
from profkit.measurement.options import OPTIONS, option
from profkit.rendering.usage.columns import usage_columns

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

exit codes: 0 shown, 1 a file cannot be used or written, 2 wrong usage, or a trace that cannot be read, \
5 with --fail-on-loss: records were lost, or a program ran unrecorded"""
_OF_CAPTURES = ("by", "clock", "sort", "top", "fail_on_loss", *OF_THREADS)


@dataclass(frozen=True)
class FileOptions(ReportOptions):
    verbose: bool = option(False, OPTIONS, "list each row of a result that could not run", letter="v")


def _run(words: Sequence[str]) -> int:
    arguments = _build_parser().parse(words)
    options = made_options(FileOptions, arguments)
    content = content_of(arguments.capture)
    if content is Content.RESULT:
        return _report_result(arguments.capture, options)
    if options.verbose:
        raise UsageError(f"--verbose is for results; {arguments.capture} is a {content.value}")
    options.check_table(arguments.capture)
    capture = open_capture(arguments.capture, content)
    print_report(capture, options)
    return options.exit_code(capture)


def _report_result(path: str, options: FileOptions) -> int:
    """The tables that the operator's command printed, of all cells of a sweep."""
    from profkit.measurement.result import read_result
    from profkit.rendering.results.columns import choose_columns

    if options.format != FORMATS[0]:
        raise UsageError(
            f"--format {options.format} divides the time of a run among its operators; {path} is a result, "
            "which has the time of one operator in many implementations: leave --format out"
        )
    wrong = first_given(options, _OF_CAPTURES)
    if wrong:
        raise UsageError(f"{wrong} is for captures; {path} is a result: all its rows are shown, the fastest first")
    choose_columns(options.columns)
    check_targets(options.files.values(), sources=[path])
    show_result(read_result(path), options.columns, options.verbose, options.files)
    return 0


def _build_parser() -> Parser:
    known = usage_columns()
    width = max(len(column.name) for column in known)
    columns = "".join(f"  {column.name:{width}}  {column.help}\n" for column in known)
    epilog = (
        f"columns of a capture:\n{columns}\ncolumns of a result: those that profkit conv --help lists\n\n{_EXAMPLES}"
    )
    parser = Parser(
        "profkit report", "Show where the time and memory of a capture went, or the tables of a result.", epilog
    )
    parser.usage = "profkit report CAPTURE [flags]"
    add_capture_argument(parser)
    parser.add_options(FileOptions)
    return parser


main = partial(guarded, "report", _run)

if __name__ == "__main__":
    raise SystemExit(main())
