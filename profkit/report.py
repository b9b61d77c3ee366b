"""`python -m profkit.report run.profkit`: a capture file in, its table on the terminal and files out.

A capture is of a traced program (rows are ranges), of a network's run (rows are kinds of operators, layers, ...) or
the GPU trace of torch.profiler or Nsight Systems (rows are operators, layers, kernels, copies, ...).
profkit.trace offers the same flags: it calls add_report_arguments, check_report_arguments and print_report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TextIO

from profkit._arguments import Parser, chosen_top
from profkit._network_report import print_networks
from profkit._showing import printed, written
from profkit._sweep import split_list
from profkit.attribution.attribute import usage_by
from profkit.attribution.device_groups import GROUPINGS as DEVICE_GROUPINGS
from profkit.attribution.grouping import GROUPINGS
from profkit.attribution.network_usage import GROUPINGS as NETWORK_GROUPINGS
from profkit.attribution.usage import Usage
from profkit.capture.device_trace import DeviceTrace
from profkit.capture.opening import is_device_trace, is_network_capture
from profkit.capture.tables import Capture
from profkit.cli import guarded
from profkit.errors import ProfkitError, UsageError
from profkit.rendering.table import encodable
from profkit.rendering.usage_columns import COLUMNS, NAME, find_usage_column
from profkit.rendering.usage_content import DEFAULT_TOP, View, loss_lines, no_range_lines, warning_lines
from profkit.rendering.usage_files import write_usage_csv, write_usage_json, write_usage_markdown
from profkit.rendering.usage_text import print_usage
from profkit.rendering.usage_tfprof import render_tfprof
from profkit.rendering.whole_file import check_targets

FORMATS = ("table", "tfprof")
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
"""
_OF_PROGRAMS = ("process", "thread", "subtract_overhead")
_OF_DEVICES_ONLY = frozenset(DEVICE_GROUPINGS) - frozenset(GROUPINGS)


def main(argv: Sequence[str] | None = None) -> int:
    """Read a capture, print its table, write the files that were asked for."""
    return guarded("report", _run, argv)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say what the table of a traced program shows; profkit.trace has them too."""
    group = parser.add_argument_group("table")
    by = f"what one row is: {', '.join(GROUPINGS)} (default: name), or of the GPU {', '.join(DEVICE_GROUPINGS)}"
    choices = [*GROUPINGS, *sorted(_OF_DEVICES_ONLY)]
    group.add_argument("--by", choices=choices, metavar="WHAT", help=by)
    add_table_arguments(group)
    _add_program_arguments(group)
    add_file_arguments(parser)


def _add_program_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--process", metavar="PID", help="only this process")
    group.add_argument("--thread", metavar="NAME", help="only threads of this name or id")
    group.add_argument("--subtract-overhead", action="store_true", help="take out the estimated cost of recording")


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

    Where a GPU was recorded and no grouping is asked for, its table follows; the files are of the first.
    """
    if arguments.by in _OF_DEVICES_ONLY:
        _refuse_program_flags(capture, arguments)
        return _print_device(_device_of(capture, arguments.by), arguments, named_files(arguments), stream)
    _print_program(capture, arguments, stream)
    if arguments.by is None and capture.device is not None and len(capture.device.activities["kind"]):
        print(file=sys.stdout if stream is None else stream)
        _print_device(capture.device, arguments, {}, stream)
    return None


