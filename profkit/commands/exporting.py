"""The files that `profkit export` and `profkit trace` write for other programs: their flags, and writing them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TextIO

from profkit.capture.output_files import check_targets, is_stdout, is_stream
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.commands.arguments import DEFAULT_FLOWS, FLOWS
from profkit.commands.opening import Opened
from profkit.commands.showing import refuse, written
from profkit.errors import UsageError
from profkit.measurement.options import FOLDER, option
from profkit.measurement.result import Result
from profkit.rendering.quantities import bytes_text
from profkit.rendering.sql.tables import write_parquet
from profkit.rendering.terminal import say
from profkit.rendering.traces.captures import run_about, trace_content
from profkit.rendering.traces.content import TraceContent
from profkit.rendering.traces.files import write_chrome, write_perfetto
from profkit.rendering.traces.folded import write_folded_bytes, write_folded_time

FILES = "files for other programs"
_HOW_TO_OPEN = {
    "chrome": "chrome://tracing or ui.perfetto.dev",
    "perfetto": "ui.perfetto.dev",
    "folded": "speedscope.app, or flamegraph.pl --countname=ns",
    "folded_bytes": "speedscope.app, or flamegraph.pl --countname=bytes",
    "parquet": "pandas.read_parquet, polars, DuckDB",
}
_FOLDED = {"folded": ("time", write_folded_time), "folded_bytes": ("memory", write_folded_bytes)}
_TRACES = {"chrome": write_chrome, "perfetto": write_perfetto}


@dataclass(frozen=True)
class ExportFiles:
    """Flags that name the files to write."""

    chrome: str | None = option(None, FILES, "trace events as JSON; FILE.json.gz is compressed")
    perfetto: str | None = option(None, FILES, "Perfetto's own format, smaller and faster; .gz as well")
    folded: str | None = option(None, FILES, "own nanoseconds per stack of ranges, for flame graphs")
    folded_bytes: str | None = option(None, FILES, "the same with allocated bytes", flag="folded_bytes")
    parquet: str | None = option(None, FILES, "every table of the capture as FOLDER/<table>.parquet", form=FOLDER)
    flows: int | None = option(
        None,
        FILES,
        "arrows from allocation to release in both traces, for the N largest",
        form=FLOWS,
        shown=f"{DEFAULT_FLOWS} if no N",
    )

    @property
    def targets(self) -> dict[str, str]:
        """By format."""
        return {kind: path for kind in _HOW_TO_OPEN if (path := getattr(self, kind))}

    def check_exports(self, source: str | None = None) -> None:
        """Raise UsageError for what cannot be written: before a long run, not after it."""
        check_targets([path for kind, path in self.targets.items() if kind != "parquet"], [self.parquet], [source])
        if self.flows and not (self.chrome or self.perfetto):
            raise UsageError("--flows adds arrows to a trace: add --perfetto FILE or --chrome FILE")


def write_exports(capture: Opened, options: ExportFiles, stream: TextIO | None = None) -> None:
    """Write every file, and print what was written; files that cannot be written are reported at the end."""
    out = sys.stdout if stream is None else stream
    if out is sys.stdout and any(map(is_stdout, options.targets.values())):
        # Standard output is one of the files: nothing else may be written there.
        out = sys.stderr
    exports = _Exports(capture, options.flows or 0)
    exports.check(options.targets)

    def write(kind: str, path: str) -> None:
        exports.write(kind, path)
        if kind == "parquet" or not is_stream(path):
            say(f"{path}  {_size(path)}  open with {_HOW_TO_OPEN[kind]}", out)

    refuse(written(partial(write, *each) for each in options.targets.items()))


class _Exports:
    """Writes files of one capture, run or result; both traces share their content."""

    def __init__(self, opened: Opened, flows: int) -> None:
        self._opened = opened
        self._flows = flows

    def check(self, kinds: Iterable[str]) -> None:
        """Raise UsageError for what the file cannot give: results have no timeline, other recorders no allocations."""
        for kind in kinds if isinstance(self._opened, Result) else ():
            if kind != "parquet":
                flag = f"--{kind.replace('_', '-')}"
                raise UsageError(f"{flag} needs a timeline, and a result has none: use --parquet DIR")
        if self._flows and not (len(self._capture.allocations) or self._capture.ranges.has("source")):
            raise UsageError("--flows draws arrows between allocations of a traced program: this capture has none")

    def write(self, kind: str, path: str) -> None:
        if kind == "parquet":
            write_parquet(self._opened, path)
        elif kind in _FOLDED:
            measure, write = _FOLDED[kind]
            write(self._recorded(measure), path)
        else:
            _TRACES[kind](self._content, path)

    @cached_property
    def _capture(self) -> Capture:
        """Everything that was recorded; of a run all passes."""
        whole = self._opened.whole() if isinstance(self._opened, Run) else self._opened
        assert isinstance(whole, Capture)  # a result is written as tables only
        return whole

    @cached_property
    def _content(self) -> TraceContent:
        about = run_about(self._opened) if isinstance(self._opened, Run) else ()
        return trace_content(self._capture, self._flows, about)

    def _recorded(self, measure: str) -> Capture:
        """What is good for a measure: of a run one pass, else everything."""
        return self._opened.recorded(measure) if isinstance(self._opened, Run) else self._capture


def _size(path: str) -> str:
    target = Path(path)
    files = sorted(target.glob("*.parquet")) if target.is_dir() else [target]
    return bytes_text(sum(file.stat().st_size for file in files))
