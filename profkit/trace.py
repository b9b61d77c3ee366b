"""`python -m profkit.trace`: runs a program under capture; a capture file, the table of ranges and traces come out."""

from __future__ import annotations

import io
import os
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from profkit.capture.environment import RecordingOptions, traced_environment
from profkit.capture.output_files import check_targets, claim_target
from profkit.capture.program import find_program, run_program, split_words, still_running
from profkit.capture.reading import read
from profkit.capture.schema import Capture
from profkit.cli import guarded
from profkit.commands.arguments import Parser, made_options
from profkit.commands.exporting import ExportFiles, write_exports
from profkit.commands.opening import LOST, has_loss
from profkit.commands.reporting import ReportOptions, print_report
from profkit.commands.showing import refuse, written
from profkit.errors import ProfkitError
from profkit.measurement.options import BYTES, WHOLE, option
from profkit.rendering.quantities import bytes_text
from profkit.rendering.terminal import abandon_stdout, say, tell

RECORDED = "what is recorded"
SLOW_S = 2.0
GRACE_S = 0.2
"""How long to wait for processes that outlive the program before the capture is read."""
_EPILOG = """\
examples:
  profkit trace train.py --batch 32
  profkit trace --output run.profkit --perfetto run.pftrace -m package.train
  profkit trace --allocations-from 64K --by path --top 20 -- ./server --port 8000

All flags come before the program; everything after it belongs to the program.
exit codes: the program's own, or 128 + the signal that ended it; 2 the program was not started; \
5 with --fail-on-loss: the program returned 0, but records were lost or a program ran unrecorded"""


@dataclass(frozen=True)
class TraceOptions(ReportOptions, ExportFiles, RecordingOptions):
    allocations_from: int = option(
        RecordingOptions.allocations_from, RECORDED, "only count smaller allocations", form=BYTES, shown="1K"
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
        RecordingOptions.buffer_mib,
        RECORDED,
        "MiB of memory for records that wait for the disk",
        form=WHOLE,
        flag="buffer",
    )
    cuda: bool = option(True, RECORDED, "do not record the GPU: kernels, copies, CUDA calls")
    torch: bool = option(True, RECORDED, "do not record torch's operators as ranges")
    record_shapes: bool = option(False, RECORDED, "add input shapes to the names of torch's operators")
    output: str | None = option(None, RECORDED, "file of the capture", shown="the program's name with .profkit")
    quiet: bool = option(False, RECORDED, "do not print the table; files are still written")


def _run(words: Sequence[str]) -> int:
    """Check everything, run the program, then show and save what was recorded."""
    parser = _build_parser()
    flags, program_words = split_words(words, parser.takes_word)
    arguments = parser.parse(flags)
    program = find_program(program_words)
    options = made_options(TraceOptions, arguments)
    path = options.output or program.default_capture
    # What could only fail after the run is refused before it; files that the command names are not overwritten.
    options.check_table()
    options.check_exports()
    targets = options.files | options.targets
    folder = targets.pop("parquet", None)
    check_targets([path, *targets.values()], folders=[folder], sources=program.command)
    torch = "off" if not options.torch else "shapes" if options.record_shapes else "on"
    environment = traced_environment(os.environ, path, options, torch)
    replaces = os.path.isfile(path) and os.path.getsize(path) > 0
    claim_target(path)
    code = run_program(program, environment)
    is_whole = _finish(path, options, replaces)
    return LOST if options.fail_on_loss and not is_whole and not code else code


def _build_parser() -> Parser:
    parser = Parser("profkit trace", "Run a program and record where its time and memory go.", _EPILOG)
    parser.usage = "profkit trace [flags] SCRIPT | -m MODULE | -- PROGRAM [its own arguments]"
    parser.add_options(TraceOptions)
    return parser


def _finish(path: str, options: TraceOptions, replaces: bool) -> bool:
    """Print the table and write the files, reporting every failure; returns whether the capture is complete."""
    is_whole = False
    try:
        capture = _read_when_written(path)
        is_whole = not has_loss(capture)
        _show_and_save(capture, path, options, replaces)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()
    except OSError as error:
        tell(f"profkit trace: {error.strerror or error}; the capture is in {path}: profkit report {path}")
        abandon_stdout()
    except KeyboardInterrupt:
        tell(f"interrupted; the capture is in {path}: profkit report {path}")
    except Exception as error:
        tell(f"profkit trace: {error}" + ("" if isinstance(error, ProfkitError) else f" ({type(error).__name__})"))
    return is_whole


def _read_when_written(path: str) -> Capture:
    if not os.path.exists(path):
        raise ProfkitError(
            f"nothing was recorded into {path}: the program never loaded the tracer "
            "(statically linked, set-uid, or ended before it began)"
        )
    with _message_if_slow(f"reading {path}"):
        capture = read(path)
        pids = [process.pid for process in capture.processes if not process.has_ended]
        # Read again once what the program left running has ended, or has had the time for it.
        return read(path, still_running(pids, GRACE_S)) if still_running(pids, 0.0) else capture


def _show_and_save(capture: Capture, path: str, options: TraceOptions, replaces: bool) -> None:
    out = io.StringIO() if options.quiet else sys.stdout

    def make(text: str, show: Callable[..., None]) -> None:
        with _message_if_slow(text):
            show(capture, options, out)

    problems = written(
        [partial(make, "making the table", print_report), partial(make, "writing traces", write_exports)]
    )
    # The last line: where the capture is, how large, what to type for more.
    earlier = "replaces an earlier capture; " if replaces else ""
    say(f"{path}  {bytes_text(os.path.getsize(path))}  {earlier}profkit report {shlex.quote(path)}", out)
    refuse(problems)


@contextmanager
def _message_if_slow(text: str) -> Iterator[None]:
    """A line on stderr when something takes longer than SLOW_S."""
    timer = threading.Timer(SLOW_S, tell, [f"{text} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


main = partial(guarded, "trace", _run)

if __name__ == "__main__":
    raise SystemExit(main())
