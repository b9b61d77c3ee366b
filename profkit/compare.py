"""`python -m profkit.compare a.profkit b.profkit`: two captures in; rows added, gone, faster, slower out.

Two results of operators' commands are compared row by row.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from profkit.attribution.comparison import compare
from profkit.attribution.profiles import profile_of, usual_grouping
from profkit.capture.output_files import check_targets, write_atomically
from profkit.cli import guarded
from profkit.commands.arguments import KIND, TOP, Parser, made_options
from profkit.commands.opening import open_any
from profkit.commands.showing import printed, refuse, written
from profkit.errors import UsageError
from profkit.measurement.options import OPTIONS, SHARE, option
from profkit.measurement.result import Result
from profkit.measurement.statistics import noise_floor
from profkit.measurement.statistics.judging import judge_tables
from profkit.measurement.statistics.result_changes import RATIO, WAYS
from profkit.rendering.names import difference_lines
from profkit.rendering.results.comparison import compare_results, result_comparison_document, result_comparison_to_json
from profkit.rendering.tables.document import Document
from profkit.rendering.tables.json_file import render_json
from profkit.rendering.usage.comparison import (
    ComparisonRequest,
    comparison_table,
    comparison_to_json,
)

FAILED = 4
_EXAMPLES = """examples:
  profkit compare before.profkit after.profkit                  which operators changed, by how much
  profkit compare torch.profkit tensorflow.profkit              layer by layer
  profkit compare before.profkit after.profkit --by kind
  profkit compare before.json.gz after.json.gz --by kernel      GPU traces, kernel by kernel
  profkit compare before.profkit after.profkit --fail-on 5%     for CI: exit code 4 if b is slower
  profkit compare before.json after.json --fail-on 5%           results, row by row
  profkit compare before.json after.json --by time              absolute times

exit codes: 0 compared, 1 a file cannot be used, 2 wrong usage, or --fail-on for runs that cannot be compared fairly, \
4 with --fail-on: the step, a row of at least 1% of it, or a row of a result is slower by more than that, and this is \
resolved; times from a busy machine are never resolved, so they do not fail"""


@dataclass(frozen=True)
class CompareOptions:
    by: str | None = option(
        None,
        OPTIONS,
        "what a row is; networks: operator (layer, phase and type), layer, kind, type or name "
        "[operator, or layer if the frameworks differ]; programs and GPU traces: name, path, category, domain or "
        "thread [name], for GPU work operator, layer, phase, kernel, launch, gemm, copy, stream or device; "
        "results: ratio to the common baseline, or time [ratio]",
        form=KIND,
    )
    margin: float = option(0.02, OPTIONS, "smaller changes count as the same", form=SHARE)
    fail_on: float | None = option(
        None, OPTIONS, "exit with 4 if B is slower by more than this and the difference is resolved", form=SHARE
    )
    force: bool = option(False, OPTIONS, "judge although networks, threads or machines differ, or were busy")
    top: int | None = option(30, OPTIONS, "rows to print, or all", form=TOP)
    json: str | None = option(
        None, OPTIONS, "all rows, schema profkit.comparison/1; of results profkit.result_comparison/1"
    )
    markdown: str | None = option(None, OPTIONS, "all rows, for an issue or a pull request")


def _run(words: Sequence[str]) -> int:
    description = "Compare two captures of networks, or of programs and GPU traces: what changed, with intervals.\n"
    description += "Two results of operators' commands are compared row by row, relative to their common baseline."
    parser = Parser("profkit compare", description, _EXAMPLES)
    parser.usage = "profkit compare A B [flags]"
    earlier = "earlier file, written by profkit network, trace or record, torch.profiler, nsys, or --json"
    parser.add_argument("a", metavar="A", help=earlier)
    parser.add_argument("b", metavar="B", help="later file of the same kind")
    parser.add_options(CompareOptions)
    arguments = parser.parse(words)
    options = made_options(CompareOptions, arguments)
    names = (arguments.a, arguments.b)
    check_targets((options.json, options.markdown), sources=names)
    a, b = open_any(arguments.a), open_any(arguments.b)
    if isinstance(a, Result) and isinstance(b, Result):
        return _compare_results(a, b, names, options)
    if isinstance(a, Result) or isinstance(b, Result):
        raise UsageError("one file is a result, the other a capture: they have no rows in common")
    by = options.by or usual_grouping(a, b)
    profiles = profile_of(a, by), profile_of(b, by)
    if profiles[0].per != profiles[1].per:
        pers = " and ".join(f"times per {each.per}" for each in profiles)
        raise UsageError(f"by {by} the captures have {pers}: they have no rows in common")
    floor = noise_floor.machine_time_floor()
    judge = partial(judge_tables, floor=floor[0])
    comparison = compare(*profiles, judge, options.margin, options.fail_on, options.force)
    _refuse(difference_lines(comparison.unfair, is_unfair=True), options, "record both in the same way")
    request = ComparisonRequest(*names, options.margin, floor, options.fail_on, options.top, options.force)
    everything = comparison_table(comparison, replace(request, top=None))
    _show(comparison_table(comparison, request), everything, comparison_to_json(comparison, request), options)
    return FAILED if comparison.failed else 0


def _compare_results(a: Result, b: Result, names: tuple[str, str], options: CompareOptions) -> int:
    by = RATIO if options.by is None else options.by
    if by not in WAYS:
        raise UsageError(f"--by {by} is for captures; results are compared by {' or '.join(WAYS)}")
    comparison = compare_results(a, b, by, options.margin, options.fail_on, options.force)
    _refuse(comparison.unfair, options, "measure both in the same way")
    shown, everything = (result_comparison_document(comparison, *names, top) for top in (options.top, None))
    _show(shown, everything, result_comparison_to_json(comparison, *names), options)
    return FAILED if comparison.changes.failed else 0


def _refuse(unfair: Sequence[str], options: CompareOptions, alike: str) -> None:
    """A limit that is kept or broken because something else changed would be no check."""
    if options.fail_on is None or options.force or not unfair:
        return
    lines = "\n".join(f"  {line}" for line in unfair)
    raise UsageError(f"--fail-on compares like with like, but:\n{lines}\n  {alike}, or add --force")


def _show(shown: Document, everything: Document, numbers: dict[str, Any], options: CompareOptions) -> None:
    jobs = []
    if options.json:
        jobs.append(partial(write_atomically, options.json, render_json(numbers)))
    if options.markdown:
        jobs.append(partial(write_atomically, options.markdown, everything.markdown()))
    refuse(printed(partial(shown.print, sys.stdout), sys.stdout) + written(jobs))


main = partial(guarded, "compare", _run)

if __name__ == "__main__":
    raise SystemExit(main())
