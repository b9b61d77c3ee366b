"""`python -m profkit.trace`: runs a program under capture; a capture file, the table of ranges and traces come out."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from profkit.cli import abandon_stdout, guarded, wrapped
from profkit.errors import ProfkitError, UsageError

if TYPE_CHECKING:
    from profkit.capture.environment import RecordingOptions
    from profkit.capture.schema import Capture
    from profkit.commands.arguments import Parser

SLOW_S = 2.0
GRACE_S = 0.2
"""How long processes that outlive the program may take to end before the capture is read without their last moments."""
_FILES = ("json", "csv", "markdown", "chrome", "perfetto", "folded", "folded_bytes", "parquet")
_EPILOG = """\
examples:
  profkit trace train.py --batch 32
  profkit trace --output run.profkit --perfetto run.pftrace -m package.train
  profkit trace --allocations-from 64K --by path --top 20 -- ./server --port 8000

All flags come before the program; everything after it belongs to the program.
exit codes: the program's own, 128 + the signal when one ended it; 2 when the program was not started"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return guarded("trace", trace, argv)


def trace(words: Sequence[str]) -> int:
    """Check everything, run the program, then show and save what was recorded."""
    from profkit.capture.environment import traced_environment
    from profkit.capture.program import find_program, run_program, split_words
    from profkit.capture.target import claim_target

    parser = _build_parser()
    ours, target = split_words(words, parser.takes_word)
    arguments = parser.parse(ours)
    program = find_program(target)
    options = _options(arguments)
    capture = arguments.output or program.default_capture
    _check_files(capture, arguments)
    environment = traced_environment(os.environ, capture, options, _torch_word(arguments))
    replaces = os.path.isfile(capture) and os.path.getsize(capture) > 0
    claim_target(capture)
    code = run_program(program, environment)
    _finish(capture, arguments, replaces)
    return code


def _build_parser() -> Parser:
    from profkit.capture.environment import RecordingOptions
    from profkit.commands.arguments import Parser, typed
    from profkit.export import add_export_arguments
    from profkit.rendering.quantities import parse_bytes
    from profkit.report import add_report_arguments

    parser = Parser("profkit trace", "Run a program and record where its time and memory go.", _EPILOG)
    parser.usage = "profkit trace [flags] SCRIPT | -m MODULE | -- PROGRAM [its own words]"
    group = parser.add_argument_group("what is recorded")
    group.add_argument("--output", metavar="FILE", help="the capture [the program's name with .profkit]")
    group.add_argument(
        "--allocations-from",
        metavar="SIZE",
        type=typed(parse_bytes),
        default=RecordingOptions.allocations_from,
        help="smaller allocations are only counted [1K]",
    )
    group.add_argument("--no-allocations", action="store_true", help="do not record allocations")
    group.add_argument("--usage", action="store_true", help="record page faults and context switches of each range")
    group.add_argument("--no-children", action="store_true", help="do not record child processes")
    group.add_argument("--no-cuda", action="store_true", help="do not record the GPU: kernels, copies, CUDA calls")
    group.add_argument("--no-torch", action="store_true", help="do not record torch's operators as ranges")
    group.add_argument("--record-shapes", action="store_true", help="shapes in the names of torch's operators")
    group.add_argument(
        "--flush-ms",
        metavar="N",
        type=int,
        default=RecordingOptions.flush_ms,
        help="flush interval; a killed program loses at most about this [25]",
    )
    group.add_argument(
        "--buffer",
        metavar="MIB",
        type=int,
        default=RecordingOptions.buffer_mib,
        help="memory for records that wait for the disk [32]",
    )
    group.add_argument("--quiet", action="store_true", help="no table on the terminal; files are written")
    add_report_arguments(parser)
    add_export_arguments(parser)
    return parser


def _options(arguments: argparse.Namespace) -> RecordingOptions:
    from profkit.capture.environment import RecordingOptions

    return RecordingOptions(
        allocations_from=arguments.allocations_from,
        allocations=not arguments.no_allocations,
        usage=arguments.usage,
        children=not arguments.no_children,
        flush_ms=arguments.flush_ms,
        buffer_mib=arguments.buffer,
        cuda=not arguments.no_cuda,
    )


def _torch_word(arguments: argparse.Namespace) -> str:
    if arguments.no_torch:
        return "off"
    return "shapes" if arguments.record_shapes else "on"


def _check_files(capture: str, arguments: argparse.Namespace) -> None:
    """What could only fail after the run is refused before it."""
    from profkit.export import check_export_arguments
    from profkit.rendering.atomic_write import refuse_dash
    from profkit.report import check_report_arguments

    refuse_dash(capture)
    check_report_arguments(arguments)
    check_export_arguments(arguments)
    named = [getattr(arguments, name, None) for name in _FILES]
    places = [os.path.realpath(path) for path in [capture, *named] if path]
    for place in places:
        if places.count(place) > 1:
            raise UsageError(f"two files of one run have the same name: {place}")


def _finish(capture: str, arguments: argparse.Namespace, replaces: bool) -> None:
    """Table and files; whatever fails here is told and leaves the program's exit code alone."""
    try:
        _show_and_save(capture, arguments, replaces)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        _tell(f"profkit trace: {error.strerror or error}; the capture is in {capture}: profkit report {capture}")
        abandon_stdout()
    except KeyboardInterrupt:
        _tell(f"interrupted; the capture is in {capture}: profkit report {capture}")
    except Exception as error:
        _tell(f"profkit trace: {error}" + ("" if isinstance(error, ProfkitError) else f" ({type(error).__name__})"))


def _show_and_save(capture: str, arguments: argparse.Namespace, replaces: bool) -> None:
    from profkit.export import write_exports
    from profkit.report import print_report

    if not os.path.exists(capture):
        raise ProfkitError(
            f"nothing was recorded into {capture}: the program never loaded the tracer "
            "(statically linked, set-uid, or ended before it began)"
        )
    with _told_if_slow(f"reading {capture}"):
        tables = _read_when_ended(capture)
    out = io.StringIO() if arguments.quiet else sys.stdout
    problems = []
    for text, show in (("making the table", print_report), ("writing traces", write_exports)):
        try:
            with _told_if_slow(text):
                show(tables, arguments, out)
        except ProfkitError as error:
            problems.append(str(error))
    print(_where(capture, replaces), file=out)
    if problems:
        raise ProfkitError("\n".join(problems))


def _read_when_ended(capture: str) -> Capture:
    """The capture, read again once what the program left running has ended, or has had the time for it."""
    from profkit.capture.program import still_running
    from profkit.capture.reading import read

    tables = read(capture)
    pids = [process.pid for process in tables.processes if not process.has_ended]
    if not still_running(pids, 0.0):
        return tables
    return read(capture, still_running(pids, GRACE_S))


def _where(capture: str, replaces: bool) -> str:
    """The last line: where the capture is, how large, what to type for more."""
    from profkit.rendering.quantities import bytes_text

    size = bytes_text(os.path.getsize(capture))
    earlier = "replaces an earlier capture; " if replaces else ""
    return f"{capture}  {size}  {earlier}profkit report {shlex.quote(capture)}"


@contextmanager
def _told_if_slow(text: str) -> Iterator[None]:
    """A line on stderr once something takes longer than people wait without a sign."""
    timer = threading.Timer(SLOW_S, _tell, [f"{text} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell(text: str) -> None:
    print(wrapped(text), file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
