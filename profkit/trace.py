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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from profkit.capture.environment import RecordingOptions
from profkit.cli import abandon_stdout, guarded, tell
from profkit.commands.opening import LOST, has_loss
from profkit.errors import ProfkitError, UsageError
from profkit.measurement.options import BYTES, WHOLE, option
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.capture.schema import Capture
    from profkit.commands.arguments import Parser

RECORDED = "what is recorded"
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
exit codes: the program's own, 128 + the signal when one ended it; 2 when the program was not started;
  5 with --fail-on-loss, when the program ended with 0 and records were lost or a program ran unrecorded"""


@dataclass(frozen=True)
class TraceOptions(RecordingOptions):
    """What is recorded, as flags."""

    allocations_from: int = option(
        RecordingOptions.allocations_from, RECORDED, "smaller allocations are only counted", form=BYTES, shown="1K"
    )
    allocations: bool = option(True, RECORDED, "do not record allocations")
    usage: bool = option(False, RECORDED, "record page faults and context switches of each range")
    children: bool = option(True, RECORDED, "do not record child processes")
    flush_ms: int = option(
        RecordingOptions.flush_ms,
        RECORDED,
        "flush interval; a killed program loses at most about this",
        form=WHOLE,
    )
    buffer_mib: int = option(
        RecordingOptions.buffer_mib, RECORDED, "MiB for records that wait for the disk", form=WHOLE, flag="buffer"
    )
    cuda: bool = option(True, RECORDED, "do not record the GPU: kernels, copies, CUDA calls")
    torch: bool = option(True, RECORDED, "do not record torch's operators as ranges")
    record_shapes: bool = option(False, RECORDED, "shapes in the names of torch's operators")
    output: str | None = option(None, RECORDED, "the capture", shown="the program's name with .profkit")
    quiet: bool = option(False, RECORDED, "no table on the terminal; files are written")

    @property
    def torch_word(self) -> str:
        """As traced_environment takes it."""
        return "off" if not self.torch else "shapes" if self.record_shapes else "on"


def trace(words: Sequence[str]) -> int:
    """Check everything, run the program, then show and save what was recorded."""
    from profkit.capture.environment import traced_environment
    from profkit.capture.program import find_program, run_program, split_words
    from profkit.capture.target import claim_target
    from profkit.commands.arguments import made_options

    parser = _build_parser()
    ours, target = split_words(words, parser.takes_word)
    arguments = parser.parse(ours)
    program = find_program(target)
    options = made_options(TraceOptions, arguments)
    capture = options.output or program.default_capture
    _check_files(capture, arguments)
    environment = traced_environment(os.environ, capture, options, options.torch_word)
    replaces = os.path.isfile(capture) and os.path.getsize(capture) > 0
    claim_target(capture)
    code = run_program(program, environment)
    is_whole = _finish(capture, arguments, replaces)
    return LOST if arguments.fail_on_loss and not is_whole and not code else code


def _build_parser() -> Parser:
    from profkit.commands.arguments import Parser
    from profkit.export import add_export_arguments
    from profkit.report import add_report_arguments

    parser = Parser("profkit trace", "Run a program and record where its time and memory go.", _EPILOG)
    parser.usage = "profkit trace [flags] SCRIPT | -m MODULE | -- PROGRAM [its own words]"
    parser.add_options(TraceOptions)
    add_report_arguments(parser)
    add_export_arguments(parser)
    return parser


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


def _finish(capture: str, arguments: argparse.Namespace, replaces: bool) -> bool:
    """Table and files; whatever fails here is told. Whether the capture is known to have everything."""
    is_whole = False
    try:
        tables = _read_when_written(capture)
        is_whole = not has_loss(tables)
        _show_and_save(tables, capture, arguments, replaces)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        tell(f"profkit trace: {error.strerror or error}; the capture is in {capture}: profkit report {capture}")
        abandon_stdout()
    except KeyboardInterrupt:
        tell(f"interrupted; the capture is in {capture}: profkit report {capture}")
    except Exception as error:
        tell(f"profkit trace: {error}" + ("" if isinstance(error, ProfkitError) else f" ({type(error).__name__})"))
    return is_whole


def _read_when_written(capture: str) -> Capture:
    if not os.path.exists(capture):
        raise ProfkitError(
            f"nothing was recorded into {capture}: the program never loaded the tracer "
            "(statically linked, set-uid, or ended before it began)"
        )
    with _told_if_slow(f"reading {capture}"):
        return _read_when_ended(capture)


def _show_and_save(tables: Capture, capture: str, arguments: argparse.Namespace, replaces: bool) -> None:
    from profkit.export import write_exports
    from profkit.report import print_report

    out = io.StringIO() if arguments.quiet else sys.stdout
    problems = []
    for text, show in (("making the table", print_report), ("writing traces", write_exports)):
        try:
            with _told_if_slow(text):
                show(tables, arguments, out)
        except ProfkitError as error:
            problems.append(str(error))
    say(_where(capture, replaces), out)
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
    timer = threading.Timer(SLOW_S, tell, [f"{text} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


main = partial(guarded, "trace", trace)

if __name__ == "__main__":
    raise SystemExit(main())