def _print_program(capture: Capture, arguments: argparse.Namespace, stream: TextIO | None) -> None:
    view = chosen_view(arguments)
    usage = usage_by(
        capture,
        arguments.by or "name",
        process=_process_id(arguments),
        thread=arguments.thread,
        subtract_overhead=arguments.subtract_overhead,
    )
    out = sys.stdout if stream is None else stream
    problems = printed(lambda: _print(capture, usage, view, arguments.format, out), out)
    writers = _writers(capture, usage, view)
    problems += written(partial(writers[kind], path) for kind, path in named_files(arguments).items())
    if problems:
        raise ProfkitError("\n".join(problems))


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    check_report_arguments(arguments)
    if is_network_capture(arguments.capture):
        _check_by(arguments, list(NETWORK_GROUPINGS), "network")
        for name in _OF_PROGRAMS:
            if getattr(arguments, name):
                flag = f"--{name.replace('_', '-')}"
                raise UsageError(f"{flag} is for captures of programs; {arguments.capture} is one of a network")
        from profkit.capture.network_capture import load_network_capture

        print_networks(
            [load_network_capture(arguments.capture)],
            arguments.by,
            chosen_view(arguments),
            arguments.format,
            named_files(arguments),
        )
        return 0
    from profkit.capture.opening import open_device_trace
    from profkit.capture.reading import read

    if is_device_trace(arguments.capture):
        _check_by(arguments, list(DEVICE_GROUPINGS), "GPU trace")
        trace = open_device_trace(arguments.capture)
        _refuse_program_flags(trace, arguments)
        _print_device(trace, arguments, named_files(arguments))
        return 0
    _check_by(arguments, [*GROUPINGS, *DEVICE_GROUPINGS], "program")
    print_report(read(arguments.capture), arguments)
    return 0


def _device_of(capture: Capture, by: str) -> DeviceTrace:
    if capture.device is not None:
        return capture.device
    told = [text for text in capture.warnings if "GPU" in text]
    raise UsageError(
        f"{capture.path} has no table by {by}: {'; '.join(told) or 'the program used no GPU while it was recorded'}. "
        f"Without a GPU the table can be by {', '.join(GROUPINGS)}"
    )


def _print_device(
    trace: DeviceTrace, arguments: argparse.Namespace, files: Mapping[str, str], stream: TextIO | None = None
) -> None:
    from profkit._device_report import print_device_trace

    print_device_trace(trace, arguments.by or "operator", chosen_view(arguments), arguments.format, files, stream)


def _refuse_program_flags(trace: Capture | DeviceTrace, arguments: argparse.Namespace) -> None:
    for name in _OF_PROGRAMS:
        if getattr(arguments, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} is for captures of programs; {trace.path} is asked for a table of the GPU")


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
        "profkit report", "Show where the time and the memory of a capture went.", f"columns:\n{columns}\n{_EXAMPLES}"
    )
    parser.usage = "profkit report CAPTURE [flags]"
    parser.add_argument(
        "capture", metavar="CAPTURE", help="file that profkit trace, network or record, or torch.profiler or nsys left"
    )
    group = parser.add_argument_group("table")
    by = f"what one row is; of a program {', '.join(GROUPINGS)} (default: name); of a network "
    by += f"{', '.join(NETWORK_GROUPINGS)} (default: kind); of a GPU trace "
    by += f"{', '.join(DEVICE_GROUPINGS)} (default: operator)"
    choices = list(dict.fromkeys([*GROUPINGS, *NETWORK_GROUPINGS, *DEVICE_GROUPINGS]))
    group.add_argument("--by", choices=choices, metavar="WHAT", help=by)
    add_table_arguments(group)
    _add_program_arguments(group)
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


def _print(capture: Capture, usage: Usage, view: View, layout: str, out: TextIO) -> None:
    if layout == "tfprof":
        lines = [*loss_lines(capture), *warning_lines(capture), *no_range_lines(capture, usage)]
        out.write(encodable("".join(f"{line}\n" for line in lines) + render_tfprof(usage, view), out))
    else:
        print_usage(capture, usage, view, out)


def _writers(capture: Capture, usage: Usage, view: View) -> dict[str, Callable[[str], None]]:
    return {
        "json": lambda path: write_usage_json(usage, path),
        "csv": lambda path: write_usage_csv(usage, path),
        "markdown": lambda path: write_usage_markdown(capture, usage, view, path),
    }


if __name__ == "__main__":
    raise SystemExit(main())
