"""`python -m profkit.export run.profkit --perfetto out.pftrace`: a capture file in, files for other programs out.

The GPU traces of torch.profiler and Nsight Systems are taken too, and results, which have tables only.

profkit.trace offers the same flags: it calls add_export_arguments, check_export_arguments and write_exports.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from profkit.cli import guarded
from profkit.errors import CaptureError, ProfkitError, UsageError
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.capture.schema import Capture
    from profkit.commands.arguments import Parser
    from profkit.commands.opening import Opened
    from profkit.rendering.traces.content import TraceContent

DEFAULT_FLOWS = 1000
_EXAMPLES = """examples:
  profkit export run.profkit --perfetto run.pftrace      open it at ui.perfetto.dev
  profkit export run.profkit --chrome run.json.gz        for chrome://tracing and its relatives
  profkit export run.profkit --folded run.folded         for flamegraph.pl and speedscope
  profkit export run.profkit --parquet run_tables        every table, for pandas, polars and DuckDB
  profkit export network.profkit --perfetto n.pftrace    layers above operators above primitives
  profkit export trace.json.gz --format perfetto         a torch.profiler trace as trace.pftrace
  profkit export trace.json.gz --folded trace.folded     its host code as a flame graph
  profkit export report.sqlite --format chrome           an Nsight Systems export as report.chrome.json.gz
  profkit export result.json --parquet result_tables     rows, samples and environment of a measurement

exit codes: 0 written, 1 a file cannot be used or written, 2 wrong usage, or a trace that cannot be read,
  5 with --fail-on-loss: records were lost, or a program ran unrecorded"""
_HOW_TO_OPEN = {
    "chrome": "chrome://tracing or ui.perfetto.dev",
    "perfetto": "ui.perfetto.dev",
    "folded": "speedscope.app, or flamegraph.pl --countname=ns",
    "folded_bytes": "speedscope.app, or flamegraph.pl --countname=bytes",
    "parquet": "pandas.read_parquet, polars, DuckDB",
}
_ENDINGS = {"chrome": ".chrome.json.gz", "perfetto": ".pftrace"}


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that name files to write; profkit.trace has them too."""
    group = parser.add_argument_group("files for other programs")
    group.add_argument("--chrome", metavar="FILE", help="trace events as JSON; FILE.json.gz is compressed")
    group.add_argument("--perfetto", metavar="FILE", help="Perfetto's own format, smaller and faster; .gz as well")
    group.add_argument("--folded", metavar="FILE", help="own nanoseconds per stack of ranges, for flame graphs")
    group.add_argument("--folded-bytes", metavar="FILE", help="the same with allocated bytes")
    group.add_argument("--parquet", metavar="DIR", help="every table of the capture as DIR/<table>.parquet")
    group.add_argument(
        "--flows",
        metavar="N",
        nargs="?",
        const=str(DEFAULT_FLOWS),
        help=f"arrows from allocation to release in both traces, for the N largest [{DEFAULT_FLOWS} if no N]",
    )


def check_export_arguments(arguments: argparse.Namespace) -> None:
    """Raise UsageError for what cannot be written: before a long run, not after it."""
    from profkit.rendering.atomic_write import check_targets

    targets = _targets(arguments)
    files = [path for kind, path in targets.items() if kind != "parquet"]
    check_targets(files, folders=[targets.get("parquet")])
    if _flows(arguments) and not {"chrome", "perfetto"} & targets.keys():
        raise UsageError("--flows adds arrows to a trace: add --perfetto FILE or --chrome FILE")


def write_exports(capture: Opened, arguments: argparse.Namespace, stream: TextIO | None = None) -> None:
    """Write every file, and print what was written; what cannot be written is told after all others were."""
    from profkit.rendering.atomic_write import is_stdout, is_stream

    out = sys.stdout if stream is None else stream
    if out is sys.stdout and any(map(is_stdout, _targets(arguments).values())):
        # Standard output is one of the files: nothing else belongs into it.
        out = sys.stderr
    exports = _Exports(capture, _flows(arguments))
    exports.check(_targets(arguments))
    problems = []
    for kind, path in _targets(arguments).items():
        try:
            exports.write(kind, path)
        except ProfkitError as error:
            problems.append(error)
            continue
        if kind == "parquet" or not is_stream(path):
            say(f"{path}  {_size(path)}  open with {_HOW_TO_OPEN[kind]}", out)
    if problems:
        raise ProfkitError("\n".join(str(problem) for problem in problems))


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    _name_file(arguments)
    if not _targets(arguments):
        raise UsageError(f"nothing to write: name at least one file\n{_EXAMPLES.rstrip()}")
    check_export_arguments(arguments)
    for path in _targets(arguments).values():
        if os.path.realpath(path) == os.path.realpath(arguments.capture):
            raise UsageError(f"{path} is the capture itself: give the export a file of its own")
    from profkit.commands.opening import loss_code, open_any, trouble_lines

    capture = open_any(arguments.capture)
    for line in trouble_lines(capture):
        say(line, sys.stderr)
    write_exports(capture, arguments)
    return loss_code(capture, arguments)


