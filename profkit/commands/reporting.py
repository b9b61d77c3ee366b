"""The table of usage that `profkit report`, `profkit trace` and `profkit network` show: its flags, and printing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from profkit.attribution.account import CLOCKS, DEVICES, STEPS, THREADS
from profkit.attribution.grouping import GROUPINGS, choose_grouping, groupings_on
from profkit.attribution.passes import main_capture
from profkit.attribution.usage import NAME
from profkit.capture.output_files import check_targets
from profkit.capture.run import Run
from profkit.capture.schema import Capture
from profkit.commands.arguments import KIND, PROCESS, TOP, WORD, first_given
from profkit.commands.opening import LossOptions
from profkit.commands.showing import TFPROF, show_usage
from profkit.errors import UsageError
from profkit.measurement.options import COLUMNS, option
from profkit.rendering.usage.columns import find_usage_column
from profkit.rendering.usage.content import DEFAULT_TOP, View

TABLE, FILES_OF_TABLE = "table", "files of the table (all rows; in Markdown those printed)"
FORMATS = ("table", TFPROF)
OF_THREADS = ("process", "thread", "subtract_overhead")
_CLOCKS = {THREADS: "programs", STEPS: "steps of networks", DEVICES: "GPUs"}
_BY = "; ".join(f"{_CLOCKS[clock]}: {', '.join(groupings_on(clock))}" for clock in CLOCKS)


@dataclass(frozen=True)
class UsageTableOptions:
    """Flags of every table of usage."""

    by: str | None = option(
        None, TABLE, f"what one row is; {_BY}", form=KIND, choices=list(GROUPINGS), shown="the first"
    )
    columns: Sequence[str] | None = option(
        None, TABLE, "columns to show; +NAME adds to the default, all shows all", form=COLUMNS
    )
    sort: str | None = option(
        None, TABLE, "column that orders the rows", form=WORD, shown="own time; by path: inclusive"
    )
    top: int | None = option(DEFAULT_TOP, TABLE, "rows to print, or all", form=TOP)
    format: str = option(FORMATS[0], TABLE, "tfprof: the layout of TensorFlow's op profile", choices=FORMATS)
    json: str | None = option(None, FILES_OF_TABLE, "the numbers, schema profkit.usage/1")
    csv: str | None = option(None, FILES_OF_TABLE, "one line per row")
    markdown: str | None = option(None, FILES_OF_TABLE, "the table for an issue or a README")

    @property
    def view(self) -> View:
        return View(self.columns, self.sort, self.top)

    @property
    def files(self) -> dict[str, str]:
        """By format."""
        return {name: path for name in ("json", "csv", "markdown") if (path := getattr(self, name))}

    def check_table(self, source: str | None = None) -> None:
        """Raise UsageError for whatever can be wrong without looking at a capture: before a long run, not after it."""
        for name in self.columns or ():
            if name.lstrip("+") not in (NAME, "all"):
                find_usage_column(name.lstrip("+"))
        if self.sort not in (None, NAME):
            find_usage_column(str(self.sort))
        check_targets(self.files.values(), sources=[source])


@dataclass(frozen=True)
class ReportOptions(LossOptions, UsageTableOptions):
    """Flags of `profkit report` and `profkit trace`."""

    clock: str | None = option(
        None, TABLE, "the clock to divide, if several have the grouping", choices=CLOCKS, shown="the first"
    )
    process: int | None = option(None, TABLE, "only this process", form=PROCESS)
    thread: str | None = option(None, TABLE, "only threads of this name or id", form=WORD)
    subtract_overhead: bool = option(False, TABLE, "subtract the estimated cost of recording")


def print_report(capture: Capture | Run, options: ReportOptions, stream: TextIO | None = None) -> None:
    """Print the table, then write the files; files that cannot be written are reported at the end.

    Where a program's GPU was recorded and no grouping is requested, its table follows; the files are of the first.
    """
    if not isinstance(capture, Run) or capture.capture("time"):
        by, clock = choose_grouping(main_capture(capture), options.by, options.clock)
        wrong = first_given(options, OF_THREADS) if clock != THREADS else ""
        if wrong:
            raise UsageError(f"{wrong} is for the time of threads; by {by} the table divides that of {clock}")
    choice = {name: getattr(options, name) for name in ("clock", *OF_THREADS)}
    show_usage([capture], options.by, options.view, options.format, options.files, stream, **choice)
