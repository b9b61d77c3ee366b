"""`python -m profkit.export run.profkit --perfetto out.pftrace`: a capture file in, files for other programs out.

The GPU traces of torch.profiler and Nsight Systems are taken too, and results, which have tables only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from profkit.cli import guarded
from profkit.commands.arguments import Parser, made_options
from profkit.commands.exporting import ExportFiles, write_exports
from profkit.commands.opening import LossOptions, add_capture_argument, open_any, trouble_lines
from profkit.errors import UsageError
from profkit.measurement.options import OPTIONS, option
from profkit.rendering.terminal import say

_EXAMPLES = """examples:
  profkit export run.profkit --perfetto run.pftrace      open it at ui.perfetto.dev
  profkit export run.profkit --chrome run.json.gz        for chrome://tracing and its relatives
  profkit export run.profkit --folded run.folded         for flamegraph.pl and speedscope
  profkit export run.profkit --parquet run_tables        every table, for pandas, polars and DuckDB
  profkit export network.profkit --perfetto n.pftrace    layers above operators above primitives
  profkit export trace.json.gz --format perfetto         a torch.profiler trace as trace.pftrace
  profkit export trace.json.gz --folded trace.folded     its host code as a flame graph
  profkit export report.sqlite --format chrome           an Nsight Systems export
  profkit export result.json --parquet result_tables     rows and samples of a result

exit codes: 0 written, 1 a file cannot be used or written, 2 wrong usage, or a trace that cannot be read, \
5 with --fail-on-loss: records were lost, or a program ran unrecorded"""
_ENDINGS = {"chrome": ".chrome.json.gz", "perfetto": ".pftrace"}


@dataclass(frozen=True)
class ExportOptions(LossOptions, ExportFiles):
    format: str | None = option(
        None, OPTIONS, "a trace of this format in this folder, named after the capture", choices=list(_ENDINGS)
    )


def _run(words: Sequence[str]) -> int:
    parser = Parser("profkit export", "Write a capture as files that other programs open.", _EXAMPLES)
    parser.usage = "profkit export CAPTURE [flags]"
    add_capture_argument(parser)
    parser.add_options(ExportOptions)
    arguments = parser.parse(words)
    options = _with_named_file(made_options(ExportOptions, arguments), arguments.capture)
    if not options.targets:
        raise UsageError(f"nothing to write: name at least one file\n{_EXAMPLES.rstrip()}")
    options.check_exports(arguments.capture)
    capture = open_any(arguments.capture)
    for line in trouble_lines(capture):
        say(line, sys.stderr)
    write_exports(capture, options)
    return options.exit_code(capture)


def _with_named_file(options: ExportOptions, capture: str) -> ExportOptions:
    """The file of --format: named after the capture, in the folder where the command runs."""
    kind = options.format
    if kind is None:
        return options
    if getattr(options, kind):
        raise UsageError(f"--format {kind} names a file by itself: leave out --{kind} or --format")
    name = Path(capture).name
    for ending in (".gz", ".json", ".sqlite", ".profkit"):
        name = name.removesuffix(ending)
    named: dict[str, Any] = {kind: name + _ENDINGS[kind]}
    return replace(options, **named)


main = partial(guarded, "export", _run)

if __name__ == "__main__":
    raise SystemExit(main())