def _name_file(arguments: argparse.Namespace) -> None:
    """Of --format: named after the capture, in the folder where the command runs."""
    kind = arguments.format
    if kind is None:
        return
    if getattr(arguments, kind):
        raise UsageError(f"--format {kind} names a file by itself: leave out --{kind} or --format")
    name = Path(arguments.capture).name
    for ending in (".gz", ".json", ".sqlite", ".profkit"):
        name = name.removesuffix(ending)
    setattr(arguments, kind, name + _ENDINGS[kind])


def build_parser() -> Parser:
    """The parser of this command."""
    from profkit.commands.arguments import Parser
    from profkit.commands.opening import add_capture_argument, add_loss_argument

    parser = Parser("profkit export", "Write a capture as files that other programs open.", _EXAMPLES)
    parser.usage = "profkit export CAPTURE [flags]"
    add_capture_argument(parser)
    parser.add_argument(
        "--format", choices=list(_ENDINGS), help="a trace of this format in this folder, named after the capture"
    )
    add_export_arguments(parser)
    add_loss_argument(parser)
    return parser


class _Exports:
    """Writes files of one capture, run or result; both traces share their content."""

    def __init__(self, opened: Opened, flows: int) -> None:
        self._opened = opened
        self._flows = flows

    def check(self, kinds: Iterable[str]) -> None:
        """Raise UsageError for what the file cannot give: results have no timeline, other recorders no allocations."""
        from profkit.measurement.result import Result

        for kind in kinds if isinstance(self._opened, Result) else ():
            if kind != "parquet":
                flag = f"--{kind.replace('_', '-')}"
                raise UsageError(f"{flag} needs a timeline, and a result has none: use --parquet DIR")
        if self._flows and not (len(self._capture.allocations) or self._capture.ranges.has("source")):
            raise UsageError("--flows draws arrows between allocations of a traced program: this capture has none")

    def write(self, kind: str, path: str) -> None:
        from profkit.query import write_parquet
        from profkit.rendering.traces.files import write_chrome, write_perfetto
        from profkit.rendering.traces.folded import write_folded_bytes, write_folded_time

        writers: dict[str, Callable[[], object]] = {
            "chrome": lambda: write_chrome(self._content, path),
            "perfetto": lambda: write_perfetto(self._content, path),
            "folded": lambda: write_folded_time(self._recorded("time"), path),
            "folded_bytes": lambda: write_folded_bytes(self._recorded("memory"), path),
            "parquet": lambda: write_parquet(self._opened, path),
        }
        writers[kind]()

    @cached_property
    def _capture(self) -> Capture:
        """Everything that was recorded; of a run all passes."""
        from profkit.capture.run import Run
        from profkit.capture.schema import Capture

        whole = self._opened.whole() if isinstance(self._opened, Run) else self._opened
        assert isinstance(whole, Capture)  # a result is written as tables only
        return whole

    @cached_property
    def _content(self) -> TraceContent:
        from profkit.capture.run import Run
        from profkit.rendering.traces.about import run_about
        from profkit.rendering.traces.captures import trace_content

        about = run_about(self._opened) if isinstance(self._opened, Run) else ()
        return trace_content(self._capture, self._flows, about)

    def _recorded(self, measure: str) -> Capture:
        """What is good for a measure: of a run one pass, else everything."""
        from profkit.capture.run import Run

        run = self._opened
        if not isinstance(run, Run):
            return self._capture
        found = run.capture(measure)
        if found is None:
            why = f"{run.status}, {run.reason}" if run.status != "ok" else "there is nothing to fold"
            raise CaptureError(f"{run.framework} has no recording of {measure}: {why}")
        return found


def _targets(arguments: argparse.Namespace) -> dict[str, str]:
    return {kind: getattr(arguments, kind) for kind in _HOW_TO_OPEN if getattr(arguments, kind)}


def _flows(arguments: argparse.Namespace) -> int:
    if arguments.flows is None:
        return 0
    if not str(arguments.flows).isdecimal() or int(arguments.flows) < 1:
        raise UsageError(f"--flows takes a number of arrows from 1 on, got {arguments.flows!r}")
    return int(arguments.flows)


def _size(path: str) -> str:
    from profkit.rendering.quantities import bytes_text

    target = Path(path)
    files = sorted(target.glob("*.parquet")) if target.is_dir() else [target]
    return bytes_text(sum(file.stat().st_size for file in files))


main = partial(guarded, "export", _run)

if __name__ == "__main__":
    raise SystemExit(main())
